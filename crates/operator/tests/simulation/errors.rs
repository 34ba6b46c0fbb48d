//! What cannot be done: it is reported where users look, tried again without haste, and stops nothing else.

use grove_testbed::sets::Manifest as _;
use serde_json::{Value, json};

use super::cluster::SimulatedCluster;
use super::{clique, deleted, event_reasons, set, settled, small, story, uids};
use grove_testbed::invariants::{is_ready, label};

fn status(cluster: &SimulatedCluster, plural: &str, name: &str) -> Value {
    cluster.api.get(plural, name).unwrap()["status"].clone()
}

fn condition(status: &Value, type_: &str) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == type_).unwrap_or_default()
}

#[test]
fn refused_pods_are_tried_again_with_growing_delays_and_reported_on_the_set() {
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        cluster.api.refuse_image(Some("bad"));
        cluster.create(set(1, &[clique("a", 3, 3).image("bad"), clique("b", 1, 1)], &[]));
        cluster.run(5).await;
        let early = cluster.api.refused();
        assert!((3..=12).contains(&early), "{early} attempts in five seconds");
        let version = cluster.api.version();
        cluster.run(300).await;
        let late = cluster.api.refused() - early;
        assert!((6..=36).contains(&late), "{late} attempts in five minutes");
        let writes = cluster.api.version() - version;
        assert!(writes <= 20, "{writes} writes while nothing changes");

        let clique = status(&cluster, "podcliques", "x-0-a");
        let error = clique["lastErrors"][0]["description"].as_str().unwrap();
        assert!(error.contains("Pod \"x-0-a-\" is invalid"), "{error}");
        let set = status(&cluster, "podcliquesets", "x");
        let errors = set["lastErrors"].to_string();
        assert!(errors.contains("PodClique x-0-a: ") && errors.contains("ERR_CREATE_POD"));
        let ready = condition(&set, "Ready");
        assert_eq!(
            (&ready["status"], &ready["reason"]),
            (&json!("False"), &json!("ReconcileError"))
        );
        assert_eq!(event_reasons(&cluster, &["ReconcileError"]), ["ReconcileError"]);

        // Another template is tried at once.
        cluster.set_image(Some(0), "good");
        cluster.until_settled(5).await;
        let set = status(&cluster, "podcliquesets", "x");
        assert_eq!(set["lastErrors"], Value::Null);
        assert_eq!(condition(&set, "Ready")["reason"], "AllReplicasAvailable");
    });
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        cluster.api.refuse_image(Some("bad"));
        cluster.create(set(1, &[clique("a", 3, 3).image("bad")], &[]));
        cluster.run(60).await;
        // So is the same one when the cluster has changed its mind, by and by.
        cluster.api.refuse_image(None);
        cluster.until_settled(125).await;
    });
}

#[test]
fn an_update_to_refused_pods_replaces_nothing() {
    story(async {
        let mut cluster = settled(&[100], small(2)).await;
        let before = uids(&cluster);
        cluster.api.refuse_image(Some("bad"));
        cluster.set_image(None, "bad");
        cluster.run(120).await;
        assert_eq!(deleted(&cluster), [""; 0]);
        assert_eq!(uids(&cluster), before);
        assert!(cluster.api.all("pods").iter().all(is_ready));
        let set = status(&cluster, "podcliquesets", "x");
        let error = set["lastErrors"][0]["description"].as_str().unwrap();
        assert!(error.contains("the update does not start"), "{error}");
        let ready = condition(&set, "Ready");
        assert_eq!(ready["reason"], "AvailableWithErrors");
        let attempts = cluster.api.refused();
        assert!((3..=12).contains(&attempts), "{attempts} dry runs in two minutes");

        cluster.set_image(None, "good");
        cluster.until_settled(120).await;
        assert_eq!(status(&cluster, "podcliquesets", "x")["lastErrors"], Value::Null);
    });
}

/// A clique whose pods each have a claim from a template beside the set.
fn sharing() -> Value {
    let mut a = clique("a", 2, 2);
    a["resourceSharing"] = json!([{ "name": "gpu", "scope": "PerReplica" }]);
    a
}

fn create_template(cluster: &SimulatedCluster) {
    cluster.api.create(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": { "name": "gpu" }, "spec": { "spec": {} } }),
    );
}

#[test]
fn a_gang_that_lacks_a_claim_releases_no_pod_and_its_cliques_report() {
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        cluster.create(set(1, &[sharing(), clique("b", 1, 1)], &[]));
        cluster.run(10).await;
        for pod in cluster.api.all("pods") {
            let gates = pod["spec"]["schedulingGates"].as_array().map_or(0, Vec::len);
            assert_eq!(gates, 1, "{}", label(&pod, "grove.io/podclique"));
        }
        let gang = status(&cluster, "podgangs", "x-0");
        let initialized = condition(&gang, "Initialized");
        assert_eq!(initialized["status"], "False");
        let message = initialized["message"].as_str().unwrap();
        assert!(message.contains("ResourceClaim x-0-a-0-gpu"), "{message}");
        let clique = status(&cluster, "podcliques", "x-0-a");
        assert_eq!((&clique["replicas"], &clique["observedGeneration"]), (&json!(2), &json!(1)));
        let set = status(&cluster, "podcliquesets", "x");
        assert!(set["lastErrors"].to_string().contains("PodClique x-0-a: "), "{set}");

        create_template(&cluster);
        cluster.until_settled(10).await;
    });
}

#[test]
fn a_replica_that_lacks_a_claim_is_terminated_when_it_loses_its_minimum() {
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        create_template(&cluster);
        let mut one = set(1, &[clique("a", 2, 2)], &[]);
        one["spec"]["template"]["resourceSharing"] =
            json!([{ "name": "gpu", "scope": "PerReplica" }]);
        cluster.create(one);
        cluster.until_settled(10).await;
        let first = uids(&cluster);
        for (plural, name) in [("resourceclaimtemplates", "gpu"), ("resourceclaims", "x-0-gpu")] {
            cluster.api.delete(plural, name);
        }
        cluster.run(2).await;
        cluster.lose(0);
        cluster.run(12).await;
        assert!(first.is_disjoint(&uids(&cluster)), "{}", cluster.summary());
    });
}

#[test]
fn an_idle_cluster_reports_within_moments() {
    story(async {
        let mut cluster = SimulatedCluster::new(&[100]).await;
        // Nothing is ready for a while.
        cluster.start_up_seconds = 5;
        cluster.create(small(1));
        for _ in 0..4 {
            cluster.tick().await;
        }
        for clique in cluster.api.all("podcliques") {
            assert_eq!(clique["status"]["observedGeneration"], 1, "{}", clique["metadata"]["name"]);
        }
        cluster.until_settled(30).await;
        let group = status(&cluster, "podcliquescalinggroups", "x-0-g");
        assert_eq!(group["updatedReplicas"], 2);
        cluster.run(1).await;
        for gang in cluster.api.all("podgangs") {
            assert_eq!(gang["status"]["phase"], "Running", "{}", gang["metadata"]["name"]);
        }

        // A counter without a deadline: one pod of two, above the minimum of one.
        let pods = cluster.api.all("pods");
        let pod = pods.iter().find(|pod| label(pod, "grove.io/podclique") == "x-0-a").unwrap();
        cluster.set_ready(pod["metadata"]["name"].as_str().unwrap(), false);
        cluster.run(1).await;
        assert_eq!(status(&cluster, "podcliques", "x-0-a")["readyReplicas"], 1);
        let version = cluster.api.version();
        cluster.run(60).await;
        assert_eq!(cluster.api.version(), version, "an idle cluster sees no writes");
    });
}
