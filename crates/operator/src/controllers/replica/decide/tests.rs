use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api::PodCliqueSet;
use grove_api::condition::pod_gang as reasons;
use grove_api::pod_clique_set::{CliqueStartupType, PodCliqueTemplate};
use grove_runtime::write::Verb;
use serde_json::json;

use super::super::observe::SchedulerNeeds;
use super::*;

/// The set that users start from, as it is stored.
fn set() -> PodCliqueSet {
    let mut set: PodCliqueSet =
        serde_saphyr::from_str(include_str!("../../../../../../examples/minimal.yaml")).unwrap();
    grove_core::admission::default(&mut set);
    set.metadata.namespace = Some("default".to_owned());
    set.metadata.uid = Some("set".to_owned());
    set.metadata.resource_version = Some("1".to_owned());
    set
}

fn observe(set: PodCliqueSet, index: u32) -> Observed {
    Observed {
        topology: grove_core::topology::SetTopology::Disabled,
        set: Arc::new(Object { meta: Meta::from(&set.metadata), object: set }.into()),
        index,
        services: ByName::new(),
        autoscalers: ByName::new(),
        cliques: ByName::new(),
        groups: ByName::new(),
        gangs: ByName::new(),
        pods: BTreeMap::new(),
        has_token: true,
        claims: claims::ObservedClaims::default(),
        missing_claims: BTreeMap::new(),
        compute_domains: None,
        scheduler: SchedulerNeeds::default(),
    }
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn decided(observed: &Observed) -> Plan {
    let Decision { plan, refused, .. } = decide(observed, now());
    assert!(refused.is_none(), "{refused:?}");
    plan
}

/// `verb plural name`, for every write.
fn lines(plan: &Plan) -> Vec<String> {
    plan.writes()
        .iter()
        .map(|write| {
            format!("{} {} {}", write.verb.as_str(), write.resource.plural, write.key.name)
        })
        .collect()
}

/// Stores what a plan creates, as the API server would.
fn store(observed: &mut Observed, plan: &Plan) {
    fn stored<T: DeserializeOwned>(body: &Value) -> Arc<T> {
        Arc::new(serde_json::from_value(body.clone()).unwrap())
    }
    for write in plan.writes() {
        let Verb::Create { body } = &write.verb else { continue };
        let mut body = body.clone();
        body["metadata"]["uid"] = json!(&*write.key.name);
        body["metadata"]["resourceVersion"] = json!("2");
        body["metadata"]["generation"] = json!(1);
        let name = write.key.name.to_string();
        match &*write.resource.plural {
            "services" => drop(observed.services.insert(name, stored::<JsonObject>(&body))),
            "podcliques" => drop(observed.cliques.insert(name, stored(&body))),
            "podcliquescalinggroups" => drop(observed.groups.insert(name, stored(&body))),
            "podgangs" => drop(observed.gangs.insert(name, stored(&body))),
            other => panic!("unexpected {other}"),
        }
    }
}

#[test]
fn cliques_that_start_after_others_are_created_when_the_token_exists() {
    let mut set = set();
    set.spec.template.clique_startup_type = Some(CliqueStartupType::InOrder);
    set.spec.template.cliques.push(PodCliqueTemplate {
        name: "last".to_owned(),
        ..set.spec.template.cliques[0].clone()
    });
    let mut observed = observe(set, 0);
    observed.has_token = false;
    let has_last = |observed: &Observed| {
        let lines = lines(&decided(observed));
        assert!(lines.contains(&"create podcliques demo-0-router".to_owned()), "{lines:?}");
        lines.contains(&"create podcliques demo-0-last".to_owned())
    };

    assert!(!has_last(&observed));
    observed.has_token = true;
    assert!(has_last(&observed));
}

/// A complete replica, of which the named parts report a condition since a time.
fn with_conditions(rows: &[(&str, &str, &str, &str)]) -> Observed {
    let mut observed = observe(set(), 0);
    let plan = decided(&observed);
    store(&mut observed, &plan);
    let layout_set = set();
    let layout = Layout::of(&layout_set);
    let owner = owner::of_scaling_group(&observed.groups["demo-0-decode"].object);
    for place in layout.member_cliques(0, &layout.groups()[0], 0) {
        let member = children::pod_clique(&layout, &place, "hash", &owner, None);
        let mut member = json!(member);
        member["metadata"]["uid"] = json!(place.name);
        member["metadata"]["resourceVersion"] = json!("2");
        let member = Arc::new(serde_json::from_value(member).unwrap());
        observed.cliques.insert(place.name.clone(), member);
    }
    let reported = |name: &str, object: Value| {
        let mut object = object;
        object["metadata"]["creationTimestamp"] = json!("2025-01-01T00:00:00Z");
        let of_it = rows.iter().filter(|row| row.0 == name);
        let conditions: Vec<_> = of_it
            .map(|(_, type_, status, since)| {
                json!({ "type": type_, "status": status, "lastTransitionTime": since,
                    "reason": "r", "message": "" })
            })
            .collect();
        object["status"] = json!({ "conditions": conditions });
        object
    };
    for (name, clique) in &mut observed.cliques {
        let object = reported(name, json!(clique.object));
        *clique = Arc::new(serde_json::from_value(object).unwrap());
    }
    for (name, group) in &mut observed.groups {
        let mut object = reported(name, json!(group.object));
        object["status"]["scheduledReplicas"] = json!(0);
        *group = Arc::new(serde_json::from_value(object).unwrap());
    }
    observed
}

const LOST: &str = "2025-12-31T12:00:00Z";
const ROUTER: [(&str, &str, &str, &str); 2] = [
    ("demo-0-router", "MinAvailableBreached", "True", LOST),
    ("demo-0-router", "MinAvailableReached", "True", LOST),
];

/// Lists PodCliques on the base gang, as the first step of a termination does.
fn list(observed: &mut Observed, uids: &str) {
    let gang = observed.gangs.get_mut("demo-0").unwrap();
    let mut object = json!(gang.object);
    object["metadata"]["annotations"] = json!({ "grove.io/terminating-podcliques": uids });
    *gang = Arc::new(serde_json::from_value(object).unwrap());
}

/// The groups of a termination that has announced itself.
const ANNOUNCED: [(&str, &str, &str, &str); 2] = [
    ("demo-0-decode", "GangTerminationInProgress", "True", LOST),
    ("demo-0-decode", "MinAvailableReached", "False", LOST),
];

#[test]
fn a_termination_lists_announces_deletes_and_forgets() {
    fn decide_at_end(observed: &Observed) -> Decision<'_> {
        decide(observed, now())
    }
    let mut observed = with_conditions(&ROUTER);
    let Decision { plan, terminates, .. } = decide_at_end(&observed);
    assert!(!terminates);
    assert_eq!(lines(&plan), ["merge-patch podgangs demo-0"]);
    let Verb::Merge { patch, .. } = &plan.writes()[0].verb else { panic!("{plan:?}") };
    let all = "demo-0-decode-0-leader,demo-0-decode-0-worker,demo-0-router";
    assert_eq!(patch["metadata"]["annotations"]["grove.io/terminating-podcliques"], all);

    list(&mut observed, all);
    let Decision { plan, terminates, .. } = decide_at_end(&observed);
    assert!(!terminates);
    assert_eq!(lines(&plan), [""; 0], "the group reports it first");

    let mut observed = with_conditions(&[ROUTER[0], ROUTER[1], ANNOUNCED[0], ANNOUNCED[1]]);
    let message = json!(
        "Gang termination fired at PCS-replica scope for PCS replica 0; this PCSG's \
        PodCliques were deleted as part of the recycle"
    );
    let group = observed.groups.get_mut("demo-0-decode").unwrap();
    let announced = grove_core::termination::announced(&group.object, 0, now());
    let mut object = json!(group.object);
    object["status"] = json!(announced);
    assert_eq!(object["status"]["conditions"][0]["message"], message);
    *group = Arc::new(serde_json::from_value(object).unwrap());
    list(&mut observed, all);
    let Decision { plan, terminates, .. } = decide_at_end(&observed);
    assert!(terminates);
    assert_eq!(
        lines(&plan),
        [
            "delete podcliques demo-0-decode-0-leader",
            "delete podcliques demo-0-decode-0-worker",
            "delete podcliques demo-0-router",
        ]
    );

    // Recreated ones have other uids.
    list(&mut observed, "former,another");
    let Decision { plan, terminates, .. } = decide_at_end(&observed);
    assert!(!terminates);
    assert_eq!(lines(&plan), ["merge-patch podgangs demo-0"]);
    let Verb::Merge { patch, .. } = &plan.writes()[0].verb else { panic!("{plan:?}") };
    assert!(patch["metadata"]["annotations"]["grove.io/terminating-podcliques"].is_null());
}

#[test]
fn a_replica_that_may_recover_or_is_being_recreated_is_not_terminated() {
    let early = "2025-12-31T15:59:59Z".parse().unwrap();
    let observed = with_conditions(&ROUTER);
    let before = decide(&observed, early);
    assert!(!before.terminates);
    assert_eq!(before.deadline, now().checked_sub(jiff::SignedDuration::from_hours(8)).ok());

    let mut recreated = with_conditions(&ROUTER);
    recreated.cliques.remove("demo-0-router");
    assert!(!decide(&recreated, now()).terminates);
}

#[test]
fn a_termination_that_was_interrupted_deletes_the_rest_of_its_list() {
    let early = "2025-12-31T13:00:00Z".parse().unwrap();
    let mut unfinished = with_conditions(&[]);
    list(&mut unfinished, "former,demo-0-router");
    let Decision { plan, terminates, .. } = decide(&unfinished, early);
    assert!(terminates);
    assert_eq!(lines(&plan), ["delete podcliques demo-0-router"]);
}

#[test]
fn a_new_replica_gets_everything_at_once_and_gangs_before_pods() {
    let mut observed = observe(set(), 0);

    let plan = decided(&observed);
    assert_eq!(
        lines(&plan),
        [
            "create services demo-0",
            "create podcliques demo-0-router",
            "create podcliquescalinggroups demo-0-decode",
            "create podgangs demo-0",
            "create podgangs demo-0-decode-0",
        ]
    );

    store(&mut observed, &plan);
    let plan = decided(&observed);
    assert_eq!(
        lines(&plan),
        ["merge-patch podgangs demo-0", "merge-patch podgangs demo-0-decode-0"]
    );
    for write in plan.writes() {
        let Verb::Merge { patch, subresource, .. } = &write.verb else { panic!("a status") };
        assert_eq!(*subresource, Some("status"));
        assert_eq!(patch["status"]["conditions"][0]["reason"], reasons::PODS_PENDING);
    }
}

#[test]
fn a_gang_reports_that_it_is_incomplete_and_gets_its_references_when_all_pods_exist() {
    let mut observed = observe(set(), 0);
    let plan = decided(&observed);
    store(&mut observed, &plan);
    let base_gang = |observed: &Observed| {
        let plan = decided(observed);
        let write =
            plan.writes().into_iter().find(|write| &*write.key.name == "demo-0").cloned()?;
        let Verb::Merge { patch, subresource, .. } = write.verb else { panic!("{write:?}") };
        Some((patch, subresource))
    };

    let (first, subresource) = base_gang(&observed).unwrap();
    assert_eq!(subresource, Some("status"));
    assert_eq!(first["status"]["conditions"][0]["status"], "False");
    let mut gang = json!(observed.gangs["demo-0"].object);
    json_patch::merge(&mut gang, &first);
    observed.gangs.insert("demo-0".to_owned(), Arc::new(serde_json::from_value(gang).unwrap()));

    let members: Vec<String> = observed.gangs["demo-0"]
        .object
        .spec
        .pod_groups
        .iter()
        .map(|group| group.name.clone())
        .collect();
    assert!(members.len() > 1);
    for name in &members {
        assert!(base_gang(&observed).is_none(), "{name} has no pods yet");
        let mut clique = json!(observed.cliques["demo-0-router"].object);
        clique["metadata"]["name"] = json!(name);
        clique["spec"]["replicas"] = json!(1);
        observed.cliques.insert(name.clone(), Arc::new(serde_json::from_value(clique).unwrap()));
        let labels = json!({"grove.io/podclique": name, "grove.io/podgang": "demo-0"});
        let pod = json!({
            "metadata": {"name": format!("{name}-x"), "uid": "p", "labels": labels},
            "spec": {"hostname": format!("{name}-0")},
        });
        let pod = serde_json::from_value::<crate::caches::views::Pod>(pod).unwrap().observed;
        observed.pods.insert(name.clone(), vec![pod]);
    }
    let (second, subresource) = base_gang(&observed).unwrap();
    assert_eq!(subresource, None);
    for (group, name) in second["spec"]["podgroups"].as_array().unwrap().iter().zip(&members) {
        assert_eq!(group["podReferences"][0]["name"], format!("{name}-x"));
    }
}

#[test]
fn a_surplus_replica_is_deleted() {
    let mut observed = observe(set(), 0);
    let plan = decided(&observed);
    store(&mut observed, &plan);

    let mut fewer = set();
    fewer.spec.replicas = 0;
    observed.set = Arc::new(Object { meta: Meta::from(&fewer.metadata), object: fewer }.into());

    assert_eq!(
        lines(&decided(&observed)),
        [
            "delete services demo-0",
            "delete podgangs demo-0",
            "delete podgangs demo-0-decode-0",
            "delete podcliques demo-0-router",
            "delete podcliquescalinggroups demo-0-decode",
        ]
    );
}

#[test]
fn gangs_follow_the_live_size_of_a_group() {
    let mut observed = observe(set(), 0);
    let plan = decided(&observed);
    store(&mut observed, &plan);
    let resized = |observed: &mut Observed, replicas| {
        let mut group = observed.groups["demo-0-decode"].object.clone();
        group.spec.replicas = replicas;
        let group = Object { meta: Meta::from(&group.metadata), object: group };
        observed.groups.insert("demo-0-decode".to_owned(), Arc::new(group));
    };

    resized(&mut observed, 3);
    assert!(lines(&decided(&observed)).contains(&"create podgangs demo-0-decode-1".to_owned()));
    resized(&mut observed, 1);
    assert!(lines(&decided(&observed)).contains(&"delete podgangs demo-0-decode-0".to_owned()));
}

#[test]
fn an_object_of_another_owner_is_reported_and_left_alone() {
    let mut observed = observe(set(), 0);
    let plan = decided(&observed);
    store(&mut observed, &plan);
    let mut other = set();
    other.metadata.uid = Some("a later life".to_owned());
    observed.set = Arc::new(Object { meta: Meta::from(&other.metadata), object: other }.into());

    let error = decide(&observed, now()).refused.unwrap();

    assert_eq!(
        error.to_string(),
        "services default/demo-0 belongs to PodCliqueSet demo, not to PodCliqueSet default/demo; \
         rename one of the two"
    );
}

#[test]
fn objects_that_are_being_deleted_are_waited_for() {
    let mut observed = observe(set(), 0);
    let plan = decided(&observed);
    store(&mut observed, &plan);
    let mut going = observed.cliques["demo-0-router"].object.clone();
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    going.metadata.labels = None;
    let going = Object { meta: Meta::from(&going.metadata), object: going };
    observed.cliques.insert("demo-0-router".to_owned(), Arc::new(going));

    assert!(!lines(&decided(&observed)).iter().any(|write| write.contains("podcliques")));
}

/// The set in an MNNVL group, with GPUs in the router.
fn set_with_domain() -> PodCliqueSet {
    let mut set = set();
    let group = ("grove.io/mnnvl-group".to_owned(), "m".to_owned());
    set.metadata.annotations = Some([group].into());
    let gpus = json!([{ "name": "c", "resources": { "limits": { "nvidia.com/gpu": "8" } } }]);
    set.spec.template.cliques[0].spec.pod_spec.insert("containers".to_owned(), gpus);
    set
}

#[test]
fn domains_are_created_and_joined_only_when_the_operator_manages_them() {
    let without = observe(set_with_domain(), 0);
    let domain = "create computedomains demo-0-m".to_owned();
    assert!(!lines(&decided(&without)).contains(&domain));
    let with =
        Observed { compute_domains: Some(compute_domains::ObservedDomains::default()), ..without };
    let plan = decided(&with);
    assert!(lines(&plan).contains(&domain));
    let writes = plan.writes();
    let router = writes.iter().find(|write| &*write.key.name == "demo-0-router").unwrap();
    let Verb::Create { body } = &router.verb else { panic!("a create") };
    let claims = &body["spec"]["podSpec"]["resourceClaims"];
    assert_eq!(claims[0]["resourceClaimTemplateName"], "demo-0-m");

    let beyond = Observed { index: 1, ..with };
    assert_eq!(lines(&decided(&beyond)), [""; 0]);
}

#[test]
fn claims_of_a_replica_are_deleted_with_it() {
    let claim = json!({ "metadata": {
        "name": "demo-0-t", "namespace": "default", "uid": "c", "resourceVersion": "1",
        "ownerReferences": [{ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
            "name": "demo", "uid": "set", "controller": true }],
    }});
    let mut fewer = set();
    fewer.spec.replicas = 0;
    let mut observed = observe(fewer, 0);
    let claim = Arc::new(serde_json::from_value(claim).unwrap());
    observed.claims.live.insert("demo-0-t".to_owned(), claim);

    assert_eq!(lines(&decided(&observed)), ["delete resourceclaims demo-0-t"]);
}
