use grove_core::hash;
use k8s_openapi::api::apps::v1::ControllerRevision;

use super::*;
use crate::testkit::{MINIMAL, SetObjects, after};

fn set() -> PodCliqueSet {
    SetObjects::new(MINIMAL).set
}

/// The set after a patch.
fn patched(set: &PodCliqueSet, operations: Vec<Value>) -> PodCliqueSet {
    let mut value = json!(set);
    let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations)).unwrap();
    json_patch::patch(&mut value, &patch).unwrap();
    serde_json::from_value(value).unwrap()
}

/// The revision that the operator stores for a set.
fn revision(set: &PodCliqueSet) -> Revision {
    let hash = hash::generation_hash(set);
    let changes =
        grove_core::revision::changes(set, &hash, &[], &std::collections::BTreeSet::default());
    let Some(grove_core::revision::RevisionChange::Create(object)) = changes.into_iter().next()
    else {
        panic!("the first revision is created")
    };
    let stored: ControllerRevision = serde_json::from_value(object).unwrap();
    stored.into()
}

#[test]
fn restart_changes_the_template_of_every_clique_and_nothing_else() {
    let mut before = set();
    before.spec.template.cliques[0].annotations.insert("a".to_owned(), "b".to_owned());

    let after_it = patched(&before, restarted(&before, after(0)));

    let hashes = |set: &PodCliqueSet| hash::pod_template_hashes(&set.spec.template);
    for (clique, hash) in hashes(&after_it) {
        assert_ne!(hashes(&before)[&clique], hash, "{clique}");
    }
    let mut expected = before.clone();
    for clique in &mut expected.spec.template.cliques {
        let time = "2026-01-01T00:00:00Z".to_owned();
        clique.annotations.insert(RESTARTED_AT.to_owned(), time);
    }
    assert_eq!(after_it, expected);
    assert_eq!(expected.spec.template.cliques[0].annotations["a"], "b");
}

#[test]
fn undo_restores_what_the_generation_hash_is_about() {
    let former = set();
    let stored = revision(&former);
    let mut now = former.clone();
    let template = &mut now.spec.template;
    template.priority_class_name = Some("high".to_owned());
    template.cliques[0].labels.insert("new".to_owned(), "yes".to_owned());
    template.cliques[1].spec.pod_spec.insert("hostNetwork".to_owned(), json!(true));
    now.spec.replicas = 7;
    assert_ne!(hash::generation_hash(&now), hash::generation_hash(&former));

    let back = patched(&now, restored(&now, &stored).unwrap());

    assert_eq!(hash::generation_hash(&back), hash::generation_hash(&former));
    assert_eq!(back.spec.replicas, 7);
    assert_eq!(restored(&former, &stored).unwrap(), [Value::Null; 0]);
}

#[test]
fn revision_with_other_cliques_cannot_be_restored() {
    let stored = revision(&set());
    let mut now = set();
    now.spec.template.cliques[0].name = "other".to_owned();

    let error = restored(&now, &stored).unwrap_err().to_string();

    assert!(error.contains("cliques cannot be added or removed"), "{error}");
    assert!(error.contains("other"), "{error}");
}

#[test]
fn paused_sets_are_neither_restarted_nor_rolled_back() {
    let mut set = set();
    refuse_paused(&set).unwrap();
    let paused = grove_api::annotations::ROLLOUT_PAUSED.to_owned();
    set.metadata.annotations = Some([(paused, "true".to_owned())].into());

    let error = refuse_paused(&set).unwrap_err().to_string();

    assert_eq!(error, "PodCliqueSet \"demo\" is paused: run \"grove rollout resume demo\" first");
}
