use std::sync::Arc;

use grove_api::PodCliqueSet;
use grove_runtime::write::{Precondition, Verb};
use serde_json::{Value, json};

use super::*;

const DRIVER: &str = "resource.nvidia.com/computeDomain";

fn set() -> PodCliqueSet {
    let gpu = json!({ "limits": { "nvidia.com/gpu": 1 } });
    serde_json::from_value(json!({
        "metadata": { "name": "x", "namespace": "ns", "uid": "set",
            "annotations": { "grove.io/mnnvl-group": "m" } },
        "spec": { "replicas": 1, "template": { "cliques": [{ "name": "a", "spec": {
            "roleName": "a", "replicas": 1,
            "podSpec": { "containers": [{ "name": "c", "resources": gpu }] },
        }}]}},
    }))
    .unwrap()
}

fn desired() -> Vec<ComputeDomain> {
    rules::compute_domains(&Layout::of(&set()), 0)
}

/// A domain as it is stored, with what the driver adds.
fn observe(name: &str, change: impl FnOnce(&mut Value)) -> ObservedDomains {
    let mut object = json!(desired()[0]);
    object["metadata"]["name"] = name.into();
    object["metadata"]["uid"] = "d".into();
    object["metadata"]["resourceVersion"] = "7".into();
    object["metadata"]["finalizers"] = json!([FINALIZER, DRIVER]);
    object["metadata"]["labels"]["theirs"] = "1".into();
    object["spec"]["channel"]["allocationMode"] = "Single".into();
    change(&mut object);
    let live = (name.to_owned(), Arc::new(serde_json::from_value(object).unwrap()));
    ObservedDomains { live: [live].into(), ..ObservedDomains::default() }
}

fn deleted(object: &mut Value) {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
}

fn decided(observed: &ObservedDomains, desired: &[ComputeDomain]) -> Vec<Write> {
    let (writes, problem) = decide(observed, desired, &"set".into());
    assert!(problem.is_none(), "{problem:?}");
    writes
}

fn merged(writes: &[Write]) -> &Value {
    match writes {
        [Write { verb: Verb::Merge { patch, .. }, .. }] => patch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_missing_domain_is_created_with_our_finalizer() {
    let writes = decided(&ObservedDomains::default(), &desired());
    let [Write { verb: Verb::Create { body }, key, .. }] = &writes[..] else { panic!("a create") };
    assert_eq!(&*key.name, "x-0-m");
    assert_eq!(body["metadata"]["finalizers"], json!([FINALIZER]));
    assert_eq!(body["spec"]["numNodes"], 0);
}

#[test]
fn what_the_driver_adds_is_no_difference() {
    assert_eq!(decided(&observe("x-0-m", |_| ()), &desired()), []);
}

#[test]
fn labels_and_finalizer_are_restored() {
    let relabelled = |it: &mut Value| it["metadata"]["labels"]["grove.io/mnnvl-group"] = "z".into();
    let writes = decided(&observe("x-0-m", relabelled), &desired());
    let labels = json!({ "metadata": { "labels": { "grove.io/mnnvl-group": "m" } } });
    assert_eq!(*merged(&writes), labels);

    let release = |it: &mut Value| it["metadata"]["finalizers"] = json!([DRIVER]);
    let writes = decided(&observe("x-0-m", release), &desired());
    let held = json!([DRIVER, FINALIZER]);
    assert_eq!(merged(&writes)["metadata"]["finalizers"], held);
}

#[test]
fn a_domain_that_is_not_desired_is_deleted_then_released() {
    for desired in [vec![], desired()] {
        let here = observe("x-0-old", |_| ());
        let writes = decided(&here, &desired);
        let deletes: Vec<_> =
            writes.iter().filter(|one| matches!(one.verb, Verb::Delete { .. })).collect();
        let [Write { verb: Verb::Delete { only_if, .. }, key, .. }] = deletes[..] else {
            panic!("{writes:?}")
        };
        assert_eq!((&*key.name, only_if), ("x-0-old", &Precondition::uid(&"d".into())));
    }
    let writes = decided(&observe("x-0-old", deleted), &[]);
    assert_eq!(merged(&writes)["metadata"]["finalizers"], json!([DRIVER]));
    let released = |it: &mut Value| {
        deleted(it);
        it["metadata"]["finalizers"] = json!([DRIVER]);
    };
    assert_eq!(decided(&observe("x-0-old", released), &[]), [], "the driver is not done yet");
}

#[test]
fn a_domain_that_a_user_deletes_is_released_and_recreated() {
    let here = observe("x-0-m", deleted);
    assert_eq!(merged(&decided(&here, &desired()))["metadata"]["finalizers"], json!([DRIVER]));
    assert_eq!(merged(&release(&here))["metadata"]["finalizers"], json!([DRIVER]), "without a set");
}

#[test]
fn a_domain_of_another_owner_is_left_alone_and_reported() {
    let of_other = |it: &mut Value| it["metadata"]["ownerReferences"][0]["uid"] = "other".into();
    let here = observe("x-0-m", of_other);
    let (writes, problem) = decide(&here, &desired(), &"set".into());
    assert_eq!(writes, []);
    let text = problem.unwrap().to_string();
    assert!(text.starts_with("ComputeDomain ns/x-0-m belongs to PodCliqueSet x"), "{text}");
    assert_eq!(decided(&here, &[]), [], "nor deleted");
}

#[test]
fn a_cluster_that_lost_the_kind_is_reported_by_sets_with_domains() {
    let absence = Some(Absence { reason: "ApiNotServed", message: "not served".to_owned() });
    let here = ObservedDomains { absence, ..ObservedDomains::default() };
    let (writes, problem) = decide(&here, &desired(), &"set".into());
    assert_eq!((writes.len(), problem.unwrap().to_string().as_str()), (0, "not served"));
    assert_eq!(decided(&here, &[]), []);
    let pending = ObservedDomains { pending: true, ..ObservedDomains::default() };
    assert_eq!(decided(&pending, &desired()), [], "the cache will show it");
}
