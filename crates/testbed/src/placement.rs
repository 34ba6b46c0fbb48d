//! Where the pods of sets with topology constraints are placed, for every scheduler that an operator with a
//! managed topology of racks and hosts works with.
//!
//! A row has racks of its own: nodes with places that only its pods take. Placement is judged by
//! [`grove_core::topology::placement`] at every event that the watches delivered, not only at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api::PodGang;
use grove_core::topology::{NodeLabels, placement};
use http::Method;
use serde_json::{Value, json};

use crate::fixture::{Fixture, scale};
use crate::kinds::{CLIQUES, GANGS, GROUPS, PODS, SETS};
use crate::mirror::{Namespace, State, condition, name_of, send, text};
use crate::rules;
use crate::sets::{self, Manifest as _};
use crate::topology::{HOST, RACK, pods};

rules! {
    every_replica_is_in_one_rack_of_its_own,
    every_replica_is_on_one_host,
    parts_are_packed_into_narrower_domains,
    more_pods_of_a_clique_join_its_rack,
    a_gang_is_spread_over_hosts_when_one_is_too_small,
    every_replica_is_packed_when_a_set_is_scaled,
    every_replica_of_a_group_is_packed_when_it_is_scaled,
    a_gang_that_fits_no_rack_waits_as_a_whole,
    changed_labels_of_nodes_move_no_pod,
}

/// Racks of hosts for the pods of one row.
struct Racks {
    fixture: Fixture,
    place: String,
    /// Labels by name of the node.
    nodes: BTreeMap<String, NodeLabels>,
}

impl Racks {
    /// So many racks, hosts in each of them, and places on each of these.
    async fn new(fixture: Fixture, namespace: &Namespace, sizes: [u32; 3]) -> Self {
        let [racks, hosts, places] = sizes;
        let place = format!("grove.test/{}", namespace.name);
        let mut nodes = BTreeMap::new();
        for rack in (0..racks).map(|rack| format!("{}-r{rack}", namespace.name)) {
            for name in (0..hosts).map(|host| format!("{rack}-h{host}")) {
                fixture.node(&name, &place, places).await;
                let labels = [(RACK, &rack), (HOST, &name)];
                let labels = labels.map(|(key, value)| (key.to_owned(), value.clone()));
                nodes.insert(name, NodeLabels::from(labels));
            }
        }
        let racks = Self { fixture, place, nodes };
        for (name, labels) in &racks.nodes {
            racks.label(name, json!(labels)).await;
        }
        racks
    }

    async fn label(&self, node: &str, labels: Value) {
        let (path, change) =
            (format!("/api/v1/nodes/{node}"), json!({ "metadata": { "labels": labels } }));
        send(self.fixture.mirror.client(), Method::PATCH, &path, &change).await.unwrap();
    }

    /// A clique all of whose pods are needed and take a place each.
    fn clique(&self, name: &str, replicas: i32) -> Value {
        let mut clique = sets::clique(name, replicas).min_available(replicas);
        let place = json!({ &self.place: "1" });
        clique["spec"]["podSpec"]["containers"][0]["resources"] =
            json!({ "limits": place, "requests": place });
        clique
    }

    /// Deploys a set and judges its placement so far.
    async fn deploy(&self, namespace: &Namespace, set: &Value, pods: usize) {
        self.fixture.deploy(namespace, set, pods).await;
        self.judge(namespace);
    }

    /// Fails if a required constraint was ever violated.
    fn judge(&self, namespace: &Namespace) {
        namespace.look(|state| self.judge_history(state));
    }

    fn judge_history(&self, state: &State) {
        let mut gangs = BTreeMap::<String, PodGang>::new();
        let mut nodes = BTreeMap::<String, &NodeLabels>::new();
        for (event, (kind, object)) in state.history.iter().enumerate() {
            let (name, is_gone) = (name_of(object), state.gone.contains(&event));
            let node = self.nodes.get(text(&object["spec"]["nodeName"])).filter(|_| !is_gone);
            if *kind == GANGS {
                gangs.remove(&name);
                if !is_gone {
                    gangs.insert(name, serde_json::from_value((**object).clone()).unwrap());
                }
            } else if *kind == PODS {
                nodes.remove(&name);
                nodes.extend(node.map(|labels| (name, labels)));
            } else {
                continue;
            }
            for (name, gang) in &gangs {
                let placed = placement(&gang.spec, |pod| nodes.get(pod).copied());
                assert_eq!(
                    placed.violations(),
                    <[String; 0]>::default(),
                    "{name} at event {event}"
                );
            }
        }
        assert!(!nodes.is_empty(), "no pod was placed");
    }

    /// The values of a label on the nodes of the pods of each gang.
    fn domains(&self, namespace: &Namespace, key: &str) -> BTreeMap<String, Vec<String>> {
        let mut domains = BTreeMap::<String, Vec<String>>::new();
        namespace.look(|state| {
            for pod in state.of(PODS) {
                let gang = text(&pod["metadata"]["labels"]["grove.io/podgang"]).to_owned();
                let labels = &self.nodes[text(&pod["spec"]["nodeName"])];
                domains.entry(gang).or_default().push(labels[key].clone());
            }
        });
        for of_gang in domains.values_mut() {
            of_gang.sort();
            of_gang.dedup();
        }
        domains
    }
}

fn packed_into(domain: &str, mut part: Value) -> Value {
    part["topologyConstraint"] = json!({ "packDomain": domain });
    part
}

/// A set of these replicas, each packed into a domain.
fn set_in(domain: &str, replicas: i32, cliques: &[Value], groups: &[Value]) -> Value {
    let mut set = sets::set("x", cliques, groups);
    set["spec"]["replicas"] = json!(replicas);
    set["spec"]["template"]["topologyConstraint"] = json!({ "packDomain": domain });
    set
}

async fn every_replica_is_in_one_rack_of_its_own(fixture: Fixture, namespace: Namespace) {
    let racks = Racks::new(fixture, &namespace, [2, 2, 2]).await;
    let cliques = [racks.clique("a", 1), racks.clique("b", 3)];
    racks.deploy(&namespace, &set_in("rack", 2, &cliques, &[]), 8).await;
    let domains = racks.domains(&namespace, RACK);
    assert_eq!((domains["x-0"].len(), domains["x-1"].len()), (1, 1));
    assert_ne!(domains["x-0"], domains["x-1"], "a rack has room for one");
}

async fn every_replica_is_on_one_host(fixture: Fixture, namespace: Namespace) {
    let racks = Racks::new(fixture, &namespace, [2, 2, 3]).await;
    racks.deploy(&namespace, &set_in("host", 3, &[racks.clique("a", 3)], &[]), 9).await;
    let domains = racks.domains(&namespace, HOST);
    assert!(domains.values().all(|hosts| hosts.len() == 1), "{domains:?}");
}

async fn parts_are_packed_into_narrower_domains(fixture: Fixture, namespace: Namespace) {
    let racks = Racks::new(fixture, &namespace, [2, 3, 2]).await;
    let cliques = [
        racks.clique("router", 1),
        racks.clique("leader", 1),
        packed_into("host", racks.clique("worker", 1)),
    ];
    let group = packed_into("host", sets::group("decode", &["leader", "worker"], 2, 2));
    racks.deploy(&namespace, &set_in("rack", 1, &cliques, &[group]), 5).await;
    assert_eq!(racks.domains(&namespace, RACK)["x-0"].len(), 1);
    namespace.look(|state| {
        for replica in ["x-0-decode-0", "x-0-decode-1"] {
            let of = |clique: &str| {
                let pods = state.pods_of(&format!("{replica}-{clique}"));
                text(&pods.values().next().unwrap()["spec"]["nodeName"]).to_owned()
            };
            assert_eq!(of("leader"), of("worker"), "{replica}");
        }
    });
}

async fn more_pods_of_a_clique_join_its_rack(fixture: Fixture, namespace: Namespace) {
    let racks = Racks::new(fixture, &namespace, [2, 2, 4]).await;
    racks.deploy(&namespace, &set_in("rack", 1, &[racks.clique("a", 4)], &[]), 4).await;
    scale(&namespace, CLIQUES, "x-0-a", 8).await;
    namespace.until_complete(8).await;
    racks.judge(&namespace);
    assert_eq!(racks.domains(&namespace, RACK)["x-0"].len(), 1);
}

async fn a_gang_is_spread_over_hosts_when_one_is_too_small(fixture: Fixture, namespace: Namespace) {
    let racks = Racks::new(fixture, &namespace, [2, 2, 3]).await;
    racks.deploy(&namespace, &set_in("rack", 1, &[racks.clique("a", 5)], &[]), 5).await;
    let gang = namespace.object(GANGS, "x-0");
    let pack = &gang["spec"]["topologyConstraint"]["packConstraint"];
    assert_eq!(*pack, json!({ "required": RACK, "preferred": HOST }));
    assert_eq!(racks.domains(&namespace, HOST)["x-0"].len(), 2);
    assert_eq!(racks.domains(&namespace, RACK)["x-0"].len(), 1);
}

async fn every_replica_is_packed_when_a_set_is_scaled(fixture: Fixture, namespace: Namespace) {
    let racks = Racks::new(fixture, &namespace, [3, 2, 2]).await;
    racks.deploy(&namespace, &set_in("rack", 1, &[racks.clique("a", 4)], &[]), 4).await;
    let first = racks.domains(&namespace, RACK)["x-0"].clone();
    scale(&namespace, SETS, "x", 3).await;
    namespace.until_complete(12).await;
    racks.judge(&namespace);
    assert_eq!(racks.domains(&namespace, RACK).len(), 3);
    scale(&namespace, SETS, "x", 1).await;
    namespace.until_complete(4).await;
    racks.judge(&namespace);
    assert_eq!(racks.domains(&namespace, RACK), BTreeMap::from([("x-0".to_owned(), first)]));
}

async fn every_replica_of_a_group_is_packed_when_it_is_scaled(
    fixture: Fixture,
    namespace: Namespace,
) {
    let racks = Racks::new(fixture, &namespace, [3, 2, 2]).await;
    let cliques = [racks.clique("leader", 1), racks.clique("worker", 3)];
    let group = packed_into("rack", sets::group("decode", &["leader", "worker"], 1, 1));
    let mut set = sets::set("x", &cliques, &[group]);
    set["spec"]["replicas"] = json!(1);
    racks.deploy(&namespace, &set, 4).await;
    scale(&namespace, GROUPS, "x-0-decode", 3).await;
    namespace.until_complete(12).await;
    racks.judge(&namespace);
    let domains = racks.domains(&namespace, RACK);
    assert_eq!(domains.len(), 3);
    assert!(domains.values().all(|racks| racks.len() == 1), "{domains:?}");
}

async fn a_gang_that_fits_no_rack_waits_as_a_whole(fixture: Fixture, namespace: Namespace) {
    let racks = Racks::new(fixture.clone(), &namespace, [2, 2, 1]).await;
    // There are four places: what keeps the three pods waiting is the constraint.
    let set = set_in("rack", 1, &[racks.clique("a", 3)], &[]);
    namespace.create(SETS, &set).await;
    namespace
        .until_is("the scheduler has tried and refused", |state| {
            let refused =
                |pod: &&&Arc<Value>| condition(pod, "PodScheduled")["reason"] == "Unschedulable";
            state.of(PODS).iter().filter(refused).count() == 3
        })
        .await;
    assert!(namespace.look(|state| {
        let mut pods = state.history.iter().filter(|(kind, _)| *kind == PODS);
        pods.all(|(_, pod)| pod["spec"]["nodeName"].is_null())
    }));
    let host = format!("{}-r1-h0", namespace.name);
    fixture.set_places(&host, &racks.place, 2).await;
    namespace.until_complete(3).await;
    racks.judge(&namespace);
    assert_eq!(racks.domains(&namespace, RACK)["x-0"], [format!("{}-r1", namespace.name)]);
}

async fn changed_labels_of_nodes_move_no_pod(fixture: Fixture, namespace: Namespace) {
    let racks = Racks::new(fixture.clone(), &namespace, [1, 2, 2]).await;
    racks.deploy(&namespace, &set_in("rack", 1, &[racks.clique("a", 4)], &[]), 4).await;
    namespace.until_gangs_run().await;
    let running = pods(&namespace);
    let host = format!("{}-r0-h0", namespace.name);
    let relabel = async {
        racks.label(&host, json!({ RACK: "another" })).await;
        racks.label(&host, json!({ RACK: null })).await;
    };
    let mut written = fixture.writes_after(&namespace, relabel).await;
    // Those about the start of the set come late.
    written.retain(|write| !write.ends_with("/events"));
    assert_eq!(written, <[String; 0]>::default(), "nobody writes because of a node");
    assert_eq!(pods(&namespace), running);
}
