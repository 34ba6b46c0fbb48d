use std::collections::BTreeSet;

use futures::future::BoxFuture;
use grove_api::config::{DEFAULT_SCHEDULER, Scheduler, SchedulerProfile};
use grove_backends::{Backend, BackendError, Capabilities, NewPods, Preparation, SchedulerObjects};
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
    }
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
        validate(&review("CREATE", Some(&set), None), &context(), &schedulers(), None).await;
    assert!(
        matches!(&allowed, Admission::Allow { warnings, .. } if warnings.is_empty()),
        "{allowed:?}"
    );

    let old = set.clone();
    set["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = json!(1);
    let update = review("UPDATE", Some(&set), Some(&old));
    let Admission::Deny(denial) = validate(&update, &context(), &schedulers(), None).await else {
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
        let Admission::Deny(denial) = validate(&review, &context(), &incapable, None).await else {
            panic!("refused")
        };
        assert!(denial.message.starts_with("spec: Invalid value"), "{}", denial.message);
        assert!(denial.message.contains(reason), "{}", denial.message);
    }
    let mut old = set.clone();
    old["spec"]["replicas"] = json!(2);
    let review = review("UPDATE", Some(&set), Some(&old));
    let allowed = validate(&review, &context(), &incapable, None).await;
    let Admission::Allow { warnings, .. } = allowed else { panic!("allowed with a warning") };
    assert!(warnings.contains(&"not looked at".to_owned()), "{warnings:?}");
}

#[tokio::test]
async fn undecodable_objects_are_answered_with_400() {
    let mut set = set();
    set["spec"]["template"]["terminationDelay"] = json!("abc");

    for response in [
        default(&review("CREATE", Some(&set), None)),
        validate(&review("CREATE", Some(&set), None), &context(), &schedulers(), None).await,
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
