//! One canonical form for all equivalent pod specs.
//!
//! It removes `null`, empty lists, objects and texts, and the defaults of the table below. It keeps the order
//! of lists, which has a meaning in Kubernetes, list entries even when they are empty, the contents of
//! free-form maps, and the few keys whose empty value has a meaning.
//!
//! The table is frozen: a new row would change the hash of stored templates. Do not add defaults of later
//! versions of Kubernetes.

use serde_json::{Map, Value, json};

/// Maps with arbitrary keys. An empty value there is a value.
const FREE_FORM: [&str; 10] = [
    "annotations",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "options",
    "overhead",
    "requests",
    "userAnnotations",
    "volumeAttributes",
];

/// Keys whose presence has a meaning even with an empty value: selectors that match everything, kinds of
/// volumes, and the storage class that requests none.
const PRESENCE_MATTERS: [&str; 6] = [
    "downwardAPI",
    "emptyDir",
    "labelSelector",
    "namespaceSelector",
    "projected",
    "storageClassName",
];

/// A default that may be explicit: key of the enclosing object or list, key, kind of value.
struct DefaultValue(&'static str, &'static str, Scalar);

enum Scalar {
    Text(&'static str),
    Integer(i64),
    Flag(bool),
}

use Scalar::{Flag, Integer, Text};

/// Defaults of the API server and of our own webhook. The pod spec itself has the empty key.
const DEFAULTS: &[DefaultValue] = &[
    DefaultValue("", "dnsPolicy", Text("ClusterFirst")),
    DefaultValue("", "enableServiceLinks", Flag(true)),
    DefaultValue("", "hostIPC", Flag(false)),
    DefaultValue("", "hostNetwork", Flag(false)),
    DefaultValue("", "hostPID", Flag(false)),
    DefaultValue("", "restartPolicy", Text("Always")),
    DefaultValue("", "terminationGracePeriodSeconds", Integer(30)),
    DefaultValue("azureDisk", "fsType", Text("ext4")),
    DefaultValue("azureDisk", "readOnly", Flag(false)),
    DefaultValue("configMap", "defaultMode", Integer(420)),
    DefaultValue("configMap", "optional", Flag(false)),
    DefaultValue("configMapKeyRef", "optional", Flag(false)),
    DefaultValue("configMapRef", "optional", Flag(false)),
    DefaultValue("containers", "stdin", Flag(false)),
    DefaultValue("containers", "stdinOnce", Flag(false)),
    DefaultValue("containers", "terminationMessagePath", Text("/dev/termination-log")),
    DefaultValue("containers", "terminationMessagePolicy", Text("File")),
    DefaultValue("containers", "tty", Flag(false)),
    DefaultValue("downwardAPI", "defaultMode", Integer(420)),
    DefaultValue("fieldRef", "apiVersion", Text("v1")),
    DefaultValue("fileKeyRef", "optional", Flag(false)),
    DefaultValue("httpGet", "scheme", Text("HTTP")),
    DefaultValue("initContainers", "stdin", Flag(false)),
    DefaultValue("initContainers", "stdinOnce", Flag(false)),
    DefaultValue("initContainers", "terminationMessagePath", Text("/dev/termination-log")),
    DefaultValue("initContainers", "terminationMessagePolicy", Text("File")),
    DefaultValue("initContainers", "tty", Flag(false)),
    DefaultValue("iscsi", "iscsiInterface", Text("default")),
    DefaultValue("livenessProbe", "failureThreshold", Integer(3)),
    DefaultValue("livenessProbe", "initialDelaySeconds", Integer(0)),
    DefaultValue("livenessProbe", "periodSeconds", Integer(10)),
    DefaultValue("livenessProbe", "successThreshold", Integer(1)),
    DefaultValue("livenessProbe", "timeoutSeconds", Integer(1)),
    DefaultValue("ports", "hostPort", Integer(0)),
    DefaultValue("ports", "protocol", Text("TCP")),
    DefaultValue("projected", "defaultMode", Integer(420)),
    DefaultValue("rbd", "keyring", Text("/etc/ceph/keyring")),
    DefaultValue("rbd", "pool", Text("rbd")),
    DefaultValue("rbd", "user", Text("admin")),
    DefaultValue("readinessProbe", "failureThreshold", Integer(3)),
    DefaultValue("readinessProbe", "initialDelaySeconds", Integer(0)),
    DefaultValue("readinessProbe", "periodSeconds", Integer(10)),
    DefaultValue("readinessProbe", "successThreshold", Integer(1)),
    DefaultValue("readinessProbe", "timeoutSeconds", Integer(1)),
    DefaultValue("scaleIO", "fsType", Text("xfs")),
    DefaultValue("scaleIO", "storageMode", Text("ThinProvisioned")),
    DefaultValue("secret", "defaultMode", Integer(420)),
    DefaultValue("secret", "optional", Flag(false)),
    DefaultValue("secretKeyRef", "optional", Flag(false)),
    DefaultValue("secretRef", "optional", Flag(false)),
    DefaultValue("startupProbe", "failureThreshold", Integer(3)),
    DefaultValue("startupProbe", "initialDelaySeconds", Integer(0)),
    DefaultValue("startupProbe", "periodSeconds", Integer(10)),
    DefaultValue("startupProbe", "successThreshold", Integer(1)),
    DefaultValue("startupProbe", "timeoutSeconds", Integer(1)),
    DefaultValue("tolerations", "operator", Text("Equal")),
    DefaultValue("volumeMounts", "readOnly", Flag(false)),
];

/// The canonical form of a pod spec.
pub(super) fn pod_spec(spec: &Map<String, Value>) -> Map<String, Value> {
    object("", spec)
}

fn object(parent: &str, map: &Map<String, Value>) -> Map<String, Value> {
    let entries = map.iter().filter(|(key, value)| !is_default(parent, key, value));
    entries.filter_map(|(key, value)| Some((key.clone(), entry(key, value)?))).collect()
}

/// The canonical value of a key, or nothing if it is equivalent to an absent one.
fn entry(key: &str, value: &Value) -> Option<Value> {
    let value = match value {
        Value::Null => return None,
        Value::Object(map) if FREE_FORM.contains(&key) => free_form(map),
        Value::Object(map) => Value::Object(object(key, map)),
        Value::Array(items) => items.iter().map(|item| item_of(key, item)).collect(),
        other => other.clone(),
    };
    let keep = !is_empty(&value) || PRESENCE_MATTERS.contains(&key);
    keep.then_some(value)
}

fn item_of(list: &str, item: &Value) -> Value {
    match item {
        Value::Object(map) => Value::Object(object(list, map)),
        Value::Array(items) => items.iter().map(|item| item_of(list, item)).collect(),
        other => other.clone(),
    }
}

/// Values stay as they are, except that `1` and `"1"` are one quantity.
fn free_form(map: &Map<String, Value>) -> Value {
    let text = |value: &Value| match value {
        Value::Number(number) => Value::String(number.to_string()),
        other => other.clone(),
    };
    let present = map.iter().filter(|(_, value)| !value.is_null());
    present.map(|(key, value)| (key.clone(), text(value))).collect::<Map<_, _>>().into()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn is_default(parent: &str, key: &str, value: &Value) -> bool {
    DEFAULTS.iter().filter(|row| row.0 == parent && row.1 == key).any(|row| match row.2 {
        Text(text) => *value == json!(text),
        Integer(number) => *value == json!(number),
        Flag(flag) => *value == json!(flag),
    })
}
