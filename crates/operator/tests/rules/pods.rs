//! Pods: what is in them, their indices, and what becomes of those that end.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::{Fixture, hold_terminating, pod, release, rules, scale};
use grove_testbed::kinds::{CLIQUES, GANGS, PODS, SETS};
use grove_testbed::mirror::{Namespace, State, condition, name_of, send, text};
use grove_testbed::sets::{clique, group, set, small};

rules! {
    operator_variables_come_first_and_replace_others,
    fields_of_the_pod_template_are_kept,
    template_gates_are_dropped_and_others_are_kept,
    indices_are_the_lowest_free_ones,
    a_deleted_pod_is_replaced_with_the_same_index,
    ended_pods_are_kept_but_release_their_index,
    pods_over_quota_are_reported_and_created_later,
    invalid_pods_are_reported_and_created_when_the_template_is_fixed,
}

async fn operator_variables_come_first_and_replace_others(fixture: Fixture, namespace: Namespace) {
    let mut router = clique("router", 1);
    let user = json!([
        { "name": "A", "value": "$(GROVE_PCLQ_NAME)" }, { "name": "GROVE_PCS_NAME", "value": "x" },
    ]);
    router["spec"]["podSpec"]["containers"][0]["env"] = user;
    let init = json!([{ "name": "i", "image": "busybox" }]);
    router["spec"]["podSpec"]["initContainers"] = init;
    let cliques = [router, clique("leader", 1), clique("worker", 3)];
    let groups = [group("decode", &["leader", "worker"], 1, 1)];
    fixture.deploy(&namespace, &set("demo", &cliques, &groups), 5).await;

    let env = |container: &Value| {
        let all = container["env"].as_array().unwrap().iter();
        let pair = |one: &Value| {
            let field = &one["valueFrom"]["fieldRef"]["fieldPath"];
            let value = one["value"].as_str().or_else(|| field.as_str());
            format!("{}={}", text(&one["name"]), value.unwrap())
        };
        all.map(pair).collect::<Vec<_>>()
    };
    let of_pod = |clique: &str| {
        vec![
            "GROVE_PCS_NAME=demo".to_owned(),
            "GROVE_PCS_INDEX=0".to_owned(),
            format!("GROVE_PCLQ_NAME={clique}"),
            format!("GROVE_HEADLESS_SERVICE=demo-0.{}.svc.cluster.local", namespace.name),
            "GROVE_PCLQ_POD_INDEX=metadata.labels['grove.io/podclique-pod-index']".to_owned(),
        ]
    };
    let alone = pod(&namespace, "demo-0-router", 0);
    let mut expected = of_pod("demo-0-router");
    assert_eq!(env(&alone["spec"]["initContainers"][0]), expected);
    expected.push("A=$(GROVE_PCLQ_NAME)".to_owned());
    assert_eq!(env(&alone["spec"]["containers"][0]), expected);
    let member = pod(&namespace, "demo-0-decode-0-worker", 2);
    let mut expected = of_pod("demo-0-decode-0-worker");
    expected.extend(
        [
            "GROVE_PCSG_NAME=metadata.labels['grove.io/podcliquescalinggroup']",
            "GROVE_PCSG_TEMPLATE_NUM_PODS=4",
            "GROVE_PCSG_INDEX=metadata.labels['grove.io/podcliquescalinggroup-replica-index']",
        ]
        .map(str::to_owned),
    );
    assert_eq!(env(&member["spec"]["containers"][0]), expected);
    assert_eq!(member["metadata"]["labels"]["grove.io/podclique-pod-index"], "2");
}

async fn fields_of_the_pod_template_are_kept(fixture: Fixture, namespace: Namespace) {
    let kept = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 3,
        "serviceAccountName": "default",
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "tolerations": [{ "key": "a", "operator": "Exists" }],
        "affinity": { "nodeAffinity": {} },
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
    });
    let mut clique = clique("a", 1);
    json_patch::merge(&mut clique["spec"]["podSpec"], &kept);
    clique["spec"]["podSpec"]["hostname"] = json!("mine");
    clique["spec"]["podSpec"]["subdomain"] = json!("mine");
    fixture.deploy(&namespace, &set("x", &[clique], &[]), 1).await;

    let pod = pod(&namespace, "x-0-a", 0);
    let mut merged = pod["spec"].clone();
    json_patch::merge(&mut merged, &kept);
    assert_eq!(merged["nodeSelector"], pod["spec"]["nodeSelector"]);
    for key in kept.as_object().unwrap().keys().filter(|key| *key != "tolerations") {
        assert_eq!(pod["spec"][key], kept[key], "{key}");
    }
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    assert!(tolerations.contains(&kept["tolerations"][0]), "{tolerations:?}");
    assert_eq!(pod["spec"]["hostname"], "x-0-a-0");
    assert_eq!(pod["spec"]["subdomain"], "x-0");
    let metadata = &pod["metadata"];
    assert!(text(&metadata["name"]).starts_with("x-0-a-"));
    assert_eq!(metadata["generateName"], "x-0-a-");
    let owner = &metadata["ownerReferences"][0];
    assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&json!(true), &json!(true)));
}

/// Puts a gate on every new pod of a namespace.
async fn add_gates(namespace: &Namespace, client: &kube::Client) {
    let api = "/apis/admissionregistration.k8s.io/v1";
    let name = format!("gates-{}", namespace.name);
    let gate = "[JSONPatch{op: \"add\", path: \"/spec/schedulingGates/-\", \
                value: Object.spec.schedulingGates{name: \"somebody.else/waits\"}}]";
    let policy = json!({
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
            }]},
            "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": gate } }],
        },
    });
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace.name } });
    let binding = json!({
        "metadata": { "name": name },
        "spec": { "policyName": name, "matchResources": { "namespaceSelector": selector } },
    });
    let path = format!("{api}/mutatingadmissionpolicies");
    send(client, Method::POST, &path, &policy).await.unwrap();
    let path = format!("{api}/mutatingadmissionpolicybindings");
    send(client, Method::POST, &path, &binding).await.unwrap();
    // A policy works some time after it is stored: created pods show when.
    let probe = json!({
        "metadata": { "generateName": "probe-" },
        "spec": {
            "containers": [{ "name": "c", "image": "busybox" }],
            "schedulingGates": [{ "name": "probe/waits" }],
        },
    });
    let path = format!("{}?dryRun=All", PODS.in_namespace(&namespace.name));
    let works = async {
        loop {
            let pod = send(client, Method::POST, &path, &probe).await;
            if pod.is_ok_and(|pod| pod["spec"]["schedulingGates"].as_array().unwrap().len() == 2) {
                return;
            }
        }
    };
    let clock = grove_runtime::clock::Clock::system();
    clock.timeout(grove_testbed::DEADLINE, works).await.expect("the policy works");
}

async fn template_gates_are_dropped_and_others_are_kept(fixture: Fixture, namespace: Namespace) {
    add_gates(&namespace, fixture.mirror.client()).await;
    let mut clique = clique("a", 2);
    clique["spec"]["podSpec"]["schedulingGates"] = json!([{ "name": "template/waits" }]);
    namespace.create(SETS, &set("x", &[clique], &[])).await;

    let gates = |pod: &Value| pod["spec"]["schedulingGates"].clone();
    let theirs = json!([{ "name": "somebody.else/waits" }]);
    namespace
        .until_is("only the gate of others is left", |state| {
            let pods = state.pods_of("x-0-a");
            pods.len() == 2 && pods.values().all(|pod| gates(pod) == theirs)
        })
        .await;
    let first = namespace.look(|state| {
        let pod = state.history.iter().find(|(kind, _)| *kind == PODS);
        gates(&pod.unwrap().1)
    });
    let ours = json!({ "name": "grove.io/podgang-pending-creation" });
    assert_eq!(first, json!([ours, theirs[0]]));
    fixture.cluster.until_caught_up(&fixture.mirror).await;
    for name in namespace.names(PODS) {
        assert_eq!(gates(&namespace.object(PODS, &name)), theirs);
        let free = json!([{ "op": "remove", "path": "/spec/schedulingGates" }]);
        namespace.patch(PODS, &name, free).await;
    }
    namespace.until_complete(2).await;
}

fn hosts(state: &State, clique: &str) -> Vec<String> {
    state.pods_of(clique).into_keys().collect()
}

async fn indices_are_the_lowest_free_ones(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &set("x", &[clique("a", 3)], &[]), 3).await;

    let held = hold_terminating(&namespace, &pod(&namespace, "x-0-a", 1)).await;
    let all = |count: usize| (0..count).map(|index| format!("x-0-a-{index}")).collect::<Vec<_>>();
    // No pod waits for the terminating one.
    namespace.until_is("the index is taken again", |state| hosts(state, "x-0-a") == all(3)).await;
    scale(&namespace, CLIQUES, "x-0-a", 5).await;
    namespace.until_is("more indices", |state| hosts(state, "x-0-a") == all(5)).await;
    let status = |state: &State| state.get(CLIQUES, "x-0-a").unwrap()["status"].clone();
    namespace.until_is("it is not counted", |state| status(state)["replicas"] == 5).await;
    release(&namespace, &held).await;
    namespace.until_complete(5).await;
}

async fn a_deleted_pod_is_replaced_with_the_same_index(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    let names = ["x-0-router", "x-0-decode-0-leader", "x-0-decode-1-worker"];

    for clique in names {
        let old = pod(&namespace, clique, 0);
        namespace.delete(PODS, &name_of(&old)).await;
        namespace
            .until_is("there is another", |state| {
                let pods = state.pods_of(clique);
                let new = pods.get(&format!("{clique}-0"));
                new.is_some_and(|new| new["metadata"]["uid"] != old["metadata"]["uid"])
            })
            .await;
        let new = name_of(&pod(&namespace, clique, 0));
        assert_ne!(new, name_of(&old));
        namespace
            .until_is("the gang lists the new one instead", |state| {
                let gangs = state.of(GANGS).into_iter();
                let listed: String = gangs.map(|gang| gang["spec"].to_string()).collect();
                listed.contains(&new) && !listed.contains(&name_of(&old))
            })
            .await;
        namespace.until_complete(5).await;
    }
}

async fn ended_pods_are_kept_but_release_their_index(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &set("x", &[clique("a", 3)], &[]), 3).await;
    let failed = name_of(&pod(&namespace, "x-0-a", 1));
    let ready = json!([{ "type": "Ready", "status": "False" }, { "type": "PodScheduled", "status": "True" }]);
    let status = json!({ "status": { "phase": "Failed", "conditions": ready } });

    let fail = async {
        namespace.patch(PODS, &format!("{failed}/status"), status).await;
    };
    fixture.until_no_writes(&namespace).await;
    let writes = fixture.writes_after(&namespace, fail).await;
    assert!(writes.iter().all(|write| write.ends_with("/status")), "{writes:?}");
    scale(&namespace, CLIQUES, "x-0-a", 4).await;
    namespace
        .until_is("one more, with the index of the failed one", |state| {
            let pods = state.of(PODS);
            let hosts: BTreeSet<&str> =
                pods.iter().map(|pod| text(&pod["spec"]["hostname"])).collect();
            pods.len() == 4 && hosts == BTreeSet::from(["x-0-a-0", "x-0-a-1", "x-0-a-2"])
        })
        .await;
    assert!(namespace.names(PODS).contains(&failed));
}

/// The only entry of `lastErrors` of a PodClique.
fn last_error(state: &State, clique: &str) -> Option<(String, String)> {
    let errors = state.get(CLIQUES, clique)?["status"]["lastErrors"].as_array()?.clone();
    let [error] = &errors[..] else { return None };
    Some((text(&error["code"]).to_owned(), text(&error["description"]).to_owned()))
}

async fn pods_over_quota_are_reported_and_created_later(fixture: Fixture, namespace: Namespace) {
    let quotas = format!("/api/v1/namespaces/{}/resourcequotas", namespace.name);
    let quota = json!({ "metadata": { "name": "two" }, "spec": { "hard": { "pods": "2" } } });
    let client = fixture.mirror.client();
    send(client, Method::POST, &quotas, &quota).await.unwrap();
    namespace.create(SETS, &set("x", &[clique("a", 3)], &[])).await;

    let (code, text) = namespace.until("it is reported", |state| last_error(state, "x-0-a")).await;
    assert_eq!(code, "ERR_CREATE_POD");
    assert!(text.contains("exceeded quota"), "{text}");
    assert!(namespace.names(PODS).len() <= 2);
    assert!(!grove_testbed::mirror::is_initialized(&namespace.object(GANGS, "x-0")));
    let more = json!({ "spec": { "hard": { "pods": "3" } } });
    send(client, Method::PATCH, &format!("{quotas}/two"), &more).await.unwrap();
    namespace.until_complete(3).await;
    let status = &namespace.object(CLIQUES, "x-0-a")["status"];
    assert_eq!(status["lastErrors"], json!(null), "what is over is not reported");
    assert_eq!(
        condition(&namespace.object(CLIQUES, "x-0-a"), "MinAvailableBreached")["status"],
        "False"
    );
}

async fn invalid_pods_are_reported_and_created_when_the_template_is_fixed(
    _: Fixture,
    namespace: Namespace,
) {
    let mut wrong = set("x", &[clique("a", 1)], &[]);
    // Admission warns about it only: the class may come.
    wrong["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["priorityClassName"] = json!("none");
    namespace.create(SETS, &wrong).await;

    let (code, text) = namespace.until("it is reported", |state| last_error(state, "x-0-a")).await;
    assert_eq!(code, "ERR_CREATE_POD");
    assert!(text.contains("PriorityClass"), "{text}");
    let right = json!([{
        "op": "remove", "path": "/spec/template/cliques/0/spec/podSpec/priorityClassName",
    }]);
    namespace.patch(SETS, "x", right).await;
    namespace.until_is("the pod is made", |state| state.pods_of("x-0-a").len() == 1).await;
    namespace.until_field(CLIQUES, "x-0-a", "/status/lastErrors", json!(null)).await;
}
