use std::sync::Arc;

use grove_api::OperatorConfiguration;
use grove_backends::{Registry, SchedulerObject};
use grove_runtime::process::Env;
use grove_runtime::store::Presence;
use grove_runtime::write::Verb;
use serde_json::{Value, json};

use super::*;

fn registry() -> Registry {
    let file = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n\
                scheduler: {profiles: [{name: kai-scheduler}, {name: volcano}]}";
    Registry::new(&OperatorConfiguration::from_yaml(file).unwrap().scheduler, &Env::system())
        .unwrap()
}

fn binding(references: &Value, status: &Value) -> Object<ClusterTopologyBinding> {
    serde_json::from_value(json!({
        "metadata": { "name": "dc", "uid": "binding", "generation": 2, "resourceVersion": "9" },
        "spec": {
            "levels": [{ "domain": "rack", "key": "r" }],
            "schedulerTopologyBindings": references,
        },
        "status": status,
    }))
    .unwrap()
}

fn live(label: &str) -> Arc<SchedulerObject> {
    let live = json!({
        "metadata": { "name": "dc", "uid": "u", "generation": 5, "ownerReferences": [{
            "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "name": "dc",
            "uid": "binding", "controller": true,
        }] },
        "spec": { "levels": [{ "nodeLabel": label }] },
    });
    Arc::new(serde_json::from_value(live).unwrap())
}

/// The decisions when KAI has an object with this label, if any.
fn kai(binding: &ClusterTopologyBinding, label: Option<&str>, presence: Presence) -> Vec<Decision> {
    let registry = registry();
    let with_topology = registry.all().filter_map(|one| Some((one.name(), one.topology()?)));
    let observed: Vec<_> = with_topology
        .map(|(name, part)| {
            let reference = crate::caches::reference(binding, name);
            TopologyScheduler { name, part, reference, live: label.map(live), presence }
        })
        .collect();
    let topology = Topology::from(binding);
    let mut decisions = decide(&topology, &observed);
    decisions.extend(unavailable(binding, &observed));
    decisions
}

#[test]
fn own_topology_objects_are_created_and_repaired() {
    use Presence::{Absent, Served, Unknown};
    let binding = binding(&json!([]), &Value::Null);
    let next = |label, presence| {
        let mut decisions = kai(&binding.object, label, presence);
        assert_eq!(decisions.len(), 1, "only KAI has topologies");
        let decision = decisions.pop().unwrap();
        assert_eq!((&*decision.scheduler, &*decision.reference), ("kai-scheduler", "dc"));
        decision.next
    };
    let verb = |next| match next {
        Ok(Next::Write(write)) => write.verb.as_str(),
        other => panic!("{other:?}"),
    };
    assert_eq!(verb(next(None, Served)), "create");
    assert_eq!(verb(next(Some("z"), Served)), "delete");
    let same = Next::Report(Agreement::Same { generation: None });
    assert_eq!(next(Some("r"), Served).unwrap(), same);
    let cases = [
        (None, Absent, "SchedulerNotInstalled"),
        (None, Unknown, "SchedulerApiUnknown"),
        (Some("z"), Unknown, "SchedulerApiUnknown"),
    ];
    for (label, presence, reason) in cases {
        let error = next(label, presence).unwrap_err();
        assert_eq!(error.reason(), reason);
        assert!(error.message().contains("topologies.kai.scheduler/v1alpha1"), "{error}");
    }
}

#[test]
fn topology_objects_of_other_owners_are_only_compared() {
    let refer = |scheduler: &str| json!([{ "schedulerName": scheduler, "topologyReference": "x" }]);
    let next = |binding: &Object<ClusterTopologyBinding>, label| {
        let decisions = kai(&binding.object, label, Presence::Served);
        decisions.into_iter().map(|one| (one.scheduler, one.reference, one.next.unwrap())).collect()
    };
    let report = |scheduler: &str, reference: &str, agreement| {
        (scheduler.to_owned(), reference.to_owned(), Next::Report(agreement))
    };
    let kai = "kai-scheduler";
    let external = binding(&refer(kai), &Value::Null);
    let differs = |message: &str, generation| {
        let message = message.to_owned();
        report(kai, "x", Agreement::Differs { message, generation })
    };
    let found: Vec<_> = next(&external, None);
    assert_eq!(found, [differs("KAI Topology \"x\" not found", None)]);
    let levels = "KAI Topology levels differ from ClusterTopologyBinding levels";
    let found: Vec<_> = next(&external, Some("z"));
    assert_eq!(found, [differs(levels, Some(5))]);
    let same = Agreement::Same { generation: Some(5) };
    let found: Vec<_> = next(&external, Some("r"));
    assert_eq!(found, [report(kai, "x", same)]);

    let unknown = binding(&refer("volcano"), &Value::Null);
    let found: Vec<_> = next(&unknown, Some("r"));
    let same = Agreement::Same { generation: None };
    assert_eq!(found, [report(kai, "dc", same), report("volcano", "x", Agreement::Unavailable)]);
}

#[test]
fn a_changed_drift_condition_emits_an_event_and_a_status_is_written_once() {
    let of = |agreement| {
        let (scheduler, reference) = ("kai-scheduler".to_owned(), "dc".to_owned());
        vec![SchedulerTopology { scheduler, reference, agreement }]
    };
    let same = || of(Agreement::Same { generation: None });
    let failed = |message: &str| of(Agreement::Failed { message: message.to_owned() });
    let steps = [
        ("first", same(), true, Some("TopologyInSync")),
        ("again", same(), false, None),
        ("fails", failed("a"), true, Some("TopologyDriftDetected")),
        ("fails otherwise", failed("b"), true, None),
        ("unavailable", of(Agreement::Unavailable), true, Some("TopologyDriftDetected")),
        ("recovers", same(), true, Some("TopologyInSync")),
        ("no scheduler is left", Vec::new(), true, None),
    ];
    let mut stored = Value::Null;
    for (what, found, is_written, emitted) in steps {
        let binding = binding(&json!([]), &stored);
        let report = report_of_binding(&binding, &found, Timestamp::UNIX_EPOCH);
        assert_eq!(report.is_some(), is_written, "{what}");
        let Some(report) = report else { continue };
        let reasons = report.events.iter().map(|event| &*event.reason);
        assert!(reasons.eq(emitted), "{what}");
        let write = report.write().unwrap();
        let Verb::Merge { patch, subresource, only_if } = write.verb else { panic!("{what}") };
        assert_eq!((subresource, only_if.resource_version), (Some("status"), Some(9)), "{what}");
        json_patch::merge(&mut stored, &patch["status"]);
    }
    assert_eq!(stored, json!({ "observedGeneration": 2 }));
}

#[test]
fn the_managed_topology_reports_why_a_scheduler_does_not_have_it() {
    let mut managed = json!({
        "metadata": { "name": "grove-topology", "uid": "u", "resourceVersion": "1" },
        "spec": { "levels": [{ "domain": "rack", "key": "r" }] },
    });
    let found = |agreement| {
        let (scheduler, reference) = ("kai-scheduler".to_owned(), "grove-topology".to_owned());
        [SchedulerTopology { scheduler, reference, agreement }]
    };
    let mut step = |agreement| {
        let object = serde_json::from_value(managed.clone()).unwrap();
        let report = report_of_managed(&object, &found(agreement), Timestamp::UNIX_EPOCH)?;
        let write = report.write().unwrap();
        let Verb::Merge { patch, .. } = write.verb else { panic!("{write:?}") };
        json_patch::merge(&mut managed["status"], &patch["status"]);
        Some(managed["status"]["conditions"][0]["status"].clone())
    };
    let failed = || Agreement::Failed { message: "no".to_owned() };
    let same = || Agreement::Same { generation: None };
    assert_eq!(step(failed()), Some(json!("False")));
    assert_eq!(step(failed()), None);
    assert_eq!(step(same()), Some(json!("True")));
    assert_eq!(step(same()), None);
}
