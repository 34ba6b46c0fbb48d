//! The operator through failure and change, in virtual time.
//!
//! The whole operator runs against an API server in memory, with nodes that can be lost and pods that
//! can fail. Time passes only when nothing is left to do, so hours take milliseconds, and a sequence of
//! events happens the same way every time. The same stories on a real control plane are in
//! `real_changes.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a test may fail, and owns its tasks"
)]

#[path = "simulation/api.rs"]
mod api;
#[path = "simulation/cluster.rs"]
mod cluster;
#[path = "simulation/errors.rs"]
mod errors;
#[path = "simulation/health.rs"]
mod health;

use std::collections::BTreeSet;

use cluster::{BROKEN, SimulatedCluster, node_of};
use grove_testbed::invariants::{is_ready, label};
use grove_testbed::sets::{self, Manifest as _, group};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

fn clique(name: &str, replicas: i32, minimum: i32) -> Value {
    sets::clique(name, replicas).min_available(minimum).image("a")
}

/// A set `x`, as admission would have it.
fn set(replicas: i32, cliques: &[Value], groups: &[Value]) -> Value {
    let set = sets::set("x", cliques, groups).replicas(replicas);
    set.start_order("AnyOrder").termination_delay("10s")
}

/// Two pods alone, and a group of two cliques that runs twice, half of it in the base gang.
fn small(replicas: i32) -> Value {
    let cliques = [clique("a", 2, 1), clique("b", 1, 1), clique("c", 2, 2)];
    set(replicas, &cliques, &[group("g", &["b", "c"], 2, 1)])
}

/// Runs a story in virtual time.
fn story<T>(run: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(run)
}

async fn settled(nodes: &[usize], set: Value) -> SimulatedCluster {
    let mut cluster = SimulatedCluster::new(nodes).await;
    cluster.create(set);
    cluster.until_settled(60).await;
    cluster.deleted.clear();
    cluster
}

fn uids(cluster: &SimulatedCluster) -> BTreeSet<String> {
    let cliques = cluster.api.all("podcliques");
    cliques.iter().map(|one| one["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
}

/// Names of what was deleted, pods by their clique.
fn deleted(cluster: &SimulatedCluster) -> Vec<String> {
    let name = |one: &Value| {
        let clique = label(one, "grove.io/podclique");
        let own = one["metadata"]["name"].as_str().unwrap();
        if one["spec"]["containers"].is_null() {
            own.to_owned()
        } else {
            format!("pod of {clique}")
        }
    };
    cluster.deleted.iter().map(name).collect()
}

// === termination ===

#[test]
fn a_clique_that_lost_its_nodes_starts_again_after_the_delay_and_once() {
    story(async {
        let mut cluster = settled(&[2, 0], set(1, &[clique("a", 2, 2)], &[])).await;
        let first = uids(&cluster);
        let lost = cluster.now();
        cluster.lose(0);
        cluster.run(9).await;
        assert_eq!(uids(&cluster), first, "the delay is not over");
        cluster.run(2).await;
        assert_ne!(uids(&cluster), first, "lost at {lost}");
        let second = uids(&cluster);
        cluster.run(60).await;
        assert_eq!(uids(&cluster), second, "what was not scheduled again has nothing to lose");
        cluster.nodes[1] = 2;
        cluster.until_settled(60).await;
        assert_eq!(uids(&cluster), second);
    });
}

#[test]
fn a_clique_that_has_its_minimum_back_in_time_stays() {
    story(async {
        let mut cluster = settled(&[2, 0], set(1, &[clique("a", 2, 2)], &[])).await;
        let first = uids(&cluster);
        cluster.lose(0);
        cluster.run(6).await;
        cluster.nodes[1] = 2;
        cluster.run(60).await;
        assert_eq!(uids(&cluster), first);
    });
}

#[test]
fn a_clique_that_flaps_faster_than_the_delay_stays() {
    story(async {
        let mut cluster = settled(&[2], set(1, &[clique("a", 2, 2)], &[])).await;
        let first = uids(&cluster);
        for round in 0..10 {
            let pod = cluster.api.all("pods")[0]["metadata"]["name"].as_str().unwrap().to_owned();
            cluster.set_ready(&pod, round % 2 == 1);
            cluster.run(7).await;
        }
        assert_eq!(uids(&cluster), first);
        let pod = cluster.api.all("pods")[0]["metadata"]["name"].as_str().unwrap().to_owned();
        cluster.set_ready(&pod, false);
        cluster.run(12).await;
        assert_ne!(uids(&cluster), first, "and when it stays down it goes");
    });
}

#[test]
fn what_never_was_scheduled_is_left_to_the_scheduler() {
    story(async {
        let mut cluster = SimulatedCluster::new(&[1]).await;
        cluster.create(small(1));
        cluster.run(5).await;
        let first = uids(&cluster);
        cluster.run(120).await;
        assert_eq!(uids(&cluster), first);
        assert_eq!(deleted(&cluster), [""; 0]);
    });
}

#[test]
fn a_deadline_that_passed_without_an_operator_is_met_at_once() {
    story(async {
        let mut cluster = settled(&[2], set(1, &[clique("a", 2, 2)], &[])).await;
        let first = uids(&cluster);
        cluster.lose(0);
        cluster.run(3).await;
        cluster.kill();
        cluster.run(60).await;
        assert_eq!(uids(&cluster), first);
        cluster.start();
        cluster.run(2).await;
        assert_ne!(uids(&cluster), first);
    });
}

#[test]
fn the_delay_can_be_changed_while_it_runs() {
    story(async {
        let mut cluster = settled(&[2], set(1, &[clique("a", 2, 2)], &[])).await;
        let first = uids(&cluster);
        cluster.lose(0);
        cluster.run(5).await;
        cluster.edit_set(|set| set["spec"]["template"]["terminationDelay"] = json!("1m0s"));
        cluster.run(40).await;
        assert_eq!(uids(&cluster), first);
        cluster.edit_set(|set| set["spec"]["template"]["terminationDelay"] = json!("30s"));
        cluster.run(2).await;
        assert_ne!(uids(&cluster), first);
    });
}

#[test]
fn without_a_delay_what_is_lost_starts_again_at_once_and_by_default_after_four_hours() {
    // Admission lets neither pass: it refuses no delay, and fills in the default.
    for (delay, stays, goes) in [(json!("0s"), 0, 2), (Value::Null, 4 * 3600 - 5, 10)] {
        story(async {
            let mut one = set(1, &[clique("a", 2, 2)], &[]);
            one["spec"]["template"]["terminationDelay"] = delay;
            let mut cluster = settled(&[2], one).await;
            let first = uids(&cluster);
            cluster.lose(0);
            cluster.run(stays).await;
            assert_eq!(uids(&cluster), first);
            cluster.run(goes).await;
            assert_ne!(uids(&cluster), first);
        });
    }
}

/// Those of these reasons that events of the set have, in order and without repetitions.
fn event_reasons(cluster: &SimulatedCluster, reasons: &[&str]) -> Vec<String> {
    let mut events = cluster.api.all("events");
    events.retain(|event| event["involvedObject"]["kind"] == "PodCliqueSet");
    let version = |event: &Value| -> u64 {
        event["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    };
    events.sort_by_key(version);
    let emitted = events.iter().map(|event| event["reason"].as_str().unwrap());
    let mut emitted: Vec<String> =
        emitted.filter(|reason| reasons.contains(reason)).map(str::to_owned).collect();
    emitted.dedup();
    emitted
}

#[test]
fn a_termination_is_reported_from_the_breach_to_the_recovery() {
    let reasons = [
        "MinAvailableBreached",
        "PodCliqueSetReplicaDeleteSuccessful",
        "PodCliqueScalingGroupReplicaDeleteSuccessful",
        "MinAvailableRestored",
    ];
    story(async {
        let mut cluster = settled(&[2, 0], set(1, &[clique("a", 2, 2)], &[])).await;
        assert_eq!(
            event_reasons(&cluster, &reasons),
            [""; 0],
            "a set that comes up has lost nothing"
        );
        cluster.lose(0);
        cluster.run(15).await;
        assert_eq!(event_reasons(&cluster, &reasons), [reasons[0], reasons[1]]);
        // Another operator may report the end than the one that reported the beginning.
        cluster.kill();
        cluster.start();
        cluster.nodes[1] = 2;
        cluster.until_settled(60).await;
        cluster.run(5).await;
        assert_eq!(event_reasons(&cluster, &reasons), [reasons[0], reasons[1], reasons[3]]);
        cluster.set_image(None, "b");
        cluster.until_settled(60).await;
        cluster.run(5).await;
        assert_eq!(event_reasons(&cluster, &reasons).len(), 3, "an update is another story");
    });
    story(async {
        let cliques = [clique("a", 1, 1), clique("b", 1, 1)];
        let mut cluster = settled(&[100], set(1, &cliques, &[group("g", &["b"], 2, 1)])).await;
        let pods = cluster.api.all("pods");
        let pod = pods.iter().find(|pod| label(pod, "grove.io/podclique") == "x-0-g-1-b").unwrap();
        cluster.set_ready(pod["metadata"]["name"].as_str().unwrap(), false);
        cluster.run(11).await;
        cluster.until_settled(60).await;
        cluster.run(5).await;
        assert_eq!(event_reasons(&cluster, &reasons), [reasons[0], reasons[2], reasons[3]]);
        cluster.set_image(None, "b");
        cluster.until_settled(60).await;
        cluster.run(5).await;
        let breaches = ["MinAvailableBreached", "MinAvailableRestored"];
        assert_eq!(event_reasons(&cluster, &breaches), breaches, "an update is another story");
    });
}

#[test]
fn a_group_that_never_was_scheduled_has_nothing_to_lose_after_an_update_either() {
    story(async {
        let cliques = [clique("a", 1, 1), clique("b", 4, 4)];
        let mut cluster = SimulatedCluster::new(&[2]).await;
        cluster.create(set(1, &cliques, &[group("g", &["b"], 1, 1)]));
        cluster.run(20).await;
        let router = cluster.api.get("podcliques", "x-0-a").unwrap();
        assert_eq!(router["status"]["readyReplicas"], 1);
        cluster.set_image(Some(1), "b");
        cluster.run(120).await;
        let after = cluster.api.get("podcliques", "x-0-a").unwrap();
        assert_eq!(after["metadata"]["uid"], router["metadata"]["uid"]);
    });
}

#[test]
fn a_replica_of_a_group_goes_alone_while_the_group_keeps_its_minimum() {
    story(async {
        let set = set(2, &[clique("a", 1, 1), clique("b", 1, 1)], &[group("g", &["b"], 3, 2)]);
        let mut cluster = settled(&[100], set).await;
        let fail = |cluster: &SimulatedCluster, clique: &str| {
            let pods = cluster.api.all("pods");
            for pod in pods.iter().filter(|pod| label(pod, "grove.io/podclique") == clique) {
                cluster.set_ready(pod["metadata"]["name"].as_str().unwrap(), false);
            }
        };
        fail(&cluster, "x-1-g-2-b");
        cluster.run(9).await;
        assert_eq!(deleted(&cluster), [""; 0]);
        cluster.until_settled(30).await;
        assert_eq!(deleted(&cluster), ["x-1-g-2-b", "pod of x-1-g-2-b"]);

        // Two of three are below the minimum: only this replica is recreated, as a whole.
        cluster.deleted.clear();
        fail(&cluster, "x-0-g-1-b");
        fail(&cluster, "x-0-g-2-b");
        cluster.run(11).await;
        cluster.until_settled(30).await;
        let cliques: BTreeSet<String> =
            deleted(&cluster).into_iter().filter(|name| !name.starts_with("pod")).collect();
        assert_eq!(
            cliques,
            ["x-0-a", "x-0-g-0-b", "x-0-g-1-b", "x-0-g-2-b"].map(str::to_owned).into()
        );
    });
}

#[test]
fn a_group_that_stays_down_takes_its_replica_along_once() {
    story(async {
        let set = set(1, &[clique("a", 1, 1), clique("b", 2, 2)], &[group("g", &["b"], 1, 1)]);
        let mut cluster = settled(&[2, 1], set).await;
        // There is room for one pod left: never for the group.
        let node = cluster.api.all("pods").iter().filter_map(node_of).max().unwrap();
        assert_eq!(node, 1);
        cluster.lose(0);
        cluster.run(300).await;
        let cliques: Vec<String> =
            deleted(&cluster).into_iter().filter(|name| !name.starts_with("pod")).collect();
        assert_eq!(cliques.len(), 2, "{cliques:?}");
        let flag = |cluster: &SimulatedCluster| {
            let group = cluster.api.get("podcliquescalinggroups", "x-0-g").unwrap();
            group["status"]["conditions"].to_string().contains("GangTerminationActive")
        };
        assert!(flag(&cluster));
        cluster.nodes[0] = 2;
        cluster.until_settled(60).await;
        assert!(!flag(&cluster));
        assert_eq!(deleted(&cluster).iter().filter(|name| !name.starts_with("pod")).count(), 2);
    });
}

// === updates ===

/// The replicas of the set that pods were deleted from, each time that it was another one.
fn order_of_replicas(cluster: &SimulatedCluster) -> Vec<String> {
    let replica = |one: &Value| label(one, "grove.io/podcliqueset-replica-index").to_owned();
    let mut order: Vec<String> = cluster.deleted.iter().map(replica).collect();
    order.dedup();
    order
}

#[test]
fn replicas_are_updated_one_by_one_and_never_below_the_floor() {
    story(async {
        let cliques = [clique("a", 2, 2), clique("b", 3, 2), clique("c", 1, 1)];
        let mut cluster = settled(&[100], set(4, &cliques, &[])).await;
        cluster.fewest_ready = usize::MAX;
        cluster.set_image(None, "b");
        cluster.until_settled(300).await;
        assert_eq!(order_of_replicas(&cluster), ["0", "1", "2", "3"]);
        assert_eq!(cluster.deleted.len(), 24, "every pod once");
        // In one replica at a time, each clique misses one pod.
        assert!(cluster.fewest_ready >= 24 - 3, "{}", cluster.fewest_ready);
        cluster.run(60).await;
        assert_eq!(cluster.deleted.len(), 24);
    });
}

#[test]
fn groups_are_updated_replica_by_replica_and_others_are_left_alone() {
    story(async {
        let mut cluster = settled(&[100], small(2)).await;
        cluster.set_image(Some(2), "b");
        cluster.until_settled(300).await;
        let names = deleted(&cluster);
        let cliques: Vec<&str> =
            names.iter().filter(|name| !name.starts_with("pod")).map(|name| &name[..5]).collect();
        assert_eq!(cliques, ["x-0-g"; 4].into_iter().chain(["x-1-g"; 4]).collect::<Vec<_>>());
        assert!(!names.iter().any(|name| name.ends_with("-a")), "another template: {names:?}");
    });
}

#[test]
fn a_template_that_does_not_work_stops_the_update() {
    story(async {
        let mut cluster = settled(&[100], set(3, &[clique("a", 2, 1)], &[])).await;
        cluster.edit_set(|set| {
            set["spec"]["template"]["cliques"][0]["annotations"] = json!({ BROKEN: "yes" });
        });
        cluster.run(600).await;
        assert_eq!(deleted(&cluster), ["pod of x-0-a"]);
        let ready = cluster.api.all("pods").iter().filter(|pod| is_ready(pod)).count();
        assert_eq!(ready, 5);
        // Back to the working template: one pod has to be recreated.
        cluster.edit_set(|set| {
            set["spec"]["template"]["cliques"][0]["annotations"] = json!({});
        });
        cluster.until_settled(60).await;
        assert_eq!(deleted(&cluster), ["pod of x-0-a", "pod of x-0-a"]);
    });
}

#[test]
fn another_change_during_an_update_leads_to_the_newest_template() {
    story(async {
        let mut cluster = settled(&[100], set(3, &[clique("a", 2, 1)], &[])).await;
        cluster.set_image(None, "b");
        cluster.run(1).await;
        assert!(!cluster.deleted.is_empty());
        cluster.set_image(None, "c");
        cluster.until_settled(300).await;
        // Pods that are current are not replaced: whatever had `b` went once more, no pod twice more.
        assert!(cluster.deleted.len() <= 6 + 6, "{:?}", deleted(&cluster));
    });
}

#[test]
fn an_update_can_be_paused_and_scaled_and_its_set_deleted() {
    story(async {
        let mut cluster = settled(&[100], set(3, &[clique("a", 2, 1)], &[])).await;
        let pause = |cluster: &SimulatedCluster, value: Value| {
            cluster.edit_set(|set| {
                set["metadata"]["annotations"] = json!({ "grove.io/rollout-paused": value });
            });
        };
        pause(&cluster, json!("true"));
        cluster.set_image(None, "b");
        cluster.run(60).await;
        assert_eq!(deleted(&cluster), [""; 0], "nothing begins");
        cluster
            .api
            .delete("pods", cluster.api.all("pods")[0]["metadata"]["name"].as_str().unwrap());
        cluster.run(5).await;
        let images: BTreeSet<String> = cluster
            .api
            .all("pods")
            .iter()
            .map(|pod| pod["spec"]["containers"][0]["image"].to_string())
            .collect();
        assert_eq!(images, ["\"a\"".to_owned()].into(), "what is lost comes back as it was");
        pause(&cluster, json!("false"));
        cluster.run(1).await;
        cluster.edit_set(|set| set["spec"]["replicas"] = json!(5));
        cluster.run(1).await;
        cluster.edit_set(|set| set["spec"]["replicas"] = json!(2));
        cluster.until_settled(120).await;
        cluster.set_image(None, "c");
        cluster.run(1).await;
        cluster.api.delete("podcliquesets", "x");
        cluster.run(30).await;
        for plural in ["podcliquesets", "podcliques", "podgangs", "pods", "services"] {
            assert_eq!(cluster.api.all(plural), [Value::Null; 0], "{plural}");
        }
    });
}

#[test]
fn on_delete_changes_what_users_delete() {
    story(async {
        let mut cluster = settled(&[100], small(1).update_strategy("OnDelete")).await;
        cluster.set_image(None, "b");
        cluster.run(30).await;
        assert_eq!(deleted(&cluster), [""; 0]);
        let set = cluster.api.get("podcliquesets", "x").unwrap();
        assert!(!set["status"]["updateProgress"]["updateEndedAt"].is_null());
        assert_eq!(set["status"]["updatedReplicas"], 0);
        for pod in cluster.api.all("pods") {
            cluster.api.delete("pods", pod["metadata"]["name"].as_str().unwrap());
        }
        cluster.until_settled(60).await;
    });
}

#[test]
fn the_strategy_can_be_switched_in_the_middle_of_an_update() {
    fn images(cluster: &SimulatedCluster) -> Vec<String> {
        let pods = cluster.api.all("pods");
        let image =
            |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        let mut images: Vec<String> = pods.iter().map(image).collect();
        images.sort();
        images
    }
    fn strategy(cluster: &SimulatedCluster, name: &str) {
        cluster.edit_set(|set| set["spec"]["updateStrategy"] = json!({ "type": name }));
    }
    story(async {
        let mut cluster = settled(&[100], small(2)).await;
        cluster.set_image(None, "b");
        while cluster.deleted.is_empty() {
            cluster.tick().await;
        }
        strategy(&cluster, "OnDelete");
        cluster.run(60).await;
        let (stopped, deleted) = (images(&cluster), cluster.deleted.len());
        assert!(stopped.contains(&"a".to_owned()), "what was not replaced stays: {stopped:?}");
        let set = cluster.api.get("podcliquesets", "x").unwrap();
        assert!(!set["status"]["updateProgress"]["updateEndedAt"].is_null());
        // What was left alone then is left alone until there is another template.
        strategy(&cluster, "RollingRecreate");
        cluster.run(60).await;
        assert_eq!((images(&cluster), cluster.deleted.len()), (stopped, deleted));
        cluster.set_image(None, "c");
        cluster.until_settled(300).await;
        assert!(images(&cluster).iter().all(|image| image == "c"));
    });
}

#[test]
fn an_update_continues_wherever_the_operator_was_killed() {
    for moment in 0..30 {
        story(async move {
            let mut cluster = settled(&[100], small(2)).await;
            cluster.set_image(None, "b");
            for _ in 0..=moment {
                cluster.tick().await;
            }
            cluster.kill();
            cluster.run(2).await;
            cluster.start();
            cluster.until_settled(300).await;
        });
    }
}

#[test]
fn what_another_implementation_left_up_to_date_is_taken_over_without_touching_pods() {
    for strategy in ["RollingRecreate", "OnDelete"] {
        story(async move {
            let mut cluster = settled(&[100], small(2).update_strategy(strategy)).await;
            cluster.kill();
            cluster.tick().await;
            // Hashes of another length, as that implementation computes them.
            let rename = |object: &mut Value| {
                let text = object.to_string();
                let hashes: BTreeSet<&str> =
                    text.split('"').filter(|word| grove_core::hash::is_ours(word)).collect();
                let mut renamed = text.clone();
                for hash in hashes {
                    renamed = renamed.replace(hash, &format!("{hash}zz5"));
                }
                *object = serde_json::from_str(&renamed).unwrap();
            };
            for plural in ["podcliquesets", "podcliquescalinggroups", "podcliques", "pods"] {
                for object in cluster.api.all(plural) {
                    let name = object["metadata"]["name"].as_str().unwrap();
                    cluster.api.edit(plural, name, rename);
                }
            }
            let uids = uids(&cluster);
            cluster.start();
            cluster.until_settled(60).await;
            cluster.run(60).await;
            assert_eq!(deleted(&cluster), [""; 0]);
            assert_eq!(self::uids(&cluster), uids);
            // And from then on it is ours to update.
            cluster.set_image(None, "b");
            cluster.run(1).await;
            assert_eq!(cluster.deleted.is_empty(), strategy == "OnDelete");
        });
    }
}

// === what went wrong elsewhere ===

#[test]
fn a_set_made_again_under_its_name_during_an_update_starts_afresh() {
    story(async {
        let mut cluster = settled(&[100], small(2)).await;
        cluster.set_image(None, "b");
        cluster.run(1).await;
        cluster.api.delete("podcliquesets", "x");
        while cluster.api.get("podcliquesets", "x").is_some() {
            cluster.tick().await;
        }
        cluster.create(small(2));
        cluster.until_settled(60).await;
        let set = cluster.api.get("podcliquesets", "x").unwrap();
        assert!(set["status"]["updateProgress"].is_null(), "a new set has nothing to update");
    });
}

#[test]
fn an_update_ends_although_its_progress_was_removed() {
    for plural in ["podcliques", "podcliquescalinggroups", "podcliquesets"] {
        story(async move {
            let mut cluster = settled(&[100], small(2)).await;
            cluster.set_image(None, "b");
            cluster.run(1).await;
            for object in cluster.api.all(plural) {
                let name = object["metadata"]["name"].as_str().unwrap();
                cluster.api.edit(plural, name, |object| {
                    if let Some(status) = object["status"].as_object_mut() {
                        status.remove("updateProgress");
                        status.remove("updatedReplicas");
                    }
                });
            }
            cluster.until_settled(120).await;
        });
    }
}

#[test]
fn pods_that_never_started_do_not_keep_an_update_from_replacing_them() {
    story(async {
        let mut broken = clique("a", 2, 2);
        broken["annotations"] = json!({ BROKEN: "yes" });
        let mut cluster = SimulatedCluster::new(&[100]).await;
        cluster.create(set(2, &[broken], &[]));
        cluster.run(30).await;
        cluster.edit_set(|set| set["spec"]["template"]["cliques"][0]["annotations"] = json!({}));
        cluster.until_settled(60).await;
    });
}

#[test]
fn a_pod_that_is_gone_before_it_was_seen_is_replaced() {
    story(async {
        let mut cluster = settled(&[100], small(1)).await;
        cluster.edit_set(|set| set["spec"]["replicas"] = json!(2));
        // While they are created, whatever the operator has observed of them by then.
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        let names = |cluster: &SimulatedCluster| -> BTreeSet<String> {
            cluster.api.all("pods").iter().map(name).collect()
        };
        let old = names(&cluster);
        let mut gone = BTreeSet::new();
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
            for new in names(&cluster).difference(&old) {
                if gone.insert(new.clone()) {
                    cluster.api.delete("pods", new);
                    cluster.api.remove_pod(new);
                }
            }
            if gone.len() >= 8 {
                break;
            }
        }
        assert!(gone.len() >= 8, "{gone:?}");
        cluster.until_settled(60).await;
    });
}

#[test]
fn no_step_waits_for_a_fixed_time() {
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        cluster.create(small(2));
        let begin = cluster.now();
        cluster.until_settled(60).await;
        let deployed = cluster.now();
        // Two pods one by one, and two replicas of a group, in each of two replicas.
        cluster.set_image(None, "b");
        cluster.until_settled(60).await;
        let seconds = (deployed - begin, cluster.now() - deployed);
        assert!(seconds.0 <= 5 && seconds.1 <= 10, "{seconds:?}");
    });
}

#[test]
fn what_an_update_reports_does_not_grow_with_the_set() {
    let size = |replicas| {
        story(async move {
            let mut cluster = settled(&[1000], set(replicas, &[clique("a", 1, 1)], &[])).await;
            cluster.set_image(None, "b");
            let mut largest = 0;
            for _ in 0..100 {
                cluster.tick().await;
                let set = cluster.api.get("podcliquesets", "x").unwrap();
                largest = largest.max(set["status"]["updateProgress"].to_string().len());
            }
            largest
        })
    };
    assert!(size(40) < size(2) + 10, "counters may have another digit");
}

// === anything ===

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    ScaleSet(i32),
    ScaleGroup(i32),
    ScaleClique(i32),
    Image(Option<usize>, &'static str),
    FailPod(usize),
    RecoverPods,
    LoseNode(usize),
    RestoreNodes,
    Kill,
    Start,
    Wait(u64),
}

fn events() -> impl Strategy<Value = Event> {
    let image = prop::sample::select(vec!["a", "b", "c"]);
    let clique = prop::option::of(0_usize..3);
    prop_oneof![
        1 => (0_i32..4).prop_map(Event::ScaleSet),
        1 => (1_i32..4).prop_map(Event::ScaleGroup),
        1 => (1_i32..4).prop_map(Event::ScaleClique),
        3 => (clique, image).prop_map(|(clique, image)| Event::Image(clique, image)),
        2 => (0_usize..20).prop_map(Event::FailPod),
        1 => Just(Event::RecoverPods),
        1 => (0_usize..3).prop_map(Event::LoseNode),
        1 => Just(Event::RestoreNodes),
        1 => Just(Event::Kill),
        1 => Just(Event::Start),
        6 => (1_u64..200).prop_map(Event::Wait),
    ]
}

const ROOM: usize = 12;

async fn happen(cluster: &mut SimulatedCluster, event: Event) {
    let pods = cluster.api.all("pods");
    match event {
        Event::ScaleSet(replicas) => {
            cluster.edit_set(|set| set["spec"]["replicas"] = replicas.into());
        }
        Event::ScaleGroup(replicas) => {
            cluster.api.edit("podcliquescalinggroups", "x-0-g", |group| {
                group["spec"]["replicas"] = replicas.into();
            });
        }
        Event::ScaleClique(replicas) => {
            cluster.api.edit("podcliques", "x-0-a", |clique| {
                clique["spec"]["replicas"] = replicas.into();
            });
        }
        Event::Image(clique, image) => cluster.set_image(clique, image),
        Event::FailPod(index) => {
            let running: Vec<&Value> = pods.iter().filter(|pod| is_ready(pod)).collect();
            if !running.is_empty() {
                let pod = running[index % running.len()];
                cluster.set_ready(pod["metadata"]["name"].as_str().unwrap(), false);
            }
        }
        Event::RecoverPods => recover(cluster),
        Event::LoseNode(node) => cluster.lose(node),
        Event::RestoreNodes => cluster.nodes.fill(ROOM),
        Event::Kill => cluster.kill(),
        Event::Start => {
            if !cluster.is_running() {
                cluster.start();
            }
        }
        Event::Wait(ticks) => {
            for _ in 0..ticks {
                cluster.tick().await;
            }
        }
    }
}

fn recover(cluster: &SimulatedCluster) {
    for pod in cluster.api.all("pods") {
        if node_of(&pod).is_some() {
            cluster.set_ready(pod["metadata"]["name"].as_str().unwrap(), true);
        }
    }
}

proptest! {
    // The same sequences every time: what fails, fails for everybody.
    #![proptest_config(ProptestConfig {
        cases: 200,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// Whatever happens in whatever order: nothing is deleted without a reason on the way, and at rest
    /// everything is what the set says.
    #[test]
    fn random_sequences_converge(sequence in prop::collection::vec(events(), 1..25)) {
        story(async move {
            let mut cluster = settled(&[ROOM; 3], small(2)).await;
            for event in sequence {
                happen(&mut cluster, event).await;
            }
            cluster.nodes.fill(ROOM * 4);
            if !cluster.is_running() {
                cluster.start();
            }
            recover(&cluster);
            cluster.until_settled(400).await;
            let calm = cluster.deleted.len();
            cluster.run(60).await;
            prop_assert_eq!(cluster.deleted.len(), calm);
            Ok(())
        })?;
    }
}
