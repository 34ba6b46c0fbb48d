//! A set can lose only what it had: being up, slow starts, losses and clocks, in every order that the
//! rules distinguish.

use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::SimulatedCluster;
use super::{clique, deleted, event_reasons, group, set, small, story, uids};
use grove_testbed::invariants::{is_ready, label};

/// The termination delay of all sets here, in seconds.
const DELAY: u64 = 10;
const TERMINATED: &str = "PodCliqueSetReplicaDeleteSuccessful";

/// One clique alone, or the same as the member of a group that runs once.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Standalone,
    Member,
}

impl Shape {
    const ALL: [Self; 2] = [Self::Standalone, Self::Member];

    fn set(self) -> Value {
        match self {
            Self::Standalone => set(1, &[clique("a", 2, 2)], &[]),
            Self::Member => {
                let cliques = [clique("a", 2, 2), clique("b", 1, 1)];
                set(1, &cliques, &[group("g", &["a"], 1, 1)])
            }
        }
    }

    fn clique(self) -> &'static str {
        match self {
            Self::Standalone => "x-0-a",
            Self::Member => "x-0-g-0-a",
        }
    }
}

fn pods(cluster: &SimulatedCluster, clique: &str) -> Vec<String> {
    let pods = cluster.api.all("pods");
    let of_clique = pods.iter().filter(|pod| label(pod, "grove.io/podclique") == clique);
    of_clique.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn until_up(cluster: &mut SimulatedCluster) {
    for _ in 0..600 {
        let pods = cluster.api.all("pods");
        if pods.len() >= 2 && pods.iter().all(is_ready) {
            return;
        }
        cluster.tick().await;
    }
    panic!("not up\n{}", cluster.summary());
}

fn condition(cluster: &SimulatedCluster, clique: &str, type_: &str) -> Value {
    let clique = cluster.api.get("podcliques", clique).unwrap();
    let conditions = clique["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == type_).unwrap_or_default()
}

#[derive(Clone, Copy, Debug)]
enum Restart {
    Never,
    BeforeTheLoss,
    AfterTheLoss,
}

#[test]
fn what_was_up_for_a_moment_and_is_lost_is_terminated_once_after_the_delay() {
    use Restart::{AfterTheLoss, BeforeTheLoss, Never};
    for shape in Shape::ALL {
        for up_for in [1, 10, 60] {
            for restart in [Never, BeforeTheLoss, AfterTheLoss] {
                story(up_and_lost(shape, up_for, restart, 0));
            }
        }
    }
}

#[test]
fn the_clock_of_the_operator_may_be_ahead_or_behind() {
    for shape in Shape::ALL {
        for skew in [-30, 30] {
            story(up_and_lost(shape, 1, Restart::AfterTheLoss, skew));
            story(slow_start(shape, 2 * DELAY, skew));
        }
    }
}

/// Pods are up for so many ticks, then one never runs again.
async fn up_and_lost(shape: Shape, up_for: u32, restart: Restart, skew: i64) {
    let what = format!("{shape:?}, up for {up_for} ticks, {restart:?}, skew {skew}");
    let mut cluster = SimulatedCluster::with_skew(&[100], skew).await;
    cluster.create(shape.set());
    until_up(&mut cluster).await;
    for _ in 0..up_for {
        cluster.tick().await;
    }
    let first = uids(&cluster);
    if matches!(restart, Restart::BeforeTheLoss) {
        cluster.kill();
    }
    cluster.nodes[0] = 0;
    cluster.api.delete("pods", &pods(&cluster, shape.clique())[0]);
    if matches!(restart, Restart::AfterTheLoss) {
        cluster.run(2).await;
        cluster.kill();
    }
    if !cluster.is_running() {
        cluster.start();
    }
    // A condition has whole seconds.
    cluster.run(DELAY - 4).await;
    assert_eq!(uids(&cluster), first, "{what}: the delay is not over");
    assert_eq!(condition(&cluster, shape.clique(), "MinAvailableBreached")["status"], "True");
    cluster.run(6).await;
    let second = uids(&cluster);
    assert!(first.is_disjoint(&second), "{what}: {}", cluster.summary());
    let events = ["MinAvailableBreached", TERMINATED];
    assert_eq!(event_reasons(&cluster, &events), events, "{what}");
    cluster.run(6 * DELAY).await;
    assert_eq!(uids(&cluster), second, "{what}: what cannot be scheduled has lost nothing");
    cluster.nodes[0] = 100;
    cluster.until_settled(60).await;
    assert_eq!(uids(&cluster), second, "{what}");
}

#[test]
fn what_starts_slowly_is_left_alone() {
    for shape in Shape::ALL {
        for seconds in [2 * DELAY, 4 * DELAY] {
            story(slow_start(shape, seconds, 0));
        }
    }
}

/// Containers run and are not ready for so long; then the set is up, loses everything, is terminated, and
/// starts as slowly again.
async fn slow_start(shape: Shape, seconds: u64, skew: i64) {
    let mut cluster = SimulatedCluster::with_skew(&[100], skew).await;
    cluster.start_up_seconds = seconds;
    cluster.create(shape.set());
    cluster.run(seconds).await;
    assert_eq!(condition(&cluster, shape.clique(), "MinAvailableReached")["status"], "False");
    cluster.until_settled(30).await;
    assert_eq!(deleted(&cluster), [""; 0], "{shape:?} {seconds}: it was never ready");
    let first = uids(&cluster);

    for pod in pods(&cluster, shape.clique()) {
        cluster.set_ready(&pod, false);
    }
    cluster.run(DELAY + 2).await;
    let second = uids(&cluster);
    assert!(first.is_disjoint(&second), "{shape:?} {seconds}: it has lost what it had");
    cluster.until_settled(seconds + 30).await;
    assert_eq!(uids(&cluster), second, "{shape:?} {seconds}: recreated, and slow again");
    cluster.run(3 * DELAY).await;
    assert_eq!(uids(&cluster), second);
}

#[test]
fn what_is_up_for_a_moment_without_any_status_of_it_is_remembered() {
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        cluster.start_up_seconds = 1_000;
        cluster.create(set(1, &[clique("a", 2, 2)], &[]));
        cluster.run(4).await;
        let first = uids(&cluster);
        // Ready and lost between two moments at which the operator runs.
        for pod in pods(&cluster, "x-0-a") {
            cluster.set_ready(&pod, true);
        }
        for pod in pods(&cluster, "x-0-a") {
            cluster.set_ready(&pod, false);
        }
        let lost = cluster.now();
        cluster.run(2).await;
        let breached = condition(&cluster, "x-0-a", "MinAvailableBreached");
        assert_eq!(breached["status"], "True");
        let reached = condition(&cluster, "x-0-a", "MinAvailableReached");
        assert_eq!(
            (&reached["status"], &breached["lastTransitionTime"]),
            (&json!("True"), &reached["lastTransitionTime"]),
            "lost at {lost}"
        );
        cluster.run(DELAY).await;
        assert!(first.is_disjoint(&uids(&cluster)));
    });
}

#[test]
fn a_termination_keeps_the_replicas_that_cliques_and_groups_were_scaled_to() {
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        cluster.create(small(1));
        cluster.until_settled(60).await;
        cluster.api.edit("podcliquescalinggroups", "x-0-g", |group| {
            group["spec"]["replicas"] = json!(4);
            group["metadata"]["generation"] = json!(2);
        });
        cluster.api.edit("podcliques", "x-0-a", |clique| {
            clique["spec"]["replicas"] = json!(5);
            clique["metadata"]["generation"] = json!(2);
        });
        cluster.until_settled(60).await;
        let first = uids(&cluster);
        for pod in pods(&cluster, "x-0-a") {
            cluster.set_ready(&pod, false);
        }
        cluster.run(DELAY + 2).await;
        cluster.until_settled(60).await;
        assert!(first.is_disjoint(&uids(&cluster)));
        assert_eq!(pods(&cluster, "x-0-a").len(), 5);
        let gang = cluster.api.get("podgangs", "x-0").unwrap();
        assert_eq!(gang["metadata"]["annotations"]["grove.io/recreated-replicas"], Value::Null);
        assert_eq!(
            uids(&cluster).len(),
            first.len(),
            "one alone, and two in each of four replicas"
        );
    });
}

#[test]
fn a_termination_that_is_interrupted_deletes_each_clique_once() {
    for ticks in 8..24 {
        story(async {
            let mut cluster = SimulatedCluster::new(&[100]).await;
            cluster.create(small(1));
            cluster.until_settled(60).await;
            let first = uids(&cluster);
            cluster.deleted.clear();
            for pod in pods(&cluster, "x-0-a") {
                cluster.set_ready(&pod, false);
            }
            cluster.run(DELAY - 2).await;
            // Every write takes a moment, so that the kill falls between two of them.
            cluster.api.slow_down(Duration::from_millis(60));
            for _ in 0..ticks {
                cluster.tick().await;
            }
            cluster.kill();
            cluster.start();
            cluster.until_settled(120).await;
            assert!(first.is_disjoint(&uids(&cluster)), "killed after {ticks}");
            let names = deleted(&cluster);
            let cliques = names.iter().filter(|name| !name.starts_with("pod")).count();
            assert_eq!(cliques, first.len(), "killed after {ticks}: {names:?}");
        });
    }
}

#[test]
fn a_termination_goes_on_when_its_groups_report_something_else_meanwhile() {
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        cluster.create(small(1));
        cluster.until_settled(60).await;
        let first = uids(&cluster);
        for pod in pods(&cluster, "x-0-a") {
            cluster.set_ready(&pod, false);
        }
        cluster.run(DELAY - 2).await;
        cluster.api.slow_down(Duration::from_millis(300));
        let is_announced = |cluster: &SimulatedCluster| {
            let group = cluster.api.get("podcliquescalinggroups", "x-0-g").unwrap();
            let conditions = group["status"]["conditions"].as_array().unwrap().clone();
            conditions.iter().any(|one| one["type"] == "GangTerminationInProgress")
        };
        for _ in 0..100 {
            if is_announced(&cluster) {
                break;
            }
            cluster.tick().await;
        }
        cluster.kill();
        assert!(is_announced(&cluster));
        assert_eq!(uids(&cluster), first, "nothing is deleted yet");
        cluster.api.edit("podcliquescalinggroups", "x-0-g", |group| {
            for one in group["status"]["conditions"].as_array_mut().unwrap() {
                one["message"] = json!("written by the group");
            }
        });
        cluster.start();
        cluster.until_settled(120).await;
        assert!(first.is_disjoint(&uids(&cluster)), "{}", cluster.summary());
    });
}

#[test]
fn objects_without_the_record_are_classified_by_their_other_conditions() {
    let forget = |cluster: &SimulatedCluster| {
        for (plural, name) in [("podcliques", "x-0-g-0-a"), ("podcliquescalinggroups", "x-0-g")] {
            cluster.api.edit(plural, name, |one| {
                let conditions = one["status"]["conditions"].as_array_mut().unwrap();
                conditions.retain(|one| one["type"] != "MinAvailableReached");
            });
        }
    };
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        cluster.create(Shape::Member.set());
        cluster.until_settled(60).await;
        cluster.run(10).await;
        cluster.kill();
        forget(&cluster);
        cluster.start();
        cluster.run(2).await;
        let first = uids(&cluster);
        cluster.lose(0);
        cluster.run(DELAY + 2).await;
        assert!(first.is_disjoint(&uids(&cluster)), "it was up");
    });
    story(async {
        let mut cluster = SimulatedCluster::new(&[0]).await;
        cluster.create(Shape::Member.set());
        cluster.run(10).await;
        cluster.kill();
        forget(&cluster);
        cluster.start();
        let first = uids(&cluster);
        cluster.run(3 * DELAY).await;
        assert_eq!(uids(&cluster), first, "it never was");
    });
}
