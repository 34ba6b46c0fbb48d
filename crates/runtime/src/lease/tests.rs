use std::sync::{Arc, Mutex};

use http_body_util::BodyExt;
use proptest::prelude::*;

use super::*;
use crate::tasks::Tasks;

fn config(identity: &str) -> LeaseConfig {
    LeaseConfig::new(ObjectKey::new("grove-system", "operator"), identity.to_owned())
}

fn at(seconds: u64) -> Instant {
    Instant::START + Duration::from_secs(seconds)
}

fn held_by(holder: &str, since: Instant) -> Observed {
    Observed { lease: json!({ "spec": { "holderIdentity": holder } }), since }
}

#[test]
fn each_observation_of_the_lease_has_its_step() {
    let cases = [
        ("no lease is created", None, 0, Step::Create),
        ("our own lease is renewed", Some(held_by("me", at(0))), 2, Step::Renew),
        (
            "our own lease is renewed even after a long pause",
            Some(held_by("me", at(0))),
            99,
            Step::Renew,
        ),
        ("a released lease is taken at once", Some(held_by("", at(0))), 0, Step::Take),
        ("a fresh foreign lease is left alone", Some(held_by("other", at(0))), 15, Step::Wait),
        ("a silent foreign lease is taken", Some(held_by("other", at(0))), 16, Step::Take),
        ("silence counts from our own observation", Some(held_by("other", at(10))), 25, Step::Wait),
    ];
    for (name, observed, now, expected) in cases {
        assert_eq!(step(observed.as_ref(), &config("me"), at(now)), expected, "{name}");
    }
}

#[test]
fn a_leader_stops_at_its_deadline_without_a_signal() {
    let (sender, receiver) = watch::channel(Standing::LeaderUntil(at(10)));
    let leadership = Leadership(receiver);

    assert!(leadership.held(at(9)));
    assert!(!leadership.held(at(10)));
    sender.send_replace(Standing::Follower);
    assert!(!leadership.held(at(0)));
    assert!(Leadership::without_election().held(at(1_000_000)));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_loss_ends_at_the_deadline() {
    let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
    let (_sender, receiver) = watch::channel(Standing::LeaderUntil(at(10)));
    let leadership = Leadership(receiver);

    leadership.acquired(&clock).await;
    leadership.lost(&clock).await;

    assert_eq!(clock.now(), at(10));
}

/// A fake API server with one lease.
#[derive(Clone, Default)]
struct Leases(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
    /// How many of the next updates another program precedes with a change.
    interference: usize,
    conflicts: usize,
}

impl Stored {
    fn put(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        lease
    }

    fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        let mut lease = self.lease.clone().unwrap();
        change(&mut lease);
        self.put(lease);
    }

    fn answer(&mut self, method: &http::Method, body: &[u8]) -> (u16, Value) {
        let sent = || serde_json::from_slice::<Value>(body).unwrap();
        let status = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Conflict" };
            let status = json!({ "kind": "Status", "status": "Failure", "code": code,
                "reason": reason, "message": reason });
            (code, status)
        };
        match (method.as_str(), self.lease.clone()) {
            ("GET", Some(lease)) => (200, lease),
            ("POST", None) => (201, self.put(sent())),
            ("PUT", Some(_)) => {
                if self.interference > 0 {
                    self.interference -= 1;
                    self.edit(|lease| lease["metadata"]["labels"]["team"] = json!("infra"));
                }
                let version = sent()["metadata"]["resourceVersion"].clone();
                if version != json!(self.version.to_string()) {
                    self.conflicts += 1;
                    return status(409);
                }
                (200, self.put(sent()))
            }
            (_, None) => status(404),
            _ => status(409),
        }
    }
}

impl Leases {
    fn stored(&self) -> std::sync::MutexGuard<'_, Stored> {
        self.0.lock().unwrap()
    }

    fn client(&self) -> Client {
        let leases = self.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let leases = leases.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let (code, answer) = leases.stored().answer(&head.method, &body);
                let body = kube::client::Body::from(answer.to_string().into_bytes());
                Ok::<_, tower::BoxError>(http::Response::builder().status(code).body(body)?)
            }
        });
        Client::new(service, "default")
    }

    /// A process that takes part in the election until the shutdown.
    fn elect(&self, env: &Env, tasks: &Tasks, identity: &str) -> (Leadership, Shutdown) {
        let elector = Elector::new(self.client(), env, config(identity));
        let (leadership, shutdown) = (elector.leadership(), Shutdown::new());
        tasks.spawner().spawn(elector.run(shutdown.clone()));
        (leadership, shutdown)
    }

    fn holder(&self) -> String {
        let stored = self.stored();
        let lease = stored.lease.as_ref().unwrap();
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }
}

fn env() -> Env {
    Env::new(Clock::at(jiff::Timestamp::UNIX_EPOCH), 1)
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_lease_by_another_program_does_not_end_the_leadership() {
    let (leases, env, tasks) = (Leases::default(), env(), Tasks::new());
    let (leadership, shutdown) = leases.elect(&env, &tasks, "me");
    leadership.acquired(&env.clock).await;

    // One conflict per renewal at first, then two.
    for interference in [1, 1, 1, 2, 2] {
        let before = leases.stored().conflicts;
        leases.stored().interference = interference;
        let lost = env.clock.timeout(Duration::from_secs(5), leadership.lost(&env.clock)).await;
        assert!(lost.is_none(), "still leading");
        assert_eq!(leases.stored().conflicts, before + interference);
    }
    assert_eq!(leases.stored().lease.as_ref().unwrap()["metadata"]["labels"]["team"], "infra");
    // The release has a conflict as well.
    leases.stored().interference = 1;
    shutdown.start();
    tasks.join().await;
    assert_eq!(leases.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_replaced_holder_becomes_a_follower() {
    let (leases, env, tasks) = (Leases::default(), env(), Tasks::new());
    let (leadership, shutdown) = leases.elect(&env, &tasks, "me");
    leadership.acquired(&env.clock).await;

    leases.stored().edit(|lease| lease["spec"]["holderIdentity"] = json!("other"));

    leadership.lost(&env.clock).await;
    assert!(env.clock.now() < at(3), "with the next renewal: {:?}", env.clock.now());
    shutdown.start();
    tasks.join().await;
    assert_eq!(leases.holder(), "other", "a follower releases nothing");
}

#[tokio::test(start_paused = true)]
async fn permanent_conflicts_end_the_leadership_at_its_deadline() {
    let (leases, env, tasks) = (Leases::default(), env(), Tasks::new());
    let (leadership, _shutdown) = leases.elect(&env, &tasks, "me");
    leadership.acquired(&env.clock).await;

    leases.stored().interference = usize::MAX;

    leadership.lost(&env.clock).await;
    assert!(env.clock.now() <= at(12), "{:?}", env.clock.now());
}

#[tokio::test(start_paused = true)]
async fn edits_of_the_lease_do_not_delay_the_replacement_of_a_killed_holder() {
    let (leases, env, killed, tasks) = (Leases::default(), env(), Tasks::new(), Tasks::new());
    let (first, _) = leases.elect(&env, &killed, "first");
    first.acquired(&env.clock).await;
    let (second, _) = leases.elect(&env, &tasks, "second");
    env.clock.sleep(Duration::from_secs(2)).await;
    drop(killed);
    let killed_at = env.clock.now();
    let edits = async {
        loop {
            let now = format!("{:?}", env.clock.now());
            leases.stored().edit(|lease| lease["metadata"]["labels"]["at"] = json!(now));
            env.clock.sleep(Duration::from_millis(500)).await;
        }
    };

    tokio::select! {
        () = second.acquired(&env.clock) => {}
        () = edits => unreachable!("without end"),
    }

    let took = env.clock.now().since(killed_at).as_secs();
    assert!((13..=19).contains(&took), "leaseDuration and up to one retryPeriod: {took} s");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_holder_is_replaced_within_a_retry_period() {
    let (leases, env, stopped, tasks) = (Leases::default(), env(), Tasks::new(), Tasks::new());
    let (first, shutdown) = leases.elect(&env, &stopped, "first");
    first.acquired(&env.clock).await;
    let (second, _) = leases.elect(&env, &tasks, "second");
    env.clock.sleep(Duration::from_secs(1)).await;

    shutdown.start();
    stopped.join().await;
    let stopped_at = env.clock.now();
    second.acquired(&env.clock).await;

    assert!(env.clock.now().since(stopped_at) <= Duration::from_secs(2));
}

#[derive(Clone, Debug)]
enum Move {
    /// Process `0`/`1` tries to acquire or renew; the reply may be lost.
    Attempt { who: usize, reply_lost: bool },
    /// Time passes (seconds) on both clocks; a paused process makes no attempt.
    Pass(u64),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let attempt = (0..2_usize, prop::bool::weighted(0.2))
        .prop_map(|(who, reply_lost)| Move::Attempt { who, reply_lost });
    prop::collection::vec(prop_oneof![3 => attempt, 2 => (0..12_u64).prop_map(Move::Pass)], 1..200)
}

/// The lease on the server: holder and revision.
#[derive(Clone, Debug, Default)]
struct Server {
    holder: String,
    revision: u64,
}

proptest! {
    /// For all orders of attempts, pauses and lost replies and for all clock offsets, two processes never
    /// lead at the same time.
    #[test]
    fn at_most_one_leads(moves in moves(), skew in 0..1000_u64) {
        let configs = [config("a"), config("b")];
        let skews = [0, skew];
        let mut server: Option<Server> = None;
        let mut observed: [Option<(Server, Instant)>; 2] = [None, None];
        let mut leads_until = [Instant::START; 2];
        let mut time = 0_u64;

        for a_move in moves {
            match a_move {
                Move::Pass(seconds) => time += seconds,
                Move::Attempt { who, reply_lost } => {
                    let now = at(time + skews[who]);
                    let fresh = server.clone();
                    let same = |old: &(Server, Instant)| {
                        Some(old.0.revision) == fresh.as_ref().map(|s| s.revision)
                    };
                    if !observed[who].as_ref().is_some_and(same) {
                        observed[who] = fresh.map(|server| (server, now));
                    }
                    let stored = observed[who].as_ref().map(|(server, since)| {
                        held_by(&server.holder, *since)
                    });
                    let step = step(stored.as_ref(), &configs[who], now);
                    if step == Step::Wait {
                        continue;
                    }
                    let revision = server.as_ref().map_or(0, |s| s.revision) + 1;
                    let written =
                        Server { holder: configs[who].identity.clone(), revision };
                    server = Some(written.clone());
                    if !reply_lost {
                        observed[who] = Some((written, now));
                        leads_until[who] = now + configs[who].renew_deadline;
                    }
                }
            }
            let leading = [0, 1].map(|who| at(time + skews[who]) < leads_until[who]);
            prop_assert!(leading != [true, true], "both lead at {time}");
        }
    }
}
