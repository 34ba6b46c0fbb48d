use std::sync::Arc;

use grove_api::PodGang;
use grove_api::error_code::{ErrorCode, LastError};
use grove_core::children::resource_claims::PodClaims;
use grove_core::start_order::Parent;
use serde_json::{Value, json};

use super::super::testkit::{changed, clique, gang, pod, pods, read, set};
use super::*;
use crate::caches::views::Pod;

/// A setup without the balance, which follows from what was observed.
#[derive(Clone)]
struct Given {
    preparation: Result<Preparation, ReconcileError>,
    init_image: Option<&'static str>,
    handling: PodHandling,
}

fn setup() -> Given {
    let preparation = Ok(Preparation::merge(json!({ "spec": { "schedulerName": "kai" } })));
    Given { preparation, init_image: Some("initc:1"), handling: PodHandling::default() }
}

fn handled(handling: PodHandling) -> Given {
    Given { handling, ..setup() }
}

fn decide(observed: &Observed, given: Given) -> Decision {
    let Given { preparation, init_image, handling } = given;
    let balance = balance(observed, handling.surplus);
    super::decide(observed, &Setup { balance, preparation, init_image, handling, refused: None })
}

fn draft(observed: &Observed, surplus: Surplus) -> Option<Value> {
    balance(observed, surplus).unwrap().draft
}

fn place(gang: Option<Arc<Object<PodGang>>>, base_scheduled: Option<bool>) -> Place {
    Place {
        set: set(),
        set_replica: 0,
        parents: Vec::new(),
        template_hash: "hash".to_owned(),
        gang,
        base_scheduled,
        group_recovers: false,
        pod_claims: PodClaims::default(),
    }
}

fn stored_gang(initialized: bool, pods: &[&str]) -> Arc<Object<PodGang>> {
    Arc::new(read(&gang(initialized, pods)))
}

fn observe(clique: Arc<Object<PodClique>>, pods: Vec<Arc<Pod>>) -> Observed {
    Observed::new(clique, pods, Some(place(None, None)))
}

fn unchanged() -> Arc<Object<PodClique>> {
    changed(clique(), |_| ())
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The writes of a plan, one line each.
fn lines(plan: &Plan) -> Vec<String> {
    let line = |write: &&Write| format!("{} {}", write.verb.as_str(), write.key);
    plan.writes().iter().map(line).collect()
}

#[test]
fn missing_pods_are_created_from_the_stored_clique_with_free_indices() {
    let one_running = vec![Arc::new(read(&pod("p", 1)))];
    let wants_three = changed(clique(), |clique| clique["spec"]["replicas"] = 3.into());

    let decision = decide(&observe(wants_three, one_running), setup());

    let writes = decision.plan.writes();
    let bodies = writes.iter().map(|write| match &write.verb {
        Verb::Create { body } => body,
        other => panic!("{other:?}"),
    });
    let summary = |body: &Value| {
        json!([
            body["spec"]["hostname"],
            body["spec"]["schedulerName"],
            body["spec"]["containers"][0]["image"],
            body["metadata"]["generateName"]
        ])
    };
    let created: Vec<_> = bodies.map(summary).collect();
    assert_eq!(
        json!(created),
        json!([["x-0-a-0", "kai", "app:1", "x-0-a-"], ["x-0-a-2", "kai", "app:1", "x-0-a-"]])
    );
    assert!(writes.iter().all(|write| write.key == ObjectKey::new("ns", "")));
    assert!(decision.problem.is_none());
}

#[test]
fn the_scheduler_sees_a_draft_only_when_pods_are_missing() {
    let draft_of_missing = draft(&observe(unchanged(), pods(&["p"])), Surplus::default()).unwrap();
    assert_eq!(draft_of_missing["spec"]["schedulingGates"][0]["name"], finalizers::SCHEDULING_GATE);
    assert_eq!(draft_of_missing["metadata"]["labels"]["grove.io/podgang"], "x-0");
    assert_eq!(draft(&observe(unchanged(), pods(&["p", "q"])), Surplus::default()), None);
}

#[test]
fn pods_are_not_created_without_an_answer_of_their_scheduler() {
    let error = ReconcileError::rule(ErrorCode::BuildPodResource, "no queue");
    let unprepared = Given { preparation: Err(error), ..setup() };

    let decision = decide(&observe(unchanged(), pods(&["p"])), unprepared.clone());
    assert!(decision.plan.is_empty());
    assert_eq!(decision.problem.unwrap().to_string(), "no queue");

    let decision = decide(&observe(unchanged(), pods(&["p", "q"])), unprepared);
    assert!(decision.problem.is_none(), "none is missing");
}

#[test]
fn a_balanced_clique_that_waits_for_its_gang_needs_no_writes() {
    let decision = decide(&observe(unchanged(), pods(&["p", "q"])), setup());

    assert_eq!(decision.plan, Plan::default());
    assert!(decision.waits && decision.problem.is_none());
}

#[test]
fn pods_above_the_minimum_are_held_back() {
    let wants_four = || changed(clique(), |clique| clique["spec"]["replicas"] = 4.into());
    let held = Surplus { held_from: Some(2), kept_below: 0 };
    let hosts = |pods: Vec<Arc<Pod>>, surplus| {
        let observed = observe(wants_four(), pods);
        let handling = PodHandling { surplus, ..PodHandling::default() };
        let decision = decide(&observed, handled(handling));
        let hosts: Vec<_> = (decision.plan.writes().iter())
            .map(|write| match &write.verb {
                Verb::Create { body } => body["spec"]["hostname"].as_str().unwrap().to_owned(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(draft(&observed, surplus).is_some(), !hosts.is_empty());
        (hosts, decision.waits)
    };
    let hosts_of =
        |indices: &[u32]| indices.iter().map(|i| format!("x-0-a-{i}")).collect::<Vec<_>>();
    assert_eq!(hosts(Vec::new(), held), (hosts_of(&[0, 1]), true));
    let third = || vec![Arc::new(read(&pod("p", 2)))];
    assert_eq!(hosts(third(), held), (hosts_of(&[0, 1]), true), "whatever exists above");
    assert_eq!(hosts(third(), Surplus::default()).0, hosts_of(&[0, 1, 3]));
}

#[test]
fn a_gated_pod_that_would_block_others_loses_its_gate_before_its_deletion() {
    let one = || changed(clique(), |clique| clique["spec"]["replicas"] = 1.into());
    let written = |ungate_first| {
        let setup = handled(PodHandling { ungate_first, ..PodHandling::default() });
        lines(&decide(&observe(one(), pods(&["p", "q"])), setup).plan)
    };
    assert_eq!(written(false), ["delete ns/p"]);
    assert_eq!(written(true), ["json-patch ns/p", "delete ns/p"]);
}

#[test]
fn pods_of_a_recreated_gang_stay_gated_while_former_pods_exist() {
    let observed = Observed {
        place: Some(place(Some(stored_gang(true, &["p", "q"])), None)),
        ..observe(unchanged(), pods(&["p", "q"]))
    };
    let until = |gated_until| {
        let decision =
            decide(&observed, handled(PodHandling { gated_until, ..PodHandling::default() }));
        (lines(&decision.plan).len(), decision.waits)
    };
    assert_eq!(until(Some(jiff::Timestamp::UNIX_EPOCH)), (0, true));
    assert_eq!(until(None), (2, false));
}

#[test]
fn surplus_pods_are_deleted_with_their_gate() {
    let one = changed(clique(), |clique| clique["spec"]["replicas"] = 1.into());
    let observed = Observed {
        place: Some(place(Some(stored_gang(true, &["p", "q", "r"])), None)),
        ..observe(one, pods(&["p", "q", "r"]))
    };

    let decision = decide(&observed, setup());

    let expected = ["delete ns/p", "delete ns/q", "json-patch ns/r"];
    assert_eq!(lines(&decision.plan), expected);
    let Verb::Delete { only_if, grace_seconds, .. } = &decision.plan.writes()[0].verb else {
        panic!("{:?}", decision.plan)
    };
    assert_eq!((only_if, *grace_seconds), (&Precondition::uid(&"uid of p".into()), None));
}

#[test]
fn gates_are_lifted_when_the_gang_allows_it() {
    let cases = [
        (None, None, 0, true),
        (Some(stored_gang(false, &["p", "q"])), None, 0, true),
        (Some(stored_gang(true, &["p"])), None, 1, true),
        (Some(stored_gang(true, &["p", "q"])), None, 2, false),
        (Some(stored_gang(true, &["p", "q"])), Some(false), 0, true),
        (Some(stored_gang(true, &["p", "q"])), Some(true), 2, false),
    ];
    for (case, (gang, base_scheduled, lifted, waits)) in cases.into_iter().enumerate() {
        let place = Some(place(gang, base_scheduled));
        let observed = Observed { place, ..observe(unchanged(), pods(&["p", "q"])) };

        let decision = decide(&observed, setup());

        assert_eq!(lines(&decision.plan), ["json-patch ns/p", "json-patch ns/q"][..lifted]);
        assert_eq!(decision.waits, waits, "case {case}");
    }
}

#[test]
fn only_our_gate_is_removed() {
    let place = Some(place(Some(stored_gang(true, &["p", "q"])), None));
    let observed = Observed { place, ..observe(unchanged(), pods(&["p", "q"])) };

    let decision = decide(&observed, setup());

    let write = decision.plan.writes()[0];
    let Verb::Json { patch, only_if, subresource: None } = &write.verb else { panic!("{write:?}") };
    assert_eq!(*only_if, Precondition::uid(&"uid of p".into()));
    let mut patched = pod("p", 0);
    json_patch::patch(&mut patched, patch).unwrap();
    assert_eq!(patched["spec"]["schedulingGates"], json!([{ "name": "theirs" }]));
    assert!(json_patch::patch(&mut patched, patch).is_err(), "the list is another one now");
}

#[test]
fn a_deleted_clique_deletes_its_pods_and_then_removes_its_finalizer() {
    let deleted = changed(clique(), |clique| {
        clique["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        clique["metadata"]["finalizers"] = json!(["a/theirs", finalizers::POD_CLIQUE, "b/theirs"]);
    });
    let mut going = pod("q", 1);
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let pods = vec![Arc::new(read(&pod("p", 0))), Arc::new(read(&going))];

    let plan = decide(&Observed::new(deleted.clone(), pods, None), setup()).plan;

    let mut expected = Plan::default();
    let observed = observe(unchanged(), self::pods(&["p"]));
    let stored = observed.stored["p"].meta();
    let reason = "the PodClique is being deleted";
    expected.step([converge::delete_with_owner(PODS, stored, reason)]);
    expected.step(converge::remove_finalizer(&deleted, FINALIZER, "the pods are deleted"));
    assert_eq!(plan, expected);
}

#[test]
fn a_deleted_clique_that_others_hold_is_left_alone() {
    let deleted = changed(clique(), |clique| {
        clique["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        clique["metadata"]["finalizers"] = json!(["theirs"]);
    });
    assert!(decide(&Observed::new(deleted, Vec::new(), None), setup()).plan.is_empty());
}

#[test]
fn a_clique_without_a_place_is_left_alone() {
    let decision = decide(&Observed::new(unchanged(), pods(&["p"]), None), setup());
    assert!(decision.plan.is_empty() && decision.problem.is_none() && !decision.waits);
}

#[test]
fn a_missing_finalizer_is_restored_before_pods_are_created() {
    let without = changed(clique(), |clique| clique["metadata"]["finalizers"] = json!(["theirs"]));

    let plan = decide(&observe(without, Vec::new()), setup()).plan;

    assert_eq!(lines(&plan), ["merge-patch ns/x-0-a", "create ns/", "create ns/"]);
    let Verb::Merge { patch, only_if, .. } = &plan.writes()[0].verb else { panic!("{plan:?}") };
    let all = json!(["theirs", finalizers::POD_CLIQUE]);
    assert_eq!(*patch, json!({ "metadata": { "finalizers": all } }));
    assert_eq!(*only_if, Precondition::version(&"clique".into(), 7));
}

#[test]
fn pods_that_cannot_be_built_are_reported_and_the_others_released() {
    let without_gang = changed(clique(), |clique| {
        clique["metadata"]["labels"].as_object_mut().unwrap().remove("grove.io/podgang");
    });
    let ordered = changed(clique(), |clique| clique["spec"]["startsAfter"] = json!(["x-0-b"]));
    let parents = vec![Parent { pod_clique: "x-0-b".to_owned(), min_available: 1 }];
    let no_image = Given { init_image: None, ..setup() };
    for (clique, parents, setup, code) in [
        (without_gang, vec![], setup(), "ERR_MISSING_PODGANG_LABEL_ON_PODCLIQUE"),
        (ordered.clone(), vec![], setup(), "ERR_BUILD_POD_RESOURCE"),
        (ordered, parents, no_image, "ERR_INITCONTAINER_ENVIRONMENT_VARIABLE_MISSING"),
    ] {
        let place = Place { parents, ..place(Some(stored_gang(true, &["p"])), None) };
        let observed = Observed::new(clique, pods(&["p"]), Some(place));

        let decision = decide(&observed, setup);

        let last = decision.problem.and_then(|problem| problem.report(at(1))).unwrap();
        assert_eq!(last.code.as_str(), code);
        assert_eq!(lines(&decision.plan), ["json-patch ns/p"], "{code}");
    }
}

#[test]
fn changed_labels_of_pods_are_restored() {
    let mut stray = pod("p", 0);
    stray["metadata"]["labels"] = json!({ "grove.io/podgang": "other", "theirs": "stays" });
    let pods = vec![Arc::new(read(&stray)), Arc::new(read(&pod("q", 1)))];

    let plan = decide(&observe(unchanged(), pods), setup()).plan;

    assert_eq!(lines(&plan), ["merge-patch ns/p"]);
    let Verb::Merge { patch, .. } = &plan.writes()[0].verb else { panic!("a patch") };
    let expected = json!({ "app.kubernetes.io/part-of": "x", "grove.io/podclique": "x-0-a",
        "grove.io/podgang": "x-0", "grove.io/podcliqueset-replica-index": "0" });
    assert_eq!(patch["metadata"]["labels"], expected);
}

#[test]
fn pods_with_unclear_indices_are_reported() {
    let mut strange = pod("p", 1);
    strange["spec"]["hostname"] = "strange".into();

    let problem =
        decide(&observe(unchanged(), vec![Arc::new(read(&strange))]), setup()).problem.unwrap();

    let code = problem.report(at(1)).unwrap().code;
    assert_eq!(code.as_str(), "ERR_GET_AVAILABLE_POD_HOSTNAME_INDICES");
}

#[test]
fn a_status_is_written_only_when_it_differs() {
    let observed = observe(unchanged(), pods(&["p", "q"]));
    let write = |observed: &Observed, outcome, second| {
        report(observed, observed.place.as_ref().unwrap(), outcome, at(second))
            .and_then(|report| report.write())
    };
    let complete = Outcome::Complete { generation: Some(3) };

    let first = write(&observed, complete, 1).unwrap();

    let Verb::Merge { patch, subresource: Some("status"), .. } = &first.verb else {
        panic!("{first:?}")
    };
    assert_eq!(patch["status"]["observedGeneration"], 3);
    assert_eq!(patch["status"]["replicas"], 2);
    let reported = changed(clique(), |clique| json_patch::merge(clique, patch));
    let again = observe(reported, pods(&["p", "q"]));
    assert_eq!(write(&again, complete, 2), None);
    let errors = [LastError::default()];
    assert!(write(&again, Outcome::Failed { generation: Some(1), errors: &errors }, 2).is_some());
}

/// A clique without pods whose pods have a claim each.
fn with_claims() -> Observed {
    let mut object = json!(set().object);
    object["spec"]["template"]["cliques"][0]["resourceSharing"] =
        json!([{ "name": "t", "scope": "PerReplica" }]);
    let set: Arc<crate::caches::views::Set> = Arc::new(read(&object));
    let layout = Layout::of(&set.object);
    let pod_claims = PodClaims::of(&layout, &layout.standalone_cliques(0)[0]);
    let place = Place { pod_claims, set: set.clone(), ..place(None, None) };
    Observed { place: Some(place), ..observe(unchanged(), Vec::new()) }
}

#[test]
fn pods_name_their_claims_but_the_start_order_container_does_not() {
    let mut observed = with_claims();
    let parent = Parent { pod_clique: "x-0-b".to_owned(), min_available: 1 };
    observed.place.as_mut().unwrap().parents = vec![parent];
    observed.clique = changed(clique(), |clique| clique["spec"]["startsAfter"] = json!(["x-0-b"]));

    let decision = decide(&observed, setup());

    let writes = decision.plan.writes();
    for (index, write) in writes.iter().enumerate() {
        let Verb::Create { body } = &write.verb else { panic!("{write:?}") };
        let spec = &body["spec"];
        let name = format!("x-0-a-{index}-t");
        assert_eq!(spec["resourceClaims"], json!([{ "name": name, "resourceClaimName": name }]));
        assert_eq!(spec["containers"][0]["resources"]["claims"], json!([{ "name": name }]));
        assert_eq!(spec["initContainers"][0].get("resources"), None);
    }
    assert_eq!(writes.len(), 2);
}

#[test]
fn pods_are_not_created_without_their_claims() {
    let mut observed = with_claims();
    let message = "not served".to_owned();
    observed.claims.absence =
        Some(grove_runtime::presence::Absence { reason: "ApiNotServed", message });

    let decision = decide(&observed, setup());
    assert!(decision.plan.is_empty());
    assert_eq!(decision.problem.unwrap().to_string(), "not served");

    observed.place.as_mut().unwrap().pod_claims = PodClaims::default();
    assert_eq!(decide(&observed, setup()).plan.writes().len(), 2, "others do not need the API");
}
