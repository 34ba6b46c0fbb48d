//! Changes of the objects of a set by other clients: the operator repairs its own fields and keeps the others.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

use std::sync::Arc;

use grove_testbed::cluster::TestCluster;
use grove_testbed::kinds::{
    ACCOUNTS, AUTOSCALERS, BINDINGS, CLIQUES, GANGS, GROUPS, Kind, PODS, ROLES, SECRETS, SERVICES,
    SETS,
};
use grove_testbed::mirror::{Mirror, Namespace, name_of};
use grove_testbed::normalized::Normalized;
use grove_testbed::operator::{OPERATOR, Setup, is_not_for_probe};
use grove_testbed::sets;
use grove_testbed::table::{Row, run, select};
use serde_json::{Value, json};
use xtask::cluster::Kube;

const PODS_IN_SET: usize = 5;

/// A change by another client.
enum Act {
    Delete,
    /// A merge patch, or a JSON patch if it is a list.
    Patch(Value),
}

/// A change of an object by another client, and the part of it that stays.
struct Change {
    what: &'static str,
    kind: Kind,
    /// May go on with a subresource. For pods: the PodClique.
    name: &'static str,
    act: Act,
    stays: Option<Value>,
}

fn deleted(what: &'static str, kind: Kind, name: &'static str) -> Change {
    Change { what, kind, name, act: Act::Delete, stays: None }
}

fn repaired(what: &'static str, kind: Kind, name: &'static str, patch: Value) -> Change {
    Change { what, kind, name, act: Act::Patch(patch), stays: None }
}

/// The change itself is what stays.
fn left_alone(what: &'static str, kind: Kind, name: &'static str, patch: Value) -> Change {
    Change { what, kind, name, act: Act::Patch(patch.clone()), stays: Some(patch) }
}

fn without_label(key: &str) -> Value {
    json!({ "metadata": { "labels": { key: null } } })
}

const MANAGED: &str = "app.kubernetes.io/managed-by";
const PART_OF: &str = "app.kubernetes.io/part-of";

fn deletes() -> Vec<Change> {
    vec![
        deleted("a pod is deleted", PODS, "demo-0-router"),
        deleted("a standalone clique is deleted", CLIQUES, "demo-0-router"),
        deleted("a clique of the base gang is deleted", CLIQUES, "demo-0-decode-0-leader"),
        deleted("a clique of a scaled gang is deleted", CLIQUES, "demo-0-decode-1-worker"),
        deleted("a group is deleted", GROUPS, "demo-0-decode"),
        deleted("a base gang is deleted", GANGS, "demo-0"),
        deleted("a scaled gang is deleted", GANGS, "demo-0-decode-0"),
        deleted("a service is deleted", SERVICES, "demo-0"),
        deleted("an autoscaler is deleted", AUTOSCALERS, "demo-0-router"),
        deleted("a service account is deleted", ACCOUNTS, "demo"),
        deleted("a role is deleted", ROLES, "grove.io:pcs:demo"),
        deleted("a role binding is deleted", BINDINGS, "grove.io:pcs:demo"),
        deleted("a token secret is deleted", SECRETS, "demo-ic-sat"),
    ]
}

/// Of core kinds, what loses the label of its manager is released: the operator does not see it any more.
fn lost_labels() -> Vec<Change> {
    let gang = || without_label("grove.io/podgang");
    let of_group = || without_label("grove.io/podcliquescalinggroup");
    let replica = || without_label("grove.io/podcliqueset-replica-index");
    vec![
        repaired("a clique loses its gang", CLIQUES, "demo-0-router", gang()),
        repaired("a clique loses its set", CLIQUES, "demo-0-router", without_label(PART_OF)),
        repaired("a clique loses its manager", CLIQUES, "demo-0-router", without_label(MANAGED)),
        repaired("a clique loses its replica", CLIQUES, "demo-0-router", replica()),
        repaired("a member loses its gang", CLIQUES, "demo-0-decode-0-leader", gang()),
        repaired("a member loses its group", CLIQUES, "demo-0-decode-1-leader", of_group()),
        repaired("a group loses its set", GROUPS, "demo-0-decode", without_label(PART_OF)),
        repaired("a group loses its manager", GROUPS, "demo-0-decode", without_label(MANAGED)),
        repaired("a gang loses its set", GANGS, "demo-0", without_label(PART_OF)),
        repaired("a gang loses its manager", GANGS, "demo-0", without_label(MANAGED)),
        repaired("a service loses its set", SERVICES, "demo-0", without_label(PART_OF)),
        repaired("a service loses its replica", SERVICES, "demo-0", replica()),
        repaired(
            "an autoscaler loses its set",
            AUTOSCALERS,
            "demo-0-router",
            without_label(PART_OF),
        ),
        repaired("an account loses its set", ACCOUNTS, "demo", without_label(PART_OF)),
        repaired("a pod loses its gang", PODS, "demo-0-router", gang()),
        repaired("a pod loses its set", PODS, "demo-0-router", without_label(PART_OF)),
        repaired(
            "a pod loses its clique",
            PODS,
            "demo-0-router",
            without_label("grove.io/podclique"),
        ),
    ]
}

fn edits() -> Vec<Change> {
    let spec = |spec: Value| json!({ "spec": spec });
    let no_finalizers = || json!({ "metadata": { "finalizers": null } });
    let foreign_label = || json!({ "metadata": { "labels": { "theirs": "yes" } } });
    let references =
        json!([{ "op": "replace", "path": "/spec/podgroups/0/podReferences", "value": [] }]);
    let minimum = json!([{ "op": "replace", "path": "/spec/podgroups/0/minReplicas", "value": 7 }]);
    vec![
        repaired("a clique is edited", CLIQUES, "demo-0-router", spec(json!({ "roleName": "x" }))),
        repaired("a clique is labelled", CLIQUES, "demo-0-router", foreign_label()),
        repaired("a clique loses its finalizer", CLIQUES, "demo-0-router", no_finalizers()),
        repaired(
            "a member loses its finalizer",
            CLIQUES,
            "demo-0-decode-1-leader",
            no_finalizers(),
        ),
        repaired(
            "a group is edited",
            GROUPS,
            "demo-0-decode",
            spec(json!({ "minAvailable": 2, "cliqueNames": ["leader"] })),
        ),
        repaired("a group is labelled", GROUPS, "demo-0-decode", foreign_label()),
        repaired("a group loses its finalizer", GROUPS, "demo-0-decode", no_finalizers()),
        repaired("a set loses its finalizer", SETS, "demo", no_finalizers()),
        repaired("a gang loses its references", GANGS, "demo-0", references),
        repaired("a gang gets another minimum", GANGS, "demo-0", minimum),
        repaired(
            "a gang gets another priority",
            GANGS,
            "demo-0",
            spec(json!({ "priorityClassName": "x" })),
        ),
        repaired(
            "a service selects others",
            SERVICES,
            "demo-0",
            spec(json!({ "selector": { PART_OF: "others" } })),
        ),
        repaired(
            "a service hides pods that are not ready",
            SERVICES,
            "demo-0",
            spec(json!({ "publishNotReadyAddresses": false })),
        ),
        repaired(
            "an autoscaler gets another maximum",
            AUTOSCALERS,
            "demo-0-router",
            spec(json!({ "maxReplicas": 9 })),
        ),
        repaired(
            "an autoscaler gets another target",
            AUTOSCALERS,
            "demo-0-router",
            spec(json!({ "scaleTargetRef": { "name": "demo-0-decode" } })),
        ),
    ]
}

fn false_statuses() -> Vec<Change> {
    let status = |status: Value| json!({ "status": status });
    vec![
        repaired(
            "a set is said to be gone",
            SETS,
            "demo/status",
            status(json!({ "availableReplicas": 0 })),
        ),
        repaired(
            "a set is said to be elsewhere",
            SETS,
            "demo/status",
            status(json!({ "observedGeneration": 99, "hpaPodSelector": "x=y" })),
        ),
        repaired(
            "a group is said to be gone",
            GROUPS,
            "demo-0-decode/status",
            status(json!({ "availableReplicas": 0, "scheduledReplicas": 0, "selector": null })),
        ),
        repaired(
            "a group is said to be breached",
            GROUPS,
            "demo-0-decode/status",
            status(json!({ "conditions": null })),
        ),
        repaired(
            "a clique is said to be gone",
            CLIQUES,
            "demo-0-router/status",
            status(json!({ "readyReplicas": 0, "scheduledReplicas": 0 })),
        ),
        repaired(
            "a clique is said to be of another template",
            CLIQUES,
            "demo-0-decode-0-leader/status",
            status(json!({ "currentPodTemplateHash": "x", "conditions": null })),
        ),
        repaired(
            "a gang is said to be incomplete",
            GANGS,
            "demo-0/status",
            status(json!({ "conditions": null })),
        ),
    ]
}

fn additions() -> Vec<Change> {
    let annotation = || json!({ "metadata": { "annotations": { "theirs": "yes" } } });
    let label = || json!({ "metadata": { "labels": { "theirs": "yes" } } });
    let finalizer = |own: Option<&str>| {
        let all: Vec<_> = own.into_iter().chain(["somebody.else/waits"]).collect();
        json!({ "metadata": { "finalizers": all } })
    };
    let scaling = |seconds: i32| {
        let policy = json!({ "type": "Pods", "value": 1, "periodSeconds": 15 });
        let policies = [policy];
        json!({
            "stabilizationWindowSeconds": seconds, "selectPolicy": "Max", "policies": policies,
        })
    };
    let behavior =
        json!({ "spec": { "behavior": { "scaleDown": scaling(7), "scaleUp": scaling(5) } } });
    let ports = json!({ "spec": { "ports": [
        { "name": "theirs", "port": 80, "protocol": "TCP", "targetPort": 80 },
    ]}});
    vec![
        left_alone(
            "a set is annotated by the operator's prefix",
            SETS,
            "demo",
            json!({ "metadata": { "annotations": { "grove.io/reconcile-trigger": "now" } } }),
        ),
        left_alone(
            "a set gets a finalizer",
            SETS,
            "demo",
            finalizer(Some("grove.io/podcliqueset.grove.io")),
        ),
        left_alone(
            "a clique gets a finalizer",
            CLIQUES,
            "demo-0-router",
            finalizer(Some("grove.io/podclique.grove.io")),
        ),
        left_alone(
            "a group gets a finalizer",
            GROUPS,
            "demo-0-decode",
            finalizer(Some("grove.io/podcliquescalinggroup.grove.io")),
        ),
        left_alone("a gang gets a finalizer", GANGS, "demo-0", finalizer(None)),
        left_alone("a gang is annotated", GANGS, "demo-0", annotation()),
        left_alone("a gang is labelled", GANGS, "demo-0", label()),
        left_alone("a pod is annotated", PODS, "demo-0-router", annotation()),
        left_alone("a pod is labelled", PODS, "demo-0-router", label()),
        left_alone("a service is annotated", SERVICES, "demo-0", annotation()),
        left_alone("a service gets ports", SERVICES, "demo-0", ports),
        left_alone("an autoscaler gets a behaviour", AUTOSCALERS, "demo-0-router", behavior),
    ]
}

/// Everything there is, with autoscalers.
fn set() -> Value {
    let mut set = sets::small("demo");
    let template = &mut set["spec"]["template"];
    template["cliques"][0]["spec"]["autoScalingConfig"] = json!({ "maxReplicas": 5 });
    template["podCliqueScalingGroups"][0]["scaleConfig"] = json!({ "maxReplicas": 5 });
    set
}

async fn deploy(mirror: &Mirror, namespace: &str) -> Namespace {
    let namespace = mirror.new_namespace(namespace).await;
    namespace.create(SETS, &set()).await;
    namespace.until_complete(PODS_IN_SET).await;
    namespace
}

impl Change {
    /// The object itself, without a subresource.
    fn object(&self, namespace: &Namespace) -> String {
        let name = self.name.split('/').next().unwrap();
        if self.kind != PODS {
            return name.to_owned();
        }
        let pods = namespace.look(|state| state.pods_of(name));
        name_of(pods.values().next().unwrap())
    }

    fn expected(&self, undisturbed: &Normalized) -> Normalized {
        let mut expected = undisturbed.clone();
        if let Some(stays) = &self.stays {
            let host = if self.kind == PODS { "-0" } else { "" };
            let title = format!("{} {}{host}", self.kind.name, self.name);
            json_patch::merge(expected.get_mut(&title).unwrap(), stays);
        }
        expected
    }

    async fn run(self, mirror: Arc<Mirror>, name: String, undisturbed: Arc<Normalized>) {
        let namespace = deploy(&mirror, &name).await;
        namespace.until_equal("undisturbed", &undisturbed).await;
        let object = self.object(&namespace);
        let subresource = self.name.split_once('/').map(|(_, rest)| rest);
        let place = subresource.map_or_else(|| object.clone(), |rest| format!("{object}/{rest}"));
        match &self.act {
            Act::Delete => namespace.delete(self.kind, &object).await,
            Act::Patch(patch) => drop(namespace.patch(self.kind, &place, patch.clone()).await),
        }
        namespace.until_equal(self.what, &self.expected(&undisturbed)).await;
    }
}

mod table {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn the_operator_repairs_its_own_fields_and_keeps_those_of_others() {
        let rows = [deletes(), lost_labels(), edits(), false_statuses(), additions()];
        let rows = rows.into_iter().flatten();
        let Some(rows) = select(rows, |row| row.what.to_owned()) else { return };
        let cluster = TestCluster::full(&OPERATOR, Kube::default());
        let operator = cluster.operator(Setup::default()).await;
        let mirror = Arc::new(cluster.mirror().await);
        let namespace = deploy(&mirror, "undisturbed").await;
        cluster.until_caught_up(&mirror).await;
        namespace.until_gangs_run().await;
        let undisturbed = Arc::new(namespace.normalized());

        let rows = rows.rows.into_iter().enumerate().map(|(number, row)| {
            let (mirror, undisturbed) = (mirror.clone(), undisturbed.clone());
            let name = row.what.to_owned();
            Row { name, run: Box::pin(row.run(mirror, format!("row-{number}"), undisturbed)) }
        });
        run(rows.collect()).await.assert_none();

        cluster.until_no_writes(&mirror, &operator.requests, is_not_for_probe).await;
        operator.stop().await;
    }
}
