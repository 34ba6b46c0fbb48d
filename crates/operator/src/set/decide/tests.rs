use std::collections::BTreeMap;
use std::sync::Arc;

use grove_runtime::write::Verb;
use serde_json::json;

use super::*;
use crate::objects::Object;

fn observed(change: impl FnOnce(&mut PodCliqueSet)) -> Observed {
    let mut set: PodCliqueSet =
        serde_saphyr::from_str(include_str!("../../../../../examples/minimal.yaml")).unwrap();
    set.metadata.namespace = Some("default".to_owned());
    set.metadata.uid = Some("set".to_owned());
    set.metadata.resource_version = Some("1".to_owned());
    change(&mut set);
    Observed {
        set: Arc::new(Object { meta: Meta::from(&set.metadata), object: set }.into()),
        service_account: None,
        role: None,
        role_binding: None,
        secret: None,
        claims: claims::Seen::default(),
    }
}

fn no_children() -> Children {
    Children {
        cliques: BTreeMap::new(),
        groups: BTreeMap::new(),
        gangs: Vec::new(),
        services: Vec::new(),
        autoscalers: Vec::new(),
        claims: Vec::new(),
        compute_domains: Vec::new(),
    }
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn told(plan: &Plan) -> Vec<String> {
    let writes = plan.writes();
    writes.iter().map(|w| format!("{} {}", w.verb.as_str(), w.resource.plural)).collect()
}

#[test]
fn a_new_set_is_taken_charge_of_before_anything_is_made() {
    let seen = observed(|set| {
        set.metadata.finalizers = Some(vec!["somebody.else/x".to_owned()]);
    });

    let (plan, refused) = decide(&seen, no_children);
    assert!(refused.is_none());

    assert_eq!(
        told(&plan),
        [
            "merge-patch podcliquesets",
            "create serviceaccounts",
            "create roles",
            "create secrets",
            "create rolebindings"
        ]
    );
    let Verb::Merge { patch, .. } = &plan.writes()[0].verb else { panic!("a patch") };
    let held = json!(["somebody.else/x", finalizers::POD_CLIQUE_SET]);
    assert_eq!(patch["metadata"]["finalizers"], held);
}

#[test]
fn a_deleted_set_takes_its_children_along_and_keeps_finalizers_of_others() {
    let seen = observed(|set| {
        set.metadata.finalizers =
            Some(vec![finalizers::POD_CLIQUE_SET.to_owned(), "somebody.else/x".to_owned()]);
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        set.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    });
    let child = |owner: &str| {
        serde_json::from_value::<Object<PodGang>>(json!({"metadata": {
            "name": "demo-0", "namespace": "default", "uid": "g", "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
                "name": "demo", "uid": owner, "controller": true}],
        }, "spec": {"podgroups": []}}))
        .unwrap()
    };
    let gangs = vec![Arc::new(child("set")), Arc::new(child("somebody"))];

    let (plan, _) = decide(&seen, || Children { gangs, ..no_children() });

    assert_eq!(told(&plan), ["delete podgangs", "merge-patch podcliquesets"]);
    let Verb::Merge { patch, .. } = &plan.writes()[1].verb else { panic!("a patch") };
    assert_eq!(patch["metadata"]["finalizers"], json!(["somebody.else/x"]));
    assert_eq!(
        status(
            &seen,
            &no_children(),
            Outcome::Complete { generation: None },
            SchedulerState::default(),
            ResourceState::default(),
            now()
        ),
        None
    );
}

#[test]
fn the_first_status_carries_hash_selector_and_generation() {
    let seen = observed(|set| set.metadata.generation = Some(3));

    let write = status(
        &seen,
        &no_children(),
        Outcome::Complete { generation: Some(3) },
        SchedulerState::default(),
        ResourceState::default(),
        now(),
    )
    .unwrap();

    let Verb::Merge { patch, .. } = write.verb else { panic!("a patch") };
    assert_eq!(patch["status"]["observedGeneration"], 3);
    assert!(patch["status"]["currentGenerationHash"].is_string());
    assert!(patch["status"]["hpaPodSelector"].as_str().unwrap().contains("part-of=demo"));
}

#[test]
fn pods_of_a_former_scheduler_are_counted() {
    let pod = |scheduler: &str| -> Arc<Pod> {
        let spec = json!({ "schedulerName": scheduler });
        Arc::new(serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap())
    };
    assert_eq!(left_behind([pod("new")].into_iter(), "new"), None);

    let limit = left_behind(["old", "new", "older", "old"].map(pod).into_iter(), "new").unwrap();
    assert_eq!(limit.reason, "PodsOfAnotherScheduler");
    assert!(limit.message.contains(r#"(2 of "old", 1 of "older")"#), "{}", limit.message);
}

#[test]
fn claims_that_all_replicas_share_are_made_with_the_rest() {
    let mut seen = observed(|set| {
        let template = &mut set.spec.template;
        let own = json!({ "name": "t", "templateSpec": { "spec": {} } });
        template.resource_claim_templates = vec![serde_json::from_value(own).unwrap()];
        let entry = |name: &str| json!({ "name": name, "scope": "AllReplicas" });
        let entries = [entry("t"), entry("beside")];
        template.resource_sharing =
            entries.map(|entry| serde_json::from_value(entry).unwrap()).into();
    });
    seen.claims.wanted =
        grove_core::children::resource_claims::of_set(&Layout::of(&seen.set.object));

    let (plan, refused) = decide(&seen, no_children);

    assert_eq!(told(&plan).iter().filter(|one| *one == "create resourceclaims").count(), 1);
    let refused = refused.unwrap().to_string();
    assert!(refused.starts_with("ResourceClaimTemplate default/beside not found"), "{refused}");
}
