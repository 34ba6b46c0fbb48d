//! Which cliques wait for which, and the container that waits.

use serde_json::{Value, json};

use super::{Fixture, pod, rules};
use grove_testbed::kinds::{CLIQUES, SECRETS};
use grove_testbed::mirror::{Namespace, name_of, text};
use grove_testbed::sets::{Manifest as _, clique, group, set};

rules! {
    in_order_a_clique_waits_for_the_previous_one,
    explicit_order_waits_for_the_named_cliques,
    any_order_waits_for_no_clique,
    the_init_container_may_only_read_pods,
}

/// Whom each PodClique waits for.
fn parents(namespace: &Namespace) -> Value {
    namespace.look(|state| {
        let cliques = state.of(CLIQUES).into_iter();
        let pairs = cliques.map(|one| (name_of(one), one["spec"]["startsAfter"].clone()));
        pairs.filter(|(_, parents)| !parents.is_null()).collect()
    })
}

/// The arguments of the waiting container of a pod, or null.
fn arguments(pod: &Value) -> &Value {
    let last = pod["spec"]["initContainers"].as_array().and_then(|all| all.last());
    last.filter(|container| container["name"] == "grove-initc")
        .map_or(&Value::Null, |container| &container["args"])
}

async fn in_order_a_clique_waits_for_the_previous_one(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("a", 1), clique("b", 1), clique("c", 2).min_available(1)];
    let groups = [group("g", &["b", "c"], 3, 2)];
    fixture.deploy(&namespace, &set("x", &cliques, &groups).start_order("InOrder"), 10).await;

    let base = json!(["x-0-g-0-b", "x-0-g-1-b"]);
    let expected = json!({
        "x-0-g-0-b": ["x-0-a"], "x-0-g-1-b": ["x-0-a"], "x-0-g-0-c": base, "x-0-g-1-c": base,
        "x-0-g-2-c": ["x-0-g-2-b"],
    });
    assert_eq!(parents(&namespace), expected);
    assert_eq!(*arguments(&pod(&namespace, "x-0-a", 0)), json!(null));
    assert_eq!(*arguments(&pod(&namespace, "x-0-g-2-b", 0)), json!(null));
    let waits = pod(&namespace, "x-0-g-1-c", 1);
    assert_eq!(*arguments(&waits), json!(["--podcliques=x-0-g-0-b:1", "--podcliques=x-0-g-1-b:1"]));
    let container = &waits["spec"]["initContainers"][0];
    assert_eq!(container["image"], "grove-initc:test");
    assert_eq!(container["env"], json!(null), "it gets no variables");
    let mounts: Vec<_> = container["volumeMounts"].as_array().unwrap().iter().collect();
    assert!(mounts.iter().all(|mount| mount["readOnly"] == true), "{mounts:?}");
    let paths: Vec<&str> = mounts.iter().map(|mount| text(&mount["mountPath"])).collect();
    assert!(paths.contains(&"/var/grove/pod-info"), "{paths:?}");
    assert!(paths.contains(&"/var/run/secrets/kubernetes.io/serviceaccount"), "{paths:?}");
}

async fn explicit_order_waits_for_the_named_cliques(fixture: Fixture, namespace: Namespace) {
    let last = clique("c", 1).starts_after(&["b", "a"]);
    let cliques = [clique("a", 2).min_available(1), clique("b", 1), last];
    fixture.deploy(&namespace, &set("x", &cliques, &[]).start_order("Explicit"), 4).await;

    assert_eq!(parents(&namespace), json!({ "x-0-c": ["x-0-b", "x-0-a"] }));
    let waits = pod(&namespace, "x-0-c", 0);
    assert_eq!(*arguments(&waits), json!(["--podcliques=x-0-b:1", "--podcliques=x-0-a:1"]));
}

async fn any_order_waits_for_no_clique(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("a", 1), clique("b", 1).starts_after(&["a"])];
    fixture.deploy(&namespace, &set("x", &cliques, &[]).start_order("AnyOrder"), 2).await;

    assert_eq!(parents(&namespace), json!({}));
    assert_eq!(*arguments(&pod(&namespace, "x-0-b", 0)), json!(null));
}

async fn the_init_container_may_only_read_pods(fixture: Fixture, namespace: Namespace) {
    let cliques = [clique("a", 1), clique("b", 1)];
    fixture.deploy(&namespace, &set("x", &cliques, &[]).start_order("InOrder"), 2).await;

    let token = |state: &grove_testbed::mirror::State| {
        let secret = state.get(SECRETS, "x-ic-sat")?;
        secret["data"]["token"].as_str().map(str::to_owned)
    };
    namespace.until("the token is there", token).await;
    let may = |verb: &str, resource: &str| {
        let account = format!("--as=system:serviceaccount:{}:x", namespace.name);
        let args = ["auth", "can-i", verb, resource, "-n", &namespace.name, &account];
        fixture.cluster.control_plane.kubectl(&args).is_ok()
    };
    assert!(may("watch", "pods"));
    assert!(!may("delete", "pods"));
    assert!(!may("get", "secrets"));
}
