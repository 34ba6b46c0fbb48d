use std::sync::Arc;

use grove_runtime::resource::ObjectKey;
use grove_runtime::write::{Precondition, Verb};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A group of two cliques in a set, and some of its members.
struct Scene {
    set: Value,
    group: Value,
    cliques: BTreeMap<String, Value>,
}

impl Scene {
    /// A group with this many replicas and all their members.
    fn settled(replicas: u32) -> Self {
        let clique = |name: &str, replicas: i32| {
            let containers = json!([{ "name": "main", "image": "app:1" }]);
            json!({ "name": name, "spec": {
                "roleName": name, "replicas": replicas, "minAvailable": 1,
                "podSpec": { "containers": containers, "nodeSelector": { "a": "1", "b": "2" } },
            } })
        };
        let set = json!({
            "metadata": {
                "name": "demo", "namespace": "team-a", "uid": "uid-of-demo", "resourceVersion": "1",
            },
            "spec": { "replicas": 1, "template": {
                "cliques": [clique("leader", 1), clique("worker", 3)],
                "podCliqueScalingGroups": [{
                    "name": "decode", "cliqueNames": ["leader", "worker"],
                    "replicas": 2, "minAvailable": 1,
                }],
            } },
        });
        let stored: grove_api::PodCliqueSet = serde_json::from_value(set.clone()).unwrap();
        let layout = Layout::of(&stored);
        let group = children::scaling_group(&layout, 0, &layout.groups()[0], None);
        let mut group = as_stored(&group);
        group["spec"]["replicas"] = json!(replicas);
        let mut scene = Self { set, group, cliques: BTreeMap::new() };
        scene.create();
        scene
    }

    /// Carries out the creates of the plan.
    fn create(&mut self) {
        for write in self.decide().plan.writes() {
            let Verb::Create { body } = &write.verb else { continue };
            self.cliques.insert(write.key.name.to_string(), as_stored(body));
        }
    }

    fn observe(&self) -> Observed {
        let cliques = self.cliques.iter();
        Observed {
            group: object(&self.group),
            set: Some(object(&self.set)),
            cliques: cliques.map(|(name, clique)| (name.clone(), object(clique))).collect(),
            pods_of_breached: BTreeMap::new(),
            has_token: true,
            claims: claims::ObservedClaims::default(),
            gangs: BTreeMap::new(),
            mnnvl: false,
        }
    }

    fn decide(&self) -> Decision {
        decide(&self.observe(), NOW)
    }

    /// The plan as lines.
    fn plan(&self) -> Vec<String> {
        let decision = self.decide();
        assert!(decision.refused.is_none(), "{:?}", decision.refused);
        let line = |write: &&Write| format!("{} {}", write.verb.as_str(), write.key.name);
        decision.plan.writes().iter().map(line).collect()
    }

    fn clique(&mut self, name: &str) -> &mut Value {
        self.cliques.get_mut(name).unwrap()
    }

    fn terminate(object: &mut Value) {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
}

fn as_stored(object: &impl serde::Serialize) -> Value {
    let mut object = json!(object);
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    object["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    object["metadata"]["resourceVersion"] = json!("7");
    object["metadata"]["generation"] = json!(1);
    object
}

fn object<T: DeserializeOwned>(object: &Value) -> Arc<T> {
    Arc::new(serde_json::from_value(object.clone()).unwrap())
}

#[test]
fn settled_group_needs_nothing() {
    for replicas in [0, 1, 3] {
        let scene = Scene::settled(replicas);
        assert_eq!(scene.cliques.len(), 2 * usize::try_from(replicas).unwrap());

        let Decision { plan, waits, refused, .. } = scene.decide();
        assert!(plan.is_empty() && !waits && refused.is_none(), "{replicas}: {plan:?}");
    }
}

#[test]
fn members_that_start_after_others_are_created_when_the_token_exists() {
    let mut scene = Scene::settled(1);
    scene.set["spec"]["template"]["cliqueStartupType"] = json!("CliqueStartupTypeInOrder");
    scene.cliques.clear();
    let created = |has_token: bool| {
        let Decision { plan, waits, .. } = decide(&Observed { has_token, ..scene.observe() }, NOW);
        let names = plan.writes().iter().map(|write| write.key.name.to_string()).collect();
        (names, waits)
    };
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|&one| one.into()).collect() };

    assert_eq!(created(false), (names(&["demo-0-decode-0-leader"]), true));
    let all = names(&["demo-0-decode-0-leader", "demo-0-decode-0-worker"]);
    assert_eq!(created(true), (all, false));
}

#[test]
fn missing_members_are_created_with_owner_finalizer_and_place() {
    let mut scene = Scene::settled(1);
    scene.group["spec"]["replicas"] = json!(3);
    scene.cliques.remove("demo-0-decode-0-worker");

    let expected = [
        "create demo-0-decode-0-worker",
        "create demo-0-decode-1-leader",
        "create demo-0-decode-1-worker",
        "create demo-0-decode-2-leader",
        "create demo-0-decode-2-worker",
    ];
    assert_eq!(scene.plan(), expected);
    let plan = scene.decide().plan;
    let last = plan.writes()[4];
    assert_eq!(last.key, ObjectKey::new("team-a", "demo-0-decode-2-worker"));
    let Verb::Create { body } = &last.verb else { panic!("{last:?}") };
    let labels = &body["metadata"]["labels"];
    assert_eq!(labels[labels::POD_CLIQUE_SCALING_GROUP], "demo-0-decode");
    assert_eq!(labels[labels::POD_CLIQUE_SCALING_GROUP_REPLICA_INDEX], "2");
    assert_eq!(labels[labels::POD_GANG], "demo-0-decode-1");
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "uid-of-demo-0-decode");
    assert_eq!(body["metadata"]["finalizers"], json!([finalizers::POD_CLIQUE]));
}

#[test]
fn scale_in_deletes_the_highest_replicas_and_each_member_once() {
    let mut scene = Scene::settled(12);
    scene.group["spec"]["replicas"] = json!(9);
    Scene::terminate(scene.clique("demo-0-decode-10-leader"));

    let expected = [
        "delete demo-0-decode-11-leader",
        "delete demo-0-decode-11-worker",
        "delete demo-0-decode-10-worker",
        "delete demo-0-decode-9-leader",
        "delete demo-0-decode-9-worker",
    ];
    assert_eq!(scene.plan(), expected);
    let plan = scene.decide().plan;
    let Verb::Delete { only_if, .. } = &plan.writes()[0].verb else { panic!("not a delete") };
    assert_eq!(*only_if, Precondition::uid(&"uid-of-demo-0-decode-11-leader".into()));
}

#[test]
fn terminating_members_are_waited_for_and_not_created_or_deleted_again() {
    let mut scene = Scene::settled(2);
    Scene::terminate(scene.clique("demo-0-decode-1-worker"));

    let decision = scene.decide();
    assert!(decision.plan.is_empty() && decision.waits);

    scene.cliques.remove("demo-0-decode-1-worker");
    assert_eq!(scene.plan(), ["create demo-0-decode-1-worker"]);
}

#[test]
fn own_members_that_the_layout_does_not_name_are_deleted_while_others_are_created() {
    let mut scene = Scene::settled(1);
    let mut stray = scene.cliques.remove("demo-0-decode-0-worker").unwrap();
    stray["metadata"]["name"] = json!("demo-0-decode-0-former");
    let mut foreign = stray.clone();
    foreign["metadata"]["name"] = json!("demo-0-decode-0-foreign");
    foreign["metadata"]["ownerReferences"][0]["uid"] = json!("somebody");
    for clique in [stray, foreign] {
        let name = clique["metadata"]["name"].as_str().unwrap().to_owned();
        scene.cliques.insert(name, clique);
    }

    let expected = ["delete demo-0-decode-0-former", "create demo-0-decode-0-worker"];
    assert_eq!(scene.plan(), expected);
}

#[test]
fn deleted_group_deletes_its_members_and_keeps_foreign_finalizers() {
    let mut scene = Scene::settled(1);
    Scene::terminate(&mut scene.group);
    Scene::terminate(scene.clique("demo-0-decode-0-leader"));
    scene.group["metadata"]["finalizers"] = json!(["a/b", FINALIZER, "c/d"]);

    let mut expected = Plan::default();
    let worker = object::<Object<PodClique>>(&scene.cliques["demo-0-decode-0-worker"]);
    let reason = "its scaling group is being deleted";
    let resource = Resource::of::<PodClique>();
    expected.step([converge::delete_with_owner(resource, &worker.meta, reason)]);
    let group = object::<Object<PodCliqueScalingGroup>>(&scene.group);
    let reason = "its members are being deleted";
    expected.step(converge::remove_finalizer(&group, FINALIZER, reason));
    let plan = scene.decide().plan;
    assert_eq!(plan, expected);
    let Verb::Merge { only_if, .. } = &plan.writes()[1].verb else { panic!("not a patch") };
    assert_eq!(*only_if, Precondition::version(&"uid-of-demo-0-decode".into(), 7));

    Scene::terminate(scene.clique("demo-0-decode-0-worker"));
    scene.group["metadata"]["finalizers"] = json!(["a/b", "c/d"]);
    assert!(scene.decide().plan.is_empty());
    assert!(status(&scene.observe(), Outcome::Waiting, NOW).is_none());
}

#[test]
fn missing_finalizer_is_added_before_the_first_member() {
    let mut scene = Scene::settled(1);
    scene.cliques.remove("demo-0-decode-0-leader");
    scene.group["metadata"]["finalizers"] = json!(["a/b"]);

    let expected = ["merge-patch demo-0-decode", "create demo-0-decode-0-leader"];
    assert_eq!(scene.plan(), expected);
    let plan = scene.decide().plan;
    let Verb::Merge { patch, .. } = &plan.writes()[0].verb else { panic!("not a patch") };
    assert_eq!(*patch, json!({ "metadata": { "finalizers": ["a/b", FINALIZER] } }));
}

#[test]
fn group_without_a_place_is_left_alone() {
    type Change = fn(&mut Scene);
    let cases: [(&str, Change); 4] = [
        ("set is being deleted", |scene| Scene::terminate(&mut scene.set)),
        ("set replica is gone", |scene| scene.set["spec"]["replicas"] = json!(0)),
        ("template has no such group", |scene| {
            scene.set["spec"]["template"]["podCliqueScalingGroups"] = json!([]);
        }),
        ("labels are gone", |scene| scene.group["metadata"]["labels"] = json!({})),
    ];
    for (case, change) in cases {
        let mut scene = Scene::settled(1);
        scene.group["spec"]["replicas"] = json!(2);
        scene.group["metadata"]["finalizers"] = json!([]);
        change(&mut scene);

        assert_eq!(scene.plan(), [""; 0], "{case}");
        let observed = scene.observe();
        let reported = status(&observed, Outcome::Complete { generation: None }, NOW);
        assert!(reported.is_none(), "{case}");
    }
    let mut observed = Scene::settled(0).observe();
    observed.set = None;
    assert!(decide(&observed, NOW).plan.is_empty());
}

#[test]
fn template_changes_reach_running_members_only_with_on_delete() {
    let mut scene = Scene::settled(1);
    for clique in scene.cliques.values_mut() {
        clique["metadata"]["finalizers"] = json!(["a/b", finalizers::POD_CLIQUE]);
        clique["spec"]["replicas"] = json!(5);
    }
    let on_delete = json!({ "type": "OnDelete" });
    scene.set["spec"]["updateStrategy"] = on_delete.clone();
    assert_eq!(scene.plan(), [""; 0], "nothing changed");

    let worker = &mut scene.set["spec"]["template"]["cliques"][1];
    worker["spec"]["podSpec"]["containers"][0]["image"] = json!("app:2");
    worker["spec"]["podSpec"]["nodeSelector"] = json!({ "a": "1" });
    for strategy in [json!(null), json!({}), json!({ "type": "RollingRecreate" })] {
        scene.set["spec"]["updateStrategy"] = strategy;
        assert_eq!(scene.plan(), [""; 0]);
    }
    scene.set["spec"]["updateStrategy"] = on_delete;
    assert_eq!(scene.plan(), ["merge-patch demo-0-decode-0-worker"]);
    let plan = scene.decide().plan;
    let Verb::Merge { patch, only_if, .. } = &plan.writes()[0].verb else { panic!("not a patch") };
    assert_eq!(*only_if, Precondition::version(&"uid-of-demo-0-decode-0-worker".into(), 7));
    json_patch::merge(scene.clique("demo-0-decode-0-worker"), patch);
    assert_eq!(scene.plan(), [""; 0], "settled after {patch}");
    let worker = scene.clique("demo-0-decode-0-worker");
    assert_eq!(worker["spec"]["podSpec"]["containers"][0]["image"], "app:2");
    assert_eq!(worker["spec"]["podSpec"]["nodeSelector"], json!({ "a": "1" }));
    assert_eq!(worker["spec"]["replicas"], 5);
    assert_eq!(worker["metadata"]["finalizers"], json!(["a/b", finalizers::POD_CLIQUE]));
}

#[test]
fn a_name_of_another_owner_is_reported_and_the_rest_is_synced() {
    let mut scene = Scene::settled(2);
    scene.cliques.remove("demo-0-decode-1-leader");
    let taken = scene.clique("demo-0-decode-1-worker");
    let owner = &mut taken["metadata"]["ownerReferences"][0];
    owner["name"] = json!("other");
    owner["uid"] = json!("uid-of-other");

    let Decision { plan, refused, .. } = scene.decide();
    let names: Vec<&str> = plan.writes().iter().map(|write| &*write.key.name).collect();
    assert_eq!(names, ["demo-0-decode-1-leader"]);
    let reported = refused.unwrap().report(NOW).unwrap();
    assert_eq!(reported.code, ErrorCode::CreatePodClique);
    for part in ["team-a/demo-0-decode-1-worker", "team-a/demo-0-decode", "other", "uid-of-other"] {
        assert!(reported.description.contains(part), "{part}: {}", reported.description);
    }

    scene.clique("demo-0-decode-1-worker")["metadata"]["ownerReferences"] = json!([]);
    let refused = scene.decide().refused.unwrap().to_string();
    assert!(refused.contains("controlled by nobody"), "{refused}");
}

#[test]
fn status_counts_own_members_and_is_written_once() {
    let mut scene = Scene::settled(2);
    let set: grove_api::PodCliqueSet = serde_json::from_value(scene.set.clone()).unwrap();
    let generation = grove_core::hash::generation_hash(&set);
    scene.set["status"] = json!({ "currentGenerationHash": generation });
    for clique in scene.cliques.values_mut() {
        let hash = clique["metadata"]["labels"][labels::POD_TEMPLATE_HASH].clone();
        clique["status"] = json!({
            "readyReplicas": 1, "updatedReplicas": 1, "currentPodTemplateHash": hash,
            "currentPodCliqueSetGenerationHash": generation,
            "conditions": [
                { "type": "PodCliqueScheduled", "status": "True", "reason": "r", "message": "" },
            ],
        });
    }
    let report = |scene: &Scene| {
        let outcome = Outcome::Complete { generation: Some(1) };
        status(&scene.observe(), outcome, NOW).and_then(|report| Some(report.write()?.verb))
    };
    let Some(Verb::Merge { patch, subresource: Some("status"), .. }) = report(&scene) else {
        panic!("no status")
    };
    let written = &patch["status"];
    assert_eq!(
        (&written["availableReplicas"], &written["updatedReplicas"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(written["observedGeneration"], 1);
    assert_eq!(written["currentPodCliqueSetGenerationHash"], generation);
    json_patch::merge(&mut scene.group, &patch);
    assert_eq!(report(&scene), None);

    scene.clique("demo-0-decode-1-worker")["metadata"]["ownerReferences"] = json!([]);
    let Some(Verb::Merge { patch, .. }) = report(&scene) else { panic!("no status") };
    assert_eq!(patch["status"]["availableReplicas"], 1);
}

#[test]
fn members_with_gpus_join_the_domain_of_their_replica_when_domains_are_managed() {
    let mut scene = Scene::settled(1);
    scene.set["metadata"]["annotations"] = json!({ "grove.io/mnnvl-group": "m" });
    let worker = &mut scene.set["spec"]["template"]["cliques"][1]["spec"]["podSpec"];
    worker["containers"][0]["resources"] = json!({ "limits": { "nvidia.com/gpu": 1 } });
    scene.cliques.clear();
    let claims = |observed: &Observed| -> Vec<Value> {
        let plan = decide(observed, NOW).plan;
        let bodies = plan.writes().into_iter().map(|write| match &write.verb {
            Verb::Create { body } => body["spec"]["podSpec"]["resourceClaims"].clone(),
            other => panic!("{other:?}"),
        });
        bodies.collect()
    };

    assert_eq!(claims(&scene.observe()), [Value::Null, Value::Null]);
    let with = Observed { mnnvl: true, ..scene.observe() };
    let joined = json!([{ "name": "mnnvl-claim", "resourceClaimTemplateName": "demo-0-m" }]);
    assert_eq!(claims(&with), [Value::Null, joined]);
}

#[test]
fn claims_of_a_group_are_created_after_its_members_and_deleted_with_it() {
    let mut scene = Scene::settled(1);
    let template = &mut scene.set["spec"]["template"];
    template["resourceClaimTemplates"] = json!([{ "name": "t", "templateSpec": { "spec": {} } }]);
    template["podCliqueScalingGroups"][0]["resourceSharing"] =
        json!([{ "name": "t", "scope": "PerReplica" }, { "name": "no", "scope": "AllReplicas" }]);
    let observed = scene.observe();
    let mut claims = claims::ObservedClaims::default();
    claims.desired = observed.place().unwrap().claims;
    let observed = Observed { claims, ..scene.observe() };

    let Decision { plan, refused, .. } = decide(&observed, NOW);

    let [write] = plan.writes()[..] else { panic!("{plan:?}") };
    assert_eq!(&*write.key.name, "demo-0-decode-0-t");
    let Verb::Create { body } = &write.verb else { panic!("{write:?}") };
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "uid-of-demo-0-decode");
    assert!(refused.unwrap().to_string().contains("team-a/no not found"));

    let mut going = scene;
    Scene::terminate(&mut going.group);
    let mut observed = going.observe();
    let claim = Arc::new(serde_json::from_value(as_stored(body)).unwrap());
    observed.claims.live.insert("demo-0-decode-0-t".to_owned(), claim);
    let plan = decide(&observed, NOW).plan;
    let deleted = |write: &&&Write| &*write.resource.plural == "resourceclaims";
    assert_eq!(plan.writes().iter().filter(deleted).count(), 1);
}

#[test]
fn a_group_reports_the_termination_that_its_base_gang_lists_once() {
    let scene = Scene::settled(2);
    let worker = scene.cliques["demo-0-decode-0-worker"]["metadata"]["uid"].as_str().unwrap();
    let listing = |uids: &str| -> Observed {
        let annotations = json!({ "grove.io/terminating-podcliques": uids });
        let gang =
            json!({ "metadata": { "name": "demo-0", "annotations": annotations }, "spec": {} });
        Observed { gangs: [("demo-0".to_owned(), object(&gang))].into(), ..scene.observe() }
    };
    assert!(announcement(&scene.observe(), NOW).is_none());
    assert!(announcement(&listing("former"), NOW).is_none(), "members of a former life");

    let observed = listing(&format!("other,{worker}"));
    let report = announcement(&observed, NOW).unwrap();

    assert_eq!(report.urgency, Urgency::Now);
    assert!(will_be_in_progress(&report.desired));
    let mut reported = scene.group.clone();
    reported["status"] = json!(report.desired);
    let reported = Observed { group: object(&reported), ..listing(worker) };
    assert!(announcement(&reported, NOW).is_none(), "it is reported already");
}
