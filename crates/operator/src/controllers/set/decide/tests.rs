use std::sync::Arc;

use grove_runtime::write::Verb;
use serde_json::json;

use super::*;
use crate::controllers::set::access;
use grove_runtime::object::{JsonObject, Object};

fn observe(change: impl FnOnce(&mut PodCliqueSet)) -> Observed {
    let mut set: PodCliqueSet =
        serde_saphyr::from_str(include_str!("../../../../../../examples/minimal.yaml")).unwrap();
    set.metadata.namespace = Some("default".to_owned());
    set.metadata.uid = Some("set".to_owned());
    set.metadata.resource_version = Some("1".to_owned());
    change(&mut set);
    Observed {
        topology: grove_core::topology::SetTopology::Disabled,
        set: Arc::new(Object { meta: Meta::from(&set.metadata), object: set }.into()),
        access: access::ObservedAccess::default(),
        revisions: None,
        claims: claims::ObservedClaims::default(),
        children: Some(Children::default()),
        updating: None,
    }
}

/// A revision of the set with the uid `owner`.
fn revision(name: &str, number: i64, owner: &str) -> Arc<Revision> {
    let revision = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "resourceVersion": "7",
            "annotations": {"kubernetes.io/change-cause": "why"},
            "ownerReferences": [{"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
                "name": "demo", "uid": owner, "controller": true}],
        },
        "revision": number,
        "data": {"spec": {}},
    }));
    Arc::new(revision.unwrap())
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn lines(plan: &Plan) -> Vec<String> {
    let writes = plan.writes();
    writes.iter().map(|w| format!("{} {}", w.verb.as_str(), w.resource.plural)).collect()
}

#[test]
fn a_new_set_gets_its_finalizer_before_children_are_created() {
    let observed = observe(|set| {
        set.metadata.finalizers = Some(vec!["somebody.else/x".to_owned()]);
    });

    let Decision { first, rest, refused } = decide(&observed);
    assert!(refused.is_none());

    assert_eq!(lines(&first), ["merge-patch podcliquesets"]);
    assert_eq!(lines(&rest), [""; 0]);
    let Verb::Merge { patch, .. } = &first.writes()[0].verb else { panic!("a patch") };
    let held = json!(["somebody.else/x", finalizers::POD_CLIQUE_SET]);
    assert_eq!(patch["metadata"]["finalizers"], held);
}

#[test]
fn a_deleted_set_deletes_its_children_and_keeps_foreign_finalizers() {
    let observed = observe(|set| {
        set.metadata.finalizers =
            Some(vec![finalizers::POD_CLIQUE_SET.to_owned(), "somebody.else/x".to_owned()]);
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        set.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    });
    let child = |owner: &str| {
        json!({"metadata": {
            "name": "demo-0", "namespace": "default", "uid": "g", "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
                "name": "demo", "uid": owner, "controller": true}],
        }, "spec": {"podgroups": []}})
    };
    let gang = |owner| Arc::new(serde_json::from_value::<Object<PodGang>>(child(owner)).unwrap());
    let gangs = vec![gang("set"), gang("somebody")];
    let services = vec![Arc::new(serde_json::from_value::<JsonObject>(child("set")).unwrap())];
    let revisions = vec![revision("demo-x", 1, "set"), revision("demo-y", 2, "somebody")];
    let observed = Observed { revisions: Some(revisions), ..observed };

    let children = Some(Children { gangs, services, ..Children::default() });
    let plan = decide(&Observed { children, ..observed }).first;

    let expected = [
        "delete services",
        "delete podgangs",
        "delete controllerrevisions",
        "merge-patch podcliquesets",
    ];
    assert_eq!(lines(&plan), expected);
    let Verb::Merge { patch, .. } = &plan.writes()[3].verb else { panic!("a patch") };
    assert_eq!(patch["metadata"], json!({"finalizers": ["somebody.else/x"]}));
}

#[test]
fn templates_are_kept_when_revisions_can_be_read() {
    let has_all = |set: &mut PodCliqueSet| {
        set.metadata.finalizers = Some(vec![finalizers::POD_CLIQUE_SET.to_owned()]);
    };
    let of_revisions = |revisions: Option<Vec<Arc<Revision>>>| {
        let observed = Observed { revisions, ..observe(has_all) };
        let plan = decide(&observed).rest;
        let of = |write: &&&Write| write.resource == REVISIONS;
        plan.writes().iter().filter(of).map(|write| (*write).clone()).collect::<Vec<_>>()
    };
    assert_eq!(of_revisions(None), []);

    let [create] = &of_revisions(Some(Vec::new()))[..] else { panic!("one write") };
    let Verb::Create { body } = &create.verb else { panic!("a create") };
    let name = body["metadata"]["name"].as_str().unwrap();
    assert_eq!((&body["revision"], &*create.key.name), (&json!(1), name));

    let current = revision(name, 1, "set");
    assert_eq!(of_revisions(Some(vec![current.clone()])), []);
    // One of a former set of this name is neither counted nor touched.
    let foreign = revision("demo-x", 9, "somebody");
    assert_eq!(of_revisions(Some(vec![current.clone(), foreign])), []);
    let newer = revision("demo-y", 2, "set");
    let [patch] = &of_revisions(Some(vec![current, newer]))[..] else { panic!("one write") };
    let Verb::Merge { patch, only_if, .. } = &patch.verb else { panic!("a patch") };
    assert_eq!(patch["revision"], 3);
    assert_eq!(only_if.resource_version, Some(7));
}

#[test]
fn a_long_history_keeps_what_a_clique_still_runs() {
    let observed = observe(|_| {});
    let former = (1..=12).map(|n| revision(&format!("demo-h{n}"), n, "set"));
    let current = revision(&format!("demo-{}", observed.set.hashes().generation), 13, "set");
    let observed = Observed { revisions: Some(former.chain([current]).collect()), ..observed };
    let clique = serde_json::from_value::<Object<PodClique>>(json!({
        "metadata": {"name": "demo-0-router"},
        "spec": {"roleName": "router", "podSpec": {}, "replicas": 1},
        "status": {"currentPodCliqueSetGenerationHash": "h1", "updateProgress": {
            "podCliqueSetGenerationHash": "h3", "podTemplateHash": "x",
        }},
    }));
    let cliques = [("demo-0-router".to_owned(), Arc::new(clique.unwrap()))].into();

    let children = Some(Children { cliques, ..Children::default() });
    let with_clique = Observed { children, ..observe(|_| {}) };
    let with_clique = Observed { revisions: observed.revisions.clone(), ..with_clique };

    assert_eq!(history(&with_clique), []);
    let writes = history(&observed);
    let deleted: Vec<_> = writes.iter().map(|write| &*write.key.name).collect();
    assert_eq!(deleted, ["demo-h1", "demo-h2"]);
}

#[test]
fn the_first_status_carries_hash_selector_and_generation() {
    let observed = observe(|set| set.metadata.generation = Some(3));

    let next = status(
        &observed,
        &Children::default(),
        Outcome::Complete { generation: Some(3) },
        SchedulerState::default(),
        ResourceState::default(),
        now(),
    );
    let report = report(&observed, next, &[]).unwrap();

    let Verb::Merge { patch, .. } = report.write().unwrap().verb else { panic!("a patch") };
    assert_eq!(patch["status"]["observedGeneration"], 3);
    assert_eq!(report.events, [], "a first hash is no update");
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
fn claims_that_all_replicas_share_are_created_with_the_rest() {
    let mut observed = observe(|set| {
        let template = &mut set.spec.template;
        let own = json!({ "name": "t", "templateSpec": { "spec": {} } });
        template.resource_claim_templates = vec![serde_json::from_value(own).unwrap()];
        let entry = |name: &str| json!({ "name": name, "scope": "AllReplicas" });
        let entries = [entry("t"), entry("beside")];
        template.resource_sharing =
            entries.map(|entry| serde_json::from_value(entry).unwrap()).into();
    });
    observed.claims.desired =
        grove_core::children::resource_claims::of_set(&Layout::of(&observed.set.object));

    let Decision { rest, refused, .. } = decide(&observed);

    assert_eq!(lines(&rest).iter().filter(|one| *one == "create resourceclaims").count(), 1);
    let refused = refused.unwrap().to_string();
    assert!(refused.starts_with("ResourceClaimTemplate default/beside not found"), "{refused}");
}
