//! Operators that die: at any moment, of anything, with writes on their way. The end is the same as
//! without.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use std::time::Duration;

use grove_runtime::rng::Rng;
use grove_testbed::cluster::TestCluster;
use grove_testbed::kinds::{CLIQUES, GROUPS, PODS, SETS};
use grove_testbed::mirror::{Mirror, Namespace, State, text};
use grove_testbed::normalized::Normalized;
use grove_testbed::operator::{OPERATOR, Operator, Setup};
use grove_testbed::sets::{self, Manifest as _};
use serde_json::{Value, json};
use xtask::cluster::Kube;

/// The CRDs are there after the first start.
const AGAIN: Setup<'_> = Setup {
    configuration: "",
    instance: "operator-0",
    install_crds: false,
    init_image: Some("grove-initc:test"),
};

/// A part of the life of a set: what the user does, and how many pods there are and have ever been
/// when it is done.
struct Phase {
    name: &'static str,
    pods: usize,
    ever: usize,
    kills: usize,
}

const PHASES: [Phase; 5] = [
    Phase { name: "deploy", pods: 25, ever: 25, kills: 40 },
    Phase { name: "scale out", pods: 36, ever: 36, kills: 24 },
    Phase { name: "scale in", pods: 8, ever: 36, kills: 18 },
    Phase { name: "update", pods: 8, ever: 44, kills: 24 },
    Phase { name: "delete", pods: 0, ever: 44, kills: 18 },
];

/// Five replicas of everything there is, with start order and an autoscaler.
fn set() -> Value {
    let mut set = sets::small("demo").replicas(5).start_order("InOrder");
    set["spec"]["template"]["cliques"][0]["spec"]["autoScalingConfig"] =
        json!({ "maxReplicas": 5 });
    set
}

async fn scale(namespace: &Namespace, targets: &[(grove_testbed::kinds::Kind, &str, i32)]) {
    for (kind, name, replicas) in targets {
        let patch = json!({ "spec": { "replicas": replicas } });
        namespace.patch(*kind, &format!("{name}/scale"), patch).await;
    }
}

impl Phase {
    /// What the user does. Changes of the set need the webhooks.
    async fn act(&self, namespace: &Namespace) {
        match self.name {
            "deploy" => drop(namespace.create(SETS, &set()).await),
            "scale out" => {
                let targets = [
                    (SETS, "demo", 6),
                    (GROUPS, "demo-0-decode", 4),
                    (CLIQUES, "demo-1-router", 3),
                ];
                scale(namespace, &targets).await;
            }
            "update" => {
                let stored = namespace.object(SETS, "demo");
                namespace.patch(SETS, "demo", sets::new_image(&stored, None, "new")).await;
            }
            "scale in" => {
                let targets = [
                    (SETS, "demo", 2),
                    (GROUPS, "demo-0-decode", 1),
                    (CLIQUES, "demo-1-router", 1),
                ];
                scale(namespace, &targets).await;
            }
            _ => namespace.delete(SETS, "demo").await,
        }
    }

    async fn until_done(&self, namespace: &Namespace) {
        let what = format!("{} is done, with {} pods", self.name, self.pods);
        namespace
            .until_is(&what, |state| {
                let done = if self.pods == 0 { state.is_empty() } else { state.is_complete() };
                done && state.of(PODS).len() == self.pods
            })
            .await;
    }
}

/// How the set looks after each phase when nothing happens to the operator.
async fn undisturbed(cluster: &TestCluster, mirror: &Mirror) -> Vec<Normalized> {
    let namespace = mirror.new_namespace("undisturbed").await;
    let mut expected = Vec::new();
    for phase in &PHASES {
        phase.act(&namespace).await;
        phase.until_done(&namespace).await;
        cluster.until_caught_up(mirror).await;
        namespace.until_gangs_run().await;
        expected.push(namespace.normalized());
    }
    expected
}

/// Lets the operator send some writes, or live for a while, and kills it in whatever it does then.
async fn kill(operator: Operator, mark: usize, rng: &Rng) {
    let clock = operator.env.clock.clone();
    let count = usize::try_from(rng.next_u64() % 9).unwrap();
    let life = Duration::from_millis(rng.next_u64() % 250);
    clock.timeout(life, operator.requests.until_writes(mark, count)).await;
    clock.sleep(Duration::from_micros(rng.next_u64() % 8000)).await;
    operator.crash().await;
}

fn ever(namespace: &Namespace) -> usize {
    namespace.look(|state| state.ever(PODS))
}

async fn killed_all_the_time(
    cluster: &TestCluster,
    mirror: &Mirror,
    expected: &[Normalized],
    seed: u64,
) {
    let rng = Rng::seeded(seed);
    let namespace = mirror.new_namespace(&format!("seed-{seed}")).await;
    for (phase, expected) in PHASES.iter().zip(expected) {
        let mut operator = cluster.operator(AGAIN).await;
        let mut mark = operator.requests.mark();
        phase.act(&namespace).await;
        for _ in 0..phase.kills {
            kill(operator, mark, &rng).await;
            operator = cluster.start_operator(AGAIN).await;
            mark = 0;
        }
        let what = format!("seed {seed}: after {} with kills", phase.name);
        namespace.until_equal(&what, expected).await;
        assert_eq!(ever(&namespace), phase.ever, "{what}: pods ever created");
        operator.crash().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn hundreds_of_kills_at_random_moments_change_nothing_about_the_end() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    let expected = undisturbed(&cluster, &mirror).await;
    operator.crash().await;
    let seeds = [1, 2];
    assert!(seeds.len() * PHASES.iter().map(|phase| phase.kills).sum::<usize>() >= 200);
    for seed in seeds {
        println!("seed {seed}");
        killed_all_the_time(&cluster, &mirror, &expected, seed).await;
    }
}

// === hand-over ===

const ELECTION: &str =
    "leaderElection: {enabled: true, leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 200ms}";

fn elected(instance: &str) -> Setup<'_> {
    Setup { configuration: ELECTION, instance, ..AGAIN }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn a_hand_over_in_the_middle_changes_nothing_about_the_end() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    let expected = undisturbed(&cluster, &mirror).await;
    operator.stop().await;

    let namespace = mirror.new_namespace("handed-over").await;
    let names: Vec<String> =
        (0..=PHASES.len()).map(|number| format!("operator-{number}")).collect();
    let mut leader = cluster.operator(elected(&names[0])).await;
    for (number, (phase, expected)) in PHASES.iter().zip(&expected).enumerate() {
        let follower = cluster.start_operator(elected(&names[number + 1])).await;
        let mark = leader.requests.mark();
        phase.act(&namespace).await;
        let clock = leader.env.clock.clone();
        let some = leader.requests.until_writes(mark, 5);
        clock.timeout(grove_testbed::DEADLINE, some).await.expect("the leader acts");
        assert_eq!(follower.writes_since(0), [""; 0], "a follower only watches");
        // A crash lets the lease run out, a stop releases it.
        if number % 2 == 0 {
            leader.crash().await;
        } else {
            leader.stop().await;
        }
        let what = format!("after {} with a hand-over", phase.name);
        namespace.until_equal(&what, expected).await;
        assert_eq!(ever(&namespace), phase.ever, "{what}: pods ever created");
        follower.ready().await;
        leader = follower;
    }
    leader.stop().await;
}

// === writes that arrive late ===

/// Host names of the pods that are not terminating, with repetitions.
fn hosts(state: &State) -> Vec<String> {
    let staying = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null();
    let pods = state.of(PODS).into_iter().filter(|pod| staying(pod));
    let mut hosts: Vec<String> =
        pods.map(|pod| text(&pod["spec"]["hostname"]).to_owned()).collect();
    hosts.sort();
    hosts
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn creates_that_arrive_after_the_next_operator_made_up_for_them_leave_no_double() {
    let cluster = TestCluster::full(&OPERATOR, Kube::default());
    let operator = cluster.operator(Setup::default()).await;
    let mirror = cluster.mirror().await;
    let namespace = mirror.new_namespace("late").await;
    let pods = 8;
    operator.requests.lose(|sent| sent.creates(PODS.plural));
    // Never on a node, so that the pods differ only in age and name.
    let mut set = sets::set("demo", &[sets::clique("worker", 8)], &[]);
    let pod = &mut set["spec"]["template"]["cliques"][0]["spec"]["podSpec"];
    pod["nodeSelector"] = json!({ "no": "such-node" });
    namespace.create(SETS, &set).await;
    let late = operator.requests.take_lost(pods).await;
    operator.crash().await;

    let operator = cluster.start_operator(AGAIN).await;
    namespace.until_is("the next one makes up for them", |state| hosts(state).len() == pods).await;
    let client = cluster.client_of_account().await;
    for request in late {
        client.request::<Value>(request).await.unwrap();
    }
    let expected: Vec<String> = (0..pods).map(|index| format!("demo-0-worker-{index}")).collect();
    namespace.until_is("late pods arrive", |state| state.ever(PODS) == 2 * pods).await;
    namespace.until_is("each index once", |state| hosts(state) == expected).await;
    operator.stop().await;
}
