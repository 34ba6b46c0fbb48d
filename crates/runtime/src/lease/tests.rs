use proptest::prelude::*;

use super::*;

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
fn the_election_in_a_table() {
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
fn a_leader_stops_at_its_deadline_without_being_told() {
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

#[derive(Clone, Debug)]
enum Move {
    /// Process `0`/`1` tries to acquire or renew; the reply may be lost on the way back.
    Attempt { who: usize, reply_lost: bool },
    /// Time passes (seconds) on the clock of both; a paused process simply makes no attempt.
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
    /// Whatever the order of attempts, pauses and lost replies, and however far apart the two
    /// clocks are: never do two processes believe that they lead.
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
                    let seen = observed[who].as_ref().map(|(server, since)| {
                        held_by(&server.holder, *since)
                    });
                    let wanted = step(seen.as_ref(), &configs[who], now);
                    if wanted == Step::Wait {
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
