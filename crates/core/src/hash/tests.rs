use grove_api::{PodCliqueSet, pod_clique_set::PodCliqueTemplate};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{generation_hash, pod_template_hash, pod_template_hashes};

fn template(pod_spec: &Value) -> PodCliqueTemplate {
    serde_json::from_value(json!({ "name": "c", "spec": { "podSpec": pod_spec } })).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "reads better with literals")]
fn hash(pod_spec: Value) -> String {
    pod_template_hash(&template(&pod_spec), None)
}

fn plain() -> Value {
    json!({ "containers": [{ "name": "c", "image": "busybox" }] })
}

fn rich() -> Value {
    json!({
        "nodeSelector": { "zone": "a", "empty": "" },
        "tolerations": [{ "key": "gpu", "operator": "Exists" }],
        "containers": [{
            "name": "c",
            "image": "busybox:1.36",
            "args": ["--port", "80"],
            "env": [{ "name": "A", "value": "é\n\"x\"" }, { "name": "B", "value": "2" }],
            "ports": [{ "containerPort": 80 }, { "containerPort": 81, "protocol": "UDP" }],
            "resources": { "limits": { "nvidia.com/gpu": 8, "cpu": "500m" } },
            "securityContext": { "allowPrivilegeEscalation": false, "runAsUser": -1 },
        }],
        "volumes": [{ "name": "scratch", "emptyDir": {} }],
    })
}

/// These values are stored in clusters. If this test fails, an upgrade would restart every pod of every
/// workload: change the code back, not the value.
#[test]
fn hashes_of_known_templates_never_change() {
    let mut labelled = template(&rich());
    labelled.labels = [("team".to_owned(), "a".to_owned())].into();
    labelled.annotations = [("note".to_owned(), String::new())].into();

    assert_eq!(hash(json!({})), "d5pvz5slk8ddkz");
    assert_eq!(hash(plain()), "gpzqsdsdkdh2zn");
    assert_eq!(hash(rich()), "cc6jj5fjgfwtq5");
    assert_eq!(pod_template_hash(&labelled, Some("high")), "f8gcn48nlrvd9r");
    assert_eq!(generation_hash(&PodCliqueSet::default()), "fv7vp2vvj8fv6s");
    assert_eq!(generation_hash(&set(&[plain(), rich()])), "gfgkt6hwjkvzcv");
}

fn set(pod_specs: &[Value]) -> PodCliqueSet {
    let mut set = PodCliqueSet::default();
    set.spec.template.cliques = pod_specs.iter().map(template).collect();
    set
}

#[test]
fn equivalent_templates_have_the_same_hash() {
    let container = |extra: Value| {
        let mut container = json!({ "name": "c", "image": "busybox" });
        container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "containers": [container] })
    };
    let pod = |extra: Value| {
        let mut pod = plain();
        pod.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        pod
    };
    for same in [
        container(json!({ "resources": {} })),
        container(json!({ "resources": { "limits": {}, "requests": null } })),
        container(json!({ "env": [], "command": null, "workingDir": "" })),
        container(json!({ "terminationMessagePath": "/dev/termination-log", "tty": false })),
        container(json!({ "securityContext": {} })),
        pod(json!({ "restartPolicy": "Always", "terminationGracePeriodSeconds": 30 })),
        pod(json!({ "initContainers": [], "nodeSelector": {}, "securityContext": {} })),
        pod(json!({ "affinity": { "podAffinity": { } }, "dnsPolicy": "ClusterFirst" })),
        pod(json!({ "priorityClassName": "replaced" })),
    ] {
        assert_eq!(hash(same.clone()), hash(plain()), "{same}");
    }
    let port = |port: Value| container(json!({ "ports": [port] }));
    assert_eq!(
        hash(port(json!({ "containerPort": 80, "protocol": "TCP" }))),
        hash(port(json!({ "containerPort": 80 })))
    );
    assert_eq!(hash(json!({ "a": [[{ "b": null }]] })), hash(json!({ "a": [[{}]] })));
    let limit = |gpus: Value| container(json!({ "resources": { "limits": { "gpu": gpus } } }));
    assert_eq!(hash(limit(json!(1))), hash(limit(json!("1"))));
}

#[test]
fn differences_that_reach_a_pod_change_the_hash() {
    let affinity = |term: Value| json!({ "affinity": { "podAffinity": { "terms": [term] } } });
    let volume = |source: Value| json!({ "volumes": [source] });
    let env = |names: [&str; 2]| json!({ "containers": [{ "env": names.map(|name| json!({ "name": name })) }] });
    for (one, other) in [
        (plain(), json!({ "containers": [{ "name": "c", "image": "busybox:2" }] })),
        (plain(), json!({ "containers": [{ "name": "c", "image": "busybox" }, {}] })),
        (json!({ "restartPolicy": "Never" }), json!({})),
        (json!({ "automountServiceAccountToken": false }), json!({})),
        (json!({ "nodeSelector": { "a": "" } }), json!({})),
        (json!({ "nodeSelector": { "a": "" } }), json!({ "nodeSelector": { "b": "" } })),
        (json!({ "nodeSelector": { "protocol": "TCP" } }), json!({})),
        (affinity(json!({ "labelSelector": {} })), affinity(json!({}))),
        (affinity(json!({ "namespaceSelector": {} })), affinity(json!({}))),
        (volume(json!({ "emptyDir": {} })), volume(json!({ "downwardAPI": {} }))),
        (env(["A", "B"]), env(["B", "A"])),
        (json!({ "a": ["b", "c"] }), json!({ "a": ["bc"] })),
        (json!({ "a": 1 }), json!({ "a": "1" })),
        (json!({ "a": 1 }), json!({ "a": true })),
        (json!({ "a": 1.5 }), json!({ "a": 1 })),
    ] {
        assert_ne!(hash(one.clone()), hash(other.clone()), "{one} and {other}");
    }
}

#[test]
fn the_hash_covers_labels_annotations_pod_spec_and_priority_only() {
    let before = template(&plain());
    let before_hash = pod_template_hash(&before, None);
    let entry = || [("a".to_owned(), String::new())].into();

    let labelled = PodCliqueTemplate { labels: entry(), ..before.clone() };
    let annotated = PodCliqueTemplate { annotations: entry(), ..before.clone() };
    let mut rescaled = PodCliqueTemplate { name: "other".to_owned(), ..before.clone() };
    rescaled.spec.replicas = 7;
    rescaled.spec.min_available = Some(2);
    rescaled.spec.starts_after = vec!["x".to_owned()];

    assert_ne!(pod_template_hash(&labelled, None), before_hash);
    assert_ne!(pod_template_hash(&annotated, None), before_hash);
    assert_ne!(pod_template_hash(&labelled, None), pod_template_hash(&annotated, None));
    assert_ne!(pod_template_hash(&before, Some("high")), before_hash);
    assert_eq!(pod_template_hash(&before, Some("")), before_hash);
    assert_eq!(pod_template_hash(&rescaled, None), before_hash);
}

#[test]
fn the_generation_hash_depends_on_the_order_of_the_cliques() {
    let [one, other] = [set(&[plain(), rich()]), set(&[rich(), plain()])];

    assert_ne!(generation_hash(&one), generation_hash(&other));
    assert_eq!(pod_template_hashes(&one.spec.template)["c"], hash(rich()));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}|resources|env|ports", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Adds what a serializer might add: nulls and empty values, to every object.
fn padded(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut map: Map<_, _> = map.iter().map(|(k, v)| (k.clone(), padded(v))).collect();
            for (key, empty) in [("_null", json!(null)), ("_map", json!({})), ("_text", json!(""))]
            {
                map.insert(key.to_owned(), empty);
            }
            Value::Object(map)
        }
        Value::Array(items) => items.iter().map(padded).collect(),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn padding_never_changes_a_hash_and_the_text_is_a_label_value(value in json_value()) {
        let spec = json!({ "x": value });

        let text = hash(spec.clone());

        prop_assert_eq!(&text, &hash(padded(&spec)));
        prop_assert!(text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
