use grove_core::children::owner;
use grove_core::children::resource_claims::of_set;

use super::*;

/// A set that shares a claim of its own template and one of a template beside it.
fn set() -> PodCliqueSet {
    serde_json::from_value(json!({
        "metadata": { "name": "x", "namespace": "ns", "uid": "set" },
        "spec": { "replicas": 1, "template": {
            "resourceClaimTemplates": [
                { "name": "own", "templateSpec": { "spec": { "devices": {} } } },
            ],
            "resourceSharing": [
                { "name": "own", "scope": "AllReplicas" },
                { "name": "far", "scope": "AllReplicas" },
            ],
            "cliques": [],
        }},
    }))
    .unwrap()
}

/// A claim of the set, as it is stored.
fn stored(name: &str, change: impl FnOnce(&mut Value)) -> (String, Arc<Claim>) {
    let mut object = json!({ "metadata": {
        "name": name, "namespace": "ns", "uid": format!("uid of {name}"), "resourceVersion": "7",
        "labels": {
            "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "x",
            "app.kubernetes.io/component": "resource-claim", "theirs": "1",
        },
        "ownerReferences": [{
            "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "x", "uid": "set",
            "controller": true, "blockOwnerDeletion": true,
        }],
    }});
    change(&mut object);
    (name.to_owned(), Arc::new(serde_json::from_value(object).unwrap()))
}

fn template() -> Arc<Template> {
    let object = json!({
        "metadata": { "name": "far", "namespace": "ns", "uid": "t", "resourceVersion": "1" },
        "spec": { "spec": { "devices": { "requests": [] } } },
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

/// The claims of the set when all of them exist.
fn settled(set: &PodCliqueSet) -> ObservedClaims {
    ObservedClaims {
        desired: of_set(&Layout::of(set)),
        live: [stored("x-all-own", |_| ()), stored("x-all-far", |_| ())].into(),
        ..ObservedClaims::default()
    }
}

fn decided(observed: &ObservedClaims, set: &PodCliqueSet) -> Decision {
    decide(observed, &Layout::of(set), &owner::of_set(set), &ErrorCode::SyncPcsResourceClaim)
}

fn lines(decision: &Decision) -> Vec<String> {
    let line = |write: &Write| format!("{} {}", write.verb.as_str(), write.key.name);
    decision.writes.iter().map(line).collect()
}

fn problem(decision: &Decision) -> String {
    decision.problem.as_ref().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn existing_claims_are_left_alone() {
    let set = set();
    let decision = decided(&settled(&set), &set);
    assert_eq!(lines(&decision), [""; 0]);
    assert!(!decision.waits && decision.problem.is_none());
}

#[test]
fn a_missing_claim_is_created_and_a_missing_template_delays_no_other() {
    let set = set();
    let mut observed = ObservedClaims { live: ByName::new(), ..settled(&set) };

    let decision = decided(&observed, &set);
    assert_eq!(lines(&decision), ["create x-all-own"]);
    assert_eq!(
        problem(&decision),
        "ResourceClaimTemplate ns/far not found: ResourceClaim ns/x-all-far is made from it, as \
         resourceSharing of PodCliqueSet x says; create it"
    );

    observed.templates.insert(("ns".to_owned(), "far".to_owned()), template());
    let decision = decided(&observed, &set);
    assert_eq!(lines(&decision), ["create x-all-own", "create x-all-far"]);
    assert_eq!(problem(&decision), "");
    let Verb::Create { body } = &decision.writes[1].verb else { panic!("a create") };
    assert_eq!(body["spec"], json!({ "devices": { "requests": [] } }));
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "set");
}

#[test]
fn nothing_is_created_or_reported_before_the_caches_are_filled() {
    let set = set();
    let observed = ObservedClaims { live: ByName::new(), pending: true, ..settled(&set) };
    let decision = decided(&observed, &set);
    assert_eq!(lines(&decision), [""; 0]);
    assert!(decision.waits && decision.problem.is_none());
}

#[test]
fn a_cluster_without_the_api_is_reported_by_sets_that_share_claims() {
    let set = set();
    let absence = Some(Absence { reason: "ApiNotServed", message: "not served".to_owned() });
    let live = ByName::new();
    let observed = ObservedClaims { live, absence: absence.clone(), ..settled(&set) };
    let decision = decided(&observed, &set);
    assert_eq!(lines(&decision), [""; 0]);
    assert_eq!(problem(&decision), "not served");

    let shares_nothing = ObservedClaims { absence, ..ObservedClaims::default() };
    assert_eq!(problem(&decided(&shares_nothing, &set)), "");
}

#[test]
fn labels_and_owner_are_restored_and_a_terminating_claim_is_waited_for() {
    let set = set();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut observed = settled(&set);
        observed.live.extend([stored("x-all-own", |object| change(object))]);
        decided(&observed, &set)
    };
    let patch = |decision: &Decision| match &decision.writes[0].verb {
        Verb::Merge { patch, only_if, .. } => (patch.clone(), only_if.resource_version),
        other => panic!("{other:?}"),
    };

    let relabelled = with(&|it| it["metadata"]["labels"]["app.kubernetes.io/part-of"] = "y".into());
    let labels = json!({ "metadata": { "labels": { "app.kubernetes.io/part-of": "x" } } });
    assert_eq!((lines(&relabelled).len(), patch(&relabelled)), (1, (labels, None)));

    let other = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p" });
    let orphaned = with(&|it| it["metadata"]["ownerReferences"] = json!([other]));
    let (patched, version) = patch(&orphaned);
    let owners = patched["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[0], &owners[1]["uid"]), (2, &other, &json!("set")));
    assert_eq!(version, Some(7), "the list is written whole");

    let going = with(&|it| it["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    assert!(going.waits && going.writes.is_empty() && going.problem.is_none());
}

#[test]
fn claims_of_other_owners_are_left_alone_and_reported() {
    let set = set();
    for (pointer, value, says) in [
        (
            "ownerReferences",
            json!([{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p",
            "controller": true }]),
            "belongs to Pod p (uid p), not to PodCliqueSet x (uid set)",
        ),
        ("ownerReferences", json!([]), "belongs to nobody and is not labelled"),
    ] {
        let mut observed = settled(&set);
        observed.live.extend([stored("x-all-own", |object| {
            object["metadata"]["labels"] = json!({});
            object["metadata"][pointer] = value;
        })]);
        let decision = decided(&observed, &set);
        assert_eq!(lines(&decision), [""; 0]);
        assert!(problem(&decision).contains(says), "{}", problem(&decision));
    }
}

#[test]
fn surplus_claims_are_deleted_by_uid_if_they_are_ours() {
    let set = set();
    let mut observed = settled(&set);
    let other_owner = |it: &mut Value| it["metadata"]["ownerReferences"][0]["uid"] = "u".into();
    let going =
        |it: &mut Value| it["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    observed.live.extend([
        stored("x-5-far", |_| ()),
        stored("x-6-far", going),
        stored("x-7-far", other_owner),
    ]);

    let decision = decided(&observed, &set);

    assert_eq!(lines(&decision), ["delete x-5-far"]);
    let Verb::Delete { only_if, .. } = &decision.writes[0].verb else { panic!("a delete") };
    assert_eq!(*only_if, Precondition::uid(&"uid of x-5-far".into()));
    let with_owner: Vec<_> = remove_with_owner(&observed, &"set".into());
    let names: Vec<_> = with_owner.iter().map(|write| &*write.key.name).collect();
    assert_eq!(names, ["x-5-far", "x-all-far", "x-all-own"]);
    observed.absence = Some(Absence { reason: "ApiForbidden", message: "no role".to_owned() });
    let with_owner = remove_with_owner(&observed, &"set".into());
    assert!(with_owner.is_empty(), "an owner does not wait for permissions");
}

#[test]
fn a_claim_wakes_its_owner() {
    let owned = |kind: &str, labels: Value| {
        let (_, claim) = stored("c", |object| {
            object["metadata"]["labels"] = labels;
            object["metadata"]["labels"]["app.kubernetes.io/part-of"] = "x".into();
            object["metadata"]["ownerReferences"][0]["kind"] = kind.into();
            object["metadata"]["ownerReferences"][0]["name"] = "owner".into();
            if kind.is_empty() {
                object["metadata"]["ownerReferences"] = json!([]);
            }
        });
        let name = |key: Option<ObjectKey>| key.map(|key| key.name.to_string());
        let meta = &claim.meta;
        [set_of_claim(meta), group_of_claim(meta), clique_of_claim(meta)].map(name)
    };
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(owned("PodCliqueSet", json!({})), [some("owner"), None, None]);
    assert_eq!(owned("PodCliqueScalingGroup", json!({})), [None, some("owner"), None]);
    assert_eq!(owned("PodClique", json!({})), [None, None, some("owner")]);
    assert_eq!(owned("", json!({})), [some("x"), None, None]);
    let of_clique = json!({ "grove.io/podclique": "q" });
    assert_eq!(owned("", of_clique), [None, None, some("q")]);
    let of_group = json!({ "grove.io/podcliquescalinggroup": "g" });
    assert_eq!(owned("", of_group), [None, some("g"), None]);
}
