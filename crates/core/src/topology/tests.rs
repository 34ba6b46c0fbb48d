use grove_api::pod_clique_set::PodCliqueSetStatus;
use grove_api::{OperatorConfiguration, PodGang};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use super::*;
use crate::gang::{Surroundings, pod_gang};
use crate::layout::Layout;

const RACK: &str = "topology.kubernetes.io/rack";
const HOST: &str = "kubernetes.io/hostname";

fn configured(text: &str) -> config::Topology {
    let text = format!(
        "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n{text}"
    );
    OperatorConfiguration::from_yaml(&text).unwrap().topology
}

/// The operator manages racks and hosts, configured from the narrowest to the broadest.
fn managed() -> Mode {
    let host = format!("{{domain: host, key: {HOST}}}");
    let rack = format!("{{domain: rack, key: {RACK}}}");
    (&configured(&format!("topology: {{enabled: true, levels: [{host}, {rack}]}}"))).into()
}

fn hierarchy(name: &str, levels: &[(&str, &str)]) -> Hierarchy {
    let level =
        |&(domain, key): &(&str, &str)| Level { domain: domain.to_owned(), key: key.to_owned() };
    Hierarchy { name: name.to_owned(), levels: levels.iter().map(level).collect() }
}

/// A binding whose words and order are its own.
fn binding() -> Hierarchy {
    hierarchy("dc", &[("rack", RACK), ("host", HOST)])
}

/// A router beside a group of leader and worker, which runs twice and needs to run once.
fn set(own: &Value, group: &Value, worker: &Value) -> PodCliqueSet {
    let clique = |name: &str, constraint: &Value| {
        json!({
            "name": name, "topologyConstraint": constraint,
            "spec": { "replicas": 2, "minAvailable": 1, "podSpec": {} },
        })
    };
    serde_json::from_value(json!({
        "metadata": { "name": "x", "namespace": "n", "uid": "u", "generation": 7 },
        "spec": { "replicas": 1, "template": {
            "topologyConstraint": own,
            "cliques": [
                clique("router", &Value::Null), clique("leader", &Value::Null),
                clique("worker", worker),
            ],
            "podCliqueScalingGroups": [{
                "name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2,
                "minAvailable": 1, "topologyConstraint": group,
            }],
        } },
    }))
    .unwrap()
}

/// The base gang and the scaled gang.
fn gangs(set: &PodCliqueSet, topology: &SetTopology, live: Option<&[PodGang; 2]>) -> [PodGang; 2] {
    let layout = Layout::of(set);
    let surroundings = Surroundings { default_scheduler: "s", topology };
    let places = [layout.base_gang(0), layout.scaled_gang(0, &layout.groups()[0], 1).unwrap()];
    let gang = |index: usize| {
        let live = live.map(|live| &live[index]);
        pod_gang(&layout, &places[index], &BTreeMap::new(), surroundings, live)
    };
    [gang(0), gang(1)]
}

/// Everything about topology in a gang: of the gang, of its groups, of its members, and its annotation.
fn constraints_of(gang: &PodGang) -> Value {
    let spec = serde_json::to_value(&gang.spec).unwrap();
    let pack = |one: &Value| one["topologyConstraint"]["packConstraint"].clone();
    let of = |list: &Value| -> BTreeMap<String, Value> {
        let named = |one: &Value| (one["name"].as_str().unwrap().to_owned(), pack(one));
        list.as_array().into_iter().flatten().map(named).collect()
    };
    let annotations = gang.metadata.annotations.clone().unwrap_or_default();
    json!({
        "gang": pack(&spec),
        "groups": of(&spec["topologyConstraintGroupConfigs"]),
        "members": of(&spec["podgroups"]).into_iter().filter(|(_, pack)| !pack.is_null())
            .collect::<BTreeMap<_, _>>(),
        "topology": annotations.get("grove.io/topology-name"),
    })
}

fn never(_: &str) -> Lookup {
    panic!("the set names no topology")
}

#[test]
fn the_mode_follows_from_the_configuration() {
    assert_eq!(Mode::from(&configured("")), Mode::Disabled);
    let off = format!("topology: {{enabled: false, levels: [{{domain: rack, key: {RACK}}}]}}");
    assert_eq!(Mode::from(&configured(&off)), Mode::Disabled);
    assert_eq!(managed_topology(&configured(&off)), None);
    let bindings = configured("topologyAwareScheduling: {enabled: true}");
    assert_eq!(Mode::from(&bindings), Mode::Bindings);
    assert_eq!(managed_topology(&bindings), None);
    let expected = hierarchy("grove-topology", &[("rack", RACK), ("host", HOST)]);
    assert_eq!(managed(), Mode::Managed(Arc::new(expected)), "from the broadest to the narrowest");
}

#[test]
fn the_managed_topology_has_the_levels_as_configured() {
    let levels = format!("[{{domain: host, key: {HOST}}}, {{domain: rack, key: {RACK}}}]");
    let text = format!("topology: {{enabled: true, levels: {levels}}}");
    let object = serde_json::to_value(managed_topology(&configured(&text)).unwrap()).unwrap();
    assert_eq!(object["metadata"], json!({ "name": "grove-topology" }));
    let expected = json!([{ "domain": "host", "key": HOST }, { "domain": "rack", "key": RACK }]);
    assert_eq!(object["spec"]["levels"], expected);
}

#[test]
fn a_set_that_names_a_topology_anywhere_refers_to_a_binding() {
    let (none, rack) = (Value::Null, json!({ "packDomain": "rack" }));
    let named = json!({ "topologyName": "dc", "pack": { "required": "rack" } });
    let found = |_: &str| Lookup::Found(binding());
    let binding = SetTopology::Binding(Arc::new(binding()));
    let Mode::Managed(own) = managed() else { panic!() };
    for place in 0..3 {
        let at = |constraint: &Value| {
            let mut all = [none.clone(), none.clone(), none.clone()];
            all[place] = constraint.clone();
            set(&all[0], &all[1], &all[2])
        };
        for mode in [Mode::Bindings, managed()] {
            assert_eq!(SetTopology::of(&at(&named), &mode, found), binding, "{place}");
            let of = SetTopology::of(&at(&named), &mode, |name| {
                assert_eq!(name, "dc");
                Lookup::NotFound
            });
            assert_eq!(of, SetTopology::NotFound);
            let of = SetTopology::of(&at(&named), &mode, |_| Lookup::Unknown);
            assert_eq!(of, SetTopology::Unknown);
        }
        assert_eq!(SetTopology::of(&at(&named), &Mode::Disabled, never), SetTopology::Disabled);
        assert_eq!(SetTopology::of(&at(&rack), &Mode::Bindings, never), SetTopology::Unnamed);
        let of = SetTopology::of(&at(&rack), &managed(), never);
        assert_eq!(of, SetTopology::Managed(own.clone()));
    }
    let free = set(&none, &none, &none);
    assert_eq!(SetTopology::of(&free, &Mode::Bindings, never), SetTopology::Unconstrained);
    assert_eq!(SetTopology::of(&free, &managed(), never), SetTopology::Managed(own));
}

/// A constraint of the generated table: the domains that are required and preferred.
type Pair = (Option<&'static str>, Option<&'static str>);

/// Every combination of the domains of a topology, an unknown one included.
fn pairs() -> Vec<Pair> {
    let domains = [None, Some("rack"), Some("host"), Some("gone")];
    domains.iter().flat_map(|one| domains.iter().map(|other| (*one, *other))).collect()
}

fn written((required, preferred): Pair, name: Option<&str>) -> Value {
    if required.is_none() && preferred.is_none() {
        return Value::Null;
    }
    json!({ "topologyName": name, "pack": { "required": required, "preferred": preferred } })
}

/// The translation table, as it is documented: what one part of a gang gets.
fn expected((required, preferred): Pair, generated: Option<&str>) -> Value {
    let key = |domain: Option<&str>| match domain {
        Some("rack") => Some(RACK),
        Some("host") => Some(HOST),
        _ => None,
    };
    let (required, preferred) = (key(required), key(preferred).or(generated));
    match (required, preferred) {
        (None, None) => Value::Null,
        (Some(required), None) => json!({ "required": required }),
        (None, Some(preferred)) => json!({ "preferred": preferred }),
        (Some(required), Some(preferred)) => {
            json!({ "required": required, "preferred": preferred })
        }
    }
}

fn members(all: &[&str], worker: &str, of_worker: &Value, generated: Option<&str>) -> Value {
    let mut members = BTreeMap::new();
    for name in all {
        let pack =
            if *name == worker { of_worker.clone() } else { expected((None, None), generated) };
        members.insert(*name, pack);
    }
    members.retain(|_, pack| !pack.is_null());
    json!(members)
}

#[test]
fn every_combination_of_constraints_is_translated_as_documented() {
    let mut cases = 0;
    for (own, group, worker) in pairs()
        .into_iter()
        .flat_map(|own| pairs().into_iter().map(move |group| (own, group)))
        .flat_map(|(own, group)| pairs().into_iter().map(move |worker| (own, group, worker)))
    {
        for name in [None, Some("dc")] {
            let [a, b, c] = [own, group, worker].map(|pair| written(pair, name));
            let set = set(&a, &b, &c);
            let topology = SetTopology::of(&set, &managed(), |_| Lookup::Found(binding()));
            let is_named = topology_name(&set).is_some();
            assert_eq!(is_named, matches!(topology, SetTopology::Binding(_)));
            let generated = (!is_named).then_some(HOST);
            let [base, scaled] = gangs(&set, &topology, None);
            let what = format!("{own:?} {group:?} {worker:?} {name:?}");
            let annotation = if is_named { "dc" } else { "grove-topology" };
            let groups = match b {
                Value::Null => json!({}),
                _ => json!({ "x-0-decode-0": expected(group, generated) }),
            };
            let names = ["x-0-router", "x-0-decode-0-leader", "x-0-decode-0-worker"];
            let of_worker = expected(worker, generated);
            let wanted = json!({
                "gang": expected(own, generated),
                "groups": groups,
                "members": members(&names, "x-0-decode-0-worker", &of_worker, generated),
                "topology": annotation,
            });
            assert_eq!(constraints_of(&base), wanted, "base: {what}");
            let of_gang = if b.is_null() { own } else { group };
            let names = ["x-0-decode-1-leader", "x-0-decode-1-worker"];
            let wanted = json!({
                "gang": expected(of_gang, generated),
                "groups": {},
                "members": members(&names, "x-0-decode-1-worker", &of_worker, generated),
                "topology": annotation,
            });
            assert_eq!(constraints_of(&scaled), wanted, "scaled: {what}");
            cases += 1;
        }
    }
    assert_eq!(cases, 16 * 16 * 16 * 2);
}

#[test]
fn without_a_topology_gangs_have_no_constraints_and_no_name() {
    let named = json!({ "topologyName": "dc", "pack": { "required": "rack" } });
    let set = set(&named, &named, &named);
    let found = SetTopology::Binding(Arc::new(binding()));
    let live = gangs(&set, &found, None);
    let groups = json!({ "x-0-decode-0": null });
    for (topology, groups) in [
        (SetTopology::NotFound, &groups),
        (SetTopology::Unnamed, &groups),
        (SetTopology::Disabled, &json!({})),
    ] {
        let [base, scaled] = gangs(&set, &topology, Some(&live));
        let expected = json!({ "gang": null, "groups": groups, "members": {}, "topology": null });
        assert_eq!(constraints_of(&base), expected, "{topology:?}");
        let expected = json!({ "gang": null, "groups": {}, "members": {}, "topology": null });
        assert_eq!(constraints_of(&scaled), expected, "{topology:?}");
        let back = gangs(&set, &found, Some(&[base, scaled]));
        assert_eq!(back.each_ref().map(constraints_of), live.each_ref().map(constraints_of));
    }
}

#[test]
fn what_cannot_be_read_changes_nothing() {
    let named = json!({ "topologyName": "dc", "pack": { "required": "rack" } });
    let set = set(&named, &named, &named);
    let live = gangs(&set, &SetTopology::Binding(Arc::new(binding())), None);
    assert_eq!(gangs(&set, &SetTopology::Unknown, Some(&live)), live);
}

#[test]
fn gangs_of_the_managed_topology_keep_their_preferences_when_it_is_switched_off() {
    let rack = json!({ "packDomain": "rack" });
    let prefers = json!({ "preferred": HOST });
    for (group, groups) in [(&Value::Null, json!({})), (&rack, json!({ "x-0-decode-0": prefers }))]
    {
        let set = set(&rack, group, &rack);
        let live = gangs(&set, &SetTopology::of(&set, &managed(), never), None);
        let off = gangs(&set, &SetTopology::Disabled, Some(&live));
        let names = ["x-0-router", "x-0-decode-0-leader", "x-0-decode-0-worker"];
        let members: BTreeMap<_, _> = names.map(|name| (name, &prefers)).into();
        let expected = json!({
            "gang": prefers, "groups": groups, "members": members, "topology": null,
        });
        assert_eq!(constraints_of(&off[0]), expected);
        assert_eq!(gangs(&set, &SetTopology::Disabled, Some(&off)), off, "it is stable");
        let on = gangs(&set, &SetTopology::of(&set, &managed(), never), Some(&off));
        assert_eq!(on, live);
    }
}

fn said(set: &PodCliqueSet, topology: &SetTopology) -> Vec<String> {
    let mut status = PodCliqueSetStatus::default();
    report(&mut status, set, topology, Timestamp::UNIX_EPOCH);
    let text = |one: &grove_api::condition::Condition| {
        assert_eq!(one.observed_generation, Some(7));
        format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message)
    };
    status.conditions.iter().map(text).collect()
}

#[test]
fn conditions_say_which_levels_are_missing() {
    let none = Value::Null;
    let pack = |required: &str| json!({ "packDomain": required });
    let named = |pack: Value| json!({ "topologyName": "dc", "pack": pack });
    let free = set(&none, &none, &none);
    let seed = set(&pack("rack"), &none, &pack("host"));
    let one_gone = set(&pack("block"), &none, &pack("rack"));
    let two_gone = set(&pack("zone"), &pack("block"), &pack("block"));
    let head = set(&named(json!({ "required": "rack" })), &none, &none);
    let head_gone = set(&named(json!({ "required": "row", "preferred": "shelf" })), &none, &none);
    let Mode::Managed(own) = managed() else { panic!() };
    let (own, theirs) = (SetTopology::Managed(own), SetTopology::Binding(Arc::new(binding())));
    let available = "TopologyConstraints=True TopologyLevelsAvailable: All topology constraints \
                     satisfied";
    let all = "TopologyLevelsUnavailable=False AllClusterTopologyLevelsAvailable: All topology levels \
               are available";
    let nothing = "TopologyLevelsUnavailable=False AllClusterTopologyLevelsAvailable: No topology \
                   constraints defined";
    let not_found = "Unknown ClusterTopologyNotFound: ClusterTopologyBinding resource not found";
    let cases: [(&str, &PodCliqueSet, SetTopology, Vec<String>); 12] = [
        ("off and free", &free, SetTopology::Disabled, vec![]),
        ("free", &free, SetTopology::Unconstrained, vec![nothing.into()]),
        ("free of a managed one", &free, own.clone(), vec![nothing.into()]),
        (
            "off",
            &seed,
            SetTopology::Disabled,
            vec![
                "TopologyConstraints=False TopologyDisabled: Topology support disabled in operator \
                 configuration. Required constraints removed."
                    .into(),
                "TopologyLevelsUnavailable=Unknown TopologyAwareSchedulingDisabled: Topology constraints \
                 are defined but Topology Aware Scheduling is disabled"
                    .into(),
            ],
        ),
        ("all there", &seed, own.clone(), vec![available.into(), all.into()]),
        (
            "one is gone",
            &one_gone,
            own.clone(),
            vec![
                "TopologyConstraints=False TopologyLevelNotFound: Topology level 'block' not found in \
                 ClusterTopology 'grove-topology'. Remove packDomain or update ClusterTopology."
                    .into(),
                "TopologyLevelsUnavailable=True ClusterTopologyLevelsUnavailable: Unavailable topology \
                 domains: [block]"
                    .into(),
            ],
        ),
        (
            "two are gone",
            &two_gone,
            own,
            vec![
                "TopologyConstraints=False TopologyLevelsRemoved: Topology levels removed from \
                 ClusterTopology: [block, zone]. Update packDomain constraints."
                    .into(),
                "TopologyLevelsUnavailable=True ClusterTopologyLevelsUnavailable: Unavailable topology \
                 domains: [block zone]"
                    .into(),
            ],
        ),
        ("a binding has all", &head, theirs.clone(), vec![available.into(), all.into()]),
        (
            "a binding lacks them",
            &head_gone,
            theirs,
            vec![
                "TopologyConstraints=False TopologyLevelNotFound: Topology level 'row' not found in \
                 ClusterTopologyBinding 'dc'. Add the level to it."
                    .into(),
                "TopologyLevelsUnavailable=True ClusterTopologyLevelsUnavailable: Unavailable topology \
                 domains: [row shelf]"
                    .into(),
            ],
        ),
        (
            "a binding is gone",
            &head,
            SetTopology::NotFound,
            vec![
                format!("TopologyConstraints={not_found}"),
                format!("TopologyLevelsUnavailable={not_found}"),
            ],
        ),
        (
            "no name",
            &seed,
            SetTopology::Unnamed,
            ["TopologyConstraints", "TopologyLevelsUnavailable"]
                .map(|type_| {
                    format!(
                        "{type_}=Unknown TopologyNameMissing: PodCliqueSet topology constraints must \
                         include topologyName"
                    )
                })
                .into(),
        ),
        (
            "cannot be read",
            &head,
            SetTopology::Unknown,
            ["TopologyConstraints", "TopologyLevelsUnavailable"]
                .map(|type_| {
                    format!(
                        "{type_}=Unknown TopologyUnknown: ClusterTopologyBindings cannot be read; gangs \
                         keep their constraints"
                    )
                })
                .into(),
        ),
    ];
    for (what, set, topology, expected) in cases {
        assert_eq!(said(set, &topology), expected, "{what}");
    }
}

#[test]
fn conditions_go_with_the_last_constraint_and_follow_the_generation() {
    let rack = json!({ "packDomain": "rack" });
    let Mode::Managed(own) = managed() else { panic!() };
    let topology = SetTopology::Managed(own);
    let mut status = PodCliqueSetStatus::default();
    let mut set_with = set(&rack, &Value::Null, &Value::Null);
    let at = |second| Timestamp::from_second(second).unwrap();
    report(&mut status, &set_with, &topology, at(1));
    set_with.metadata.generation = Some(8);
    report(&mut status, &set_with, &topology, at(2));
    assert_eq!(status.conditions[0].observed_generation, Some(8));
    let since = status.conditions[0].last_transition_time.as_ref().unwrap().0;
    assert_eq!(since, at(1), "the status is the same");
    let free = set(&Value::Null, &Value::Null, &Value::Null);
    report(&mut status, &free, &SetTopology::Disabled, at(3));
    assert_eq!(status.conditions, []);
}

#[test]
fn a_binding_orders_its_domains_by_its_list() {
    let binding: ClusterTopologyBinding = serde_json::from_value(json!({
        "metadata": { "name": "dc" },
        "spec": { "levels": [
            { "domain": "shelf", "key": "s" }, { "domain": "aisle", "key": "a" },
        ] },
    }))
    .unwrap();
    let hierarchy = Hierarchy::from(&binding);
    assert!(hierarchy.is_narrower("aisle", "shelf"));
    assert!(!hierarchy.is_narrower("shelf", "aisle"));
    assert!(!hierarchy.is_narrower("aisle", "aisle"));
    assert!(!hierarchy.is_narrower("aisle", "rack"));
}
