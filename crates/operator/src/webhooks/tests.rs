use std::collections::BTreeSet;

use futures::future::BoxFuture;
use grove_api::config::{DEFAULT_SCHEDULER, Scheduler, SchedulerProfile};
use grove_backends::{Backend, BackendError, Capabilities, NewPods, Preparation, SchedulerObjects};
use grove_core::topology::Mode;
use grove_runtime::resource::Resource;
use grove_runtime::store::StoreBuilder;
use serde_json::json;

use super::*;

fn schedulers() -> Schedulers {
    let profiles = vec![SchedulerProfile::named(DEFAULT_SCHEDULER)];
    let default_profile_name = DEFAULT_SCHEDULER.to_owned();
    let backends = Registry::new(&Scheduler { profiles, default_profile_name }, &Env::system());
    let backends = backends.unwrap();
    Schedulers { backends, objects: SchedulerCaches::default() }
}

fn context() -> Context {
    Context {
        enabled_schedulers: BTreeSet::from(["default-scheduler".to_owned()]),
        default_scheduler: "default-scheduler".to_owned(),
        mnnvl_enabled: false,
        topology: Mode::Disabled,
    }
}

/// Topology-aware scheduling is off.
fn off(_: &PodCliqueSet) -> SetTopology {
    SetTopology::Disabled
}

fn set() -> Value {
    let clique = json!({
        "name": "worker",
        "spec": {
            "roleName": "worker",
            "replicas": 2,
            "podSpec": {"containers": [{"name": "c", "image": "busybox"}]},
        },
    });
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "demo", "namespace": "team-a"},
        "spec": {"replicas": 1, "template": {"cliques": [clique]}},
    })
}

fn review(operation: &str, object: Option<&Value>, old: Option<&Value>) -> Request {
    let gvk = json!({"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"});
    let gvr = json!({"group": "grove.io", "version": "v1alpha1", "resource": "podcliquesets"});
    serde_json::from_str(
        &json!({
            "uid": "u", "kind": gvk, "resource": gvr, "operation": operation,
            "name": "demo", "namespace": "team-a", "userInfo": {"username": "alice"},
            "object": object, "oldObject": old,
        })
        .to_string(),
    )
    .unwrap()
}

fn defaulted() -> Value {
    let mut set = set();
    let Admission::Allow { patch: Some(patch), .. } = default(&review("CREATE", Some(&set), None))
    else {
        panic!("defaults make a patch")
    };
    json_patch::patch(&mut set, &patch).unwrap();
    set
}

#[test]
fn defaults_arrive_as_a_patch_and_a_complete_set_needs_none() {
    let set = defaulted();

    assert_eq!(set["spec"]["template"]["terminationDelay"], "4h0m0s");
    assert_eq!(default(&review("UPDATE", Some(&set), None)), Admission::allow());
}

#[tokio::test]
async fn a_good_set_passes_without_warnings_and_a_bad_one_is_refused_by_field() {
    let mut set = defaulted();
    set["spec"]["template"]["cliqueStartupType"] = json!("CliqueStartupTypeAnyOrder");
    let allowed =
        validate(&review("CREATE", Some(&set), None), &context(), off, &schedulers(), None).await;
    assert!(
        matches!(&allowed, Admission::Allow { warnings, .. } if warnings.is_empty()),
        "{allowed:?}"
    );

    let old = set.clone();
    set["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = json!(1);
    let update = review("UPDATE", Some(&set), Some(&old));
    let Admission::Deny(denial) = validate(&update, &context(), off, &schedulers(), None).await
    else {
        panic!("immutable")
    };
    assert_eq!(denial.code, 403);
    assert!(denial.message.contains("field is immutable"), "{}", denial.message);
}

/// A scheduler that refuses sets.
struct Incapable;

impl Backend for Incapable {
    fn name(&self) -> &'static str {
        DEFAULT_SCHEDULER
    }

    fn capabilities(&self, _: &dyn SchedulerObjects) -> Capabilities {
        unreachable!("admission does not compare schedulers")
    }

    fn prepare_pods<'a>(
        &'a self,
        _: NewPods<'a>,
    ) -> BoxFuture<'a, Result<Preparation, BackendError>> {
        Box::pin(async { Ok(Preparation::default()) })
    }

    fn validate<'a>(
        &'a self,
        _: &'a PodCliqueSet,
        old: Option<&'a PodCliqueSet>,
        _: &'a dyn SchedulerObjects,
    ) -> BoxFuture<'a, Result<Vec<String>, String>> {
        let response = match old.map(|old| old.spec.replicas) {
            None => Err("no new sets here".to_owned()),
            Some(1) => Err("no changed sets here".to_owned()),
            Some(_) => Ok(vec!["not looked at".to_owned()]),
        };
        Box::pin(async move { response })
    }
}

#[tokio::test]
async fn the_scheduler_of_a_set_may_refuse_it() {
    let mut set = defaulted();
    set["spec"]["template"]["cliqueStartupType"] = json!("CliqueStartupTypeAnyOrder");
    let backends = Registry::of(vec![Arc::new(Incapable)], DEFAULT_SCHEDULER).unwrap();
    let incapable = Schedulers { backends, objects: SchedulerCaches::default() };
    for (operation, old, reason) in
        [("CREATE", None, "no new sets here"), ("UPDATE", Some(&set), "no changed sets here")]
    {
        let review = review(operation, Some(&set), old);
        let Admission::Deny(denial) = validate(&review, &context(), off, &incapable, None).await
        else {
            panic!("refused")
        };
        assert!(denial.message.starts_with("spec: Invalid value"), "{}", denial.message);
        assert!(denial.message.contains(reason), "{}", denial.message);
    }
    let mut old = set.clone();
    old["spec"]["replicas"] = json!(2);
    let review = review("UPDATE", Some(&set), Some(&old));
    let allowed = validate(&review, &context(), off, &incapable, None).await;
    let Admission::Allow { warnings, .. } = allowed else { panic!("allowed with a warning") };
    assert!(warnings.contains(&"not looked at".to_owned()), "{warnings:?}");
}

#[tokio::test]
async fn undecodable_objects_are_answered_with_400() {
    let mut set = set();
    set["spec"]["template"]["terminationDelay"] = json!("abc");

    for response in [
        default(&review("CREATE", Some(&set), None)),
        validate(&review("CREATE", Some(&set), None), &context(), off, &schedulers(), None).await,
        default(&review("CREATE", None, None)),
    ] {
        assert!(matches!(&response, Admission::Deny(denial) if denial.code == 400), "{response:?}");
    }
}

#[test]
fn the_authorizer_answers_nothing_before_it_knows_the_sets() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _guard = runtime.enter();
    let env = Env::new(Clock::system(), 1);
    let sets =
        StoreBuilder::<Set>::new(Resource::of::<PodCliqueSet>(), env.metrics.clone()).build();
    let guards = Guards { operator: "operator".to_owned(), exempt: Vec::new() };
    let service = json!({"metadata": {"labels": {"app.kubernetes.io/part-of": "demo"}}});

    let response = authorize(&review("UPDATE", Some(&service), Some(&service)), &guards, &sets);

    assert!(matches!(&response, Admission::Deny(denial) if denial.code == 500), "{response:?}");
}

#[tokio::test]
async fn a_topology_that_cannot_be_read_delays_only_what_depends_on_it() {
    let mut set = defaulted();
    set["spec"]["template"]["cliqueStartupType"] = json!("CliqueStartupTypeAnyOrder");
    set["spec"]["template"]["topologyConstraint"] =
        json!({"topologyName": "dc", "pack": {"required": "rack"}});
    let unread = |_: &PodCliqueSet| SetTopology::Unknown;
    let create = review("CREATE", Some(&set), None);
    let answer = validate(&create, &context(), unread, &schedulers(), None).await;
    let Admission::Deny(denial) = answer else { panic!("not decided") };
    assert_eq!(denial.code, 500);
    assert!(denial.message.ends_with("ClusterTopologyBinding \"dc\" at the moment; try again"));

    let mut scaled = set.clone();
    scaled["spec"]["replicas"] = json!(2);
    let update = review("UPDATE", Some(&scaled), Some(&set));
    let answer = validate(&update, &context(), unread, &schedulers(), None).await;
    assert!(matches!(answer, Admission::Allow { .. }), "{answer:?}");
}

fn topology(kind: &str, name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name});
    json!({"apiVersion": "grove.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

fn topology_review(
    operation: &str,
    user: &str,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Request {
    let object = new.or(old).unwrap();
    let mut request = review(operation, new, old);
    request.kind.kind = object["kind"].as_str().unwrap().to_owned();
    object["metadata"]["name"].as_str().unwrap().clone_into(&mut request.name);
    request.user_info.username = Some(user.to_owned());
    request
}

fn reviews() -> topologies::Reviews {
    topologies::Reviews {
        context: Arc::new(context()),
        backends: schedulers().backends,
        operators: vec!["operator".to_owned(), "outside".to_owned()],
    }
}

fn denied(request: &Request) -> Option<String> {
    match reviews().answer(request) {
        Admission::Allow { .. } => None,
        Admission::Deny(denial) => Some(denial.message),
    }
}

#[test]
fn only_the_operator_writes_the_managed_topology() {
    let spec = json!({"levels": [{"domain": "rack", "key": "a/rack"}]});
    let managed = topology("ClusterTopology", "grove-topology", &spec);
    let other = topology("ClusterTopology", "other", &spec);
    let binding = topology("ClusterTopologyBinding", "grove-topology", &spec);
    for (operation, verb) in [("CREATE", "created"), ("UPDATE", "modified"), ("DELETE", "deleted")]
    {
        let asked = |user: &str, object: &Value| {
            let new = (operation != "DELETE").then_some(object);
            let old = (operation != "CREATE").then_some(object);
            denied(&topology_review(operation, user, new, old))
        };
        let text = format!("ClusterTopology 'grove-topology' can only be {verb} by the operator");
        assert!(asked("alice", &managed).is_some_and(|denial| denial.starts_with(&text)));
        for allowed in [
            asked("operator", &managed),
            asked("outside", &managed),
            asked("alice", &other),
            asked("alice", &binding),
        ] {
            assert_eq!(allowed, None, "{operation}");
        }
    }
}

#[test]
fn topologies_are_checked_when_their_spec_changes() {
    let twice =
        json!({"levels": [{"domain": "rack", "key": "a/a"}, {"domain": "rack", "key": "a/b"}]});
    for kind in ["ClusterTopology", "ClusterTopologyBinding"] {
        let wrong = topology(kind, "dc", &twice);
        let expected = Some("spec.levels[1].domain: Duplicate value: \"rack\"".to_owned());
        assert_eq!(denied(&topology_review("CREATE", "alice", Some(&wrong), None)), expected);
        let mut right = wrong.clone();
        right["spec"]["levels"][1]["domain"] = json!("host");
        assert_eq!(denied(&topology_review("CREATE", "alice", Some(&right), None)), None);
        let update = topology_review("UPDATE", "alice", Some(&wrong), Some(&right));
        assert_eq!(denied(&update), expected);
        let mut labelled = wrong.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        let label = topology_review("UPDATE", "alice", Some(&labelled), Some(&wrong));
        assert_eq!(denied(&label), None);
    }
    let reference = json!([{"schedulerName": "default-scheduler", "topologyReference": "x"}]);
    let spec = json!({"levels": [{"domain": "rack", "key": "a/a"}], "schedulerTopologyBindings": reference});
    let binding = topology("ClusterTopologyBinding", "dc", &spec);
    let denial = denied(&topology_review("CREATE", "alice", Some(&binding), None));
    assert!(
        denial.is_some_and(|text| text.ends_with("does not implement topology-aware scheduling"))
    );
}
