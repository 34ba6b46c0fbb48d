//! Our types of `scheduling.k8s.io` against the servers that define them.

use grove_api::foreign::{
    scheduling::{
        CompositePodGroupTemplate, CompositeSchedulingPolicy, ControllerReference, DisruptionMode,
        PodGroupSpec, PodGroupTemplate, SchedulingConstraints, SchedulingPolicy, WorkloadReference,
        WorkloadSpec,
    },
    scheduling_v1alpha2, scheduling_v1alpha3, scheduling_v1beta1,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use xtask::cluster::Kube;

use crate::plane::{Plane, on_every_version};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Creates an object, reads it back into its type and returns it. What the server sent has to survive
/// the type, apart from keys without value.
fn through<T: Serialize + DeserializeOwned>(plane: &Plane, path: &str, object: &T) -> T {
    let object = serde_json::to_value(object).unwrap();
    let stored = plane.create(path, &object).unwrap();
    let typed: T = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), without_nulls(stored));
    typed
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, child)| !child.is_null())
            .map(|(key, child)| (key, without_nulls(child)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn prepare(plane: &Plane, namespace: &str) {
    plane.namespace(namespace);
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    });
    plane.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class).unwrap();
}

fn high() -> String {
    "high".to_owned()
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn workload_and_groups_are_stored_as_our_types_write_them() {
    on_every_version(|plane| {
        prepare(plane, "workloads");
        match plane.kube {
            Kube::V1_37 => tree_in_1_37(plane),
            Kube::V1_36 => group_in_1_36(plane),
        }
    });
}

fn tree_in_1_37(plane: &Plane) {
    let beta = "/apis/scheduling.k8s.io/v1beta1/namespaces/workloads";
    let alpha = "/apis/scheduling.k8s.io/v1alpha3/namespaces/workloads";
    let leaf = PodGroupTemplate {
        name: "prefill".to_owned(),
        scheduling_policy: SchedulingPolicy::gang(4),
        disruption_mode: Some(DisruptionMode::all()),
        priority_class_name: Some(high()),
        ..PodGroupTemplate::default()
    };
    let root = CompositePodGroupTemplate {
        name: "root".to_owned(),
        scheduling_policy: CompositeSchedulingPolicy::gang(1),
        scheduling_constraints: Some(SchedulingConstraints::same(ZONE)),
        disruption_mode: Some(DisruptionMode::all()),
        priority_class_name: Some(high()),
        pod_group_templates: vec![leaf],
        ..CompositePodGroupTemplate::default()
    };
    let spec =
        WorkloadSpec { composite_pod_group_templates: vec![root], ..WorkloadSpec::default() };
    let workload = through(
        plane,
        &format!("{beta}/workloads"),
        &scheduling_v1beta1::Workload::new("serve", spec.clone()),
    );
    assert_eq!(workload.spec, spec);

    let reference = |template: &str| WorkloadReference {
        workload_name: "serve".to_owned(),
        template_name: template.to_owned(),
        ..WorkloadReference::default()
    };
    let spec = scheduling_v1alpha3::CompositePodGroupSpec {
        workload_ref: reference("root"),
        scheduling_policy: CompositeSchedulingPolicy::gang(1),
        scheduling_constraints: Some(SchedulingConstraints::same(ZONE)),
        disruption_mode: Some(DisruptionMode::all()),
        priority_class_name: Some(high()),
        ..scheduling_v1alpha3::CompositePodGroupSpec::default()
    };
    let composite = through(
        plane,
        &format!("{alpha}/compositepodgroups"),
        &scheduling_v1alpha3::CompositePodGroup::new("serve-0", spec),
    );
    assert_eq!(composite.spec.priority, Some(1000), "filled in at admission");

    let spec = PodGroupSpec {
        parent_composite_pod_group_name: Some("serve-0".to_owned()),
        workload_ref: Some(reference("prefill")),
        scheduling_policy: SchedulingPolicy::gang(4),
        disruption_mode: Some(DisruptionMode::all()),
        priority_class_name: Some(high()),
        ..PodGroupSpec::default()
    };
    let group = through(
        plane,
        &format!("{beta}/podgroups"),
        &scheduling_v1beta1::PodGroup::new("serve-0-prefill", spec.clone()),
    );
    assert_eq!(group.spec.parent_composite_pod_group_name.as_deref(), Some("serve-0"));
    assert_eq!(group.spec.scheduling_policy, SchedulingPolicy::gang(4));
    let other = through(
        plane,
        &format!("{alpha}/podgroups"),
        &scheduling_v1alpha3::PodGroup::new("serve-0-other", spec),
    );
    assert_eq!(other.spec.priority, Some(1000), "filled in at admission");
}

fn group_in_1_36(plane: &Plane) {
    let base = "/apis/scheduling.k8s.io/v1alpha2/namespaces/workloads";
    let template = scheduling_v1alpha2::PodGroupTemplate {
        name: "workers".to_owned(),
        scheduling_policy: SchedulingPolicy::gang(4),
        scheduling_constraints: Some(SchedulingConstraints::same(ZONE)),
        disruption_mode: Some(scheduling_v1alpha2::DisruptionMode::PodGroup),
        priority_class_name: Some(high()),
        ..scheduling_v1alpha2::PodGroupTemplate::default()
    };
    let spec = scheduling_v1alpha2::WorkloadSpec {
        controller_ref: Some(ControllerReference {
            api_group: Some("batch".to_owned()),
            kind: "Job".to_owned(),
            name: "job-1".to_owned(),
            ..ControllerReference::default()
        }),
        pod_group_templates: vec![template],
        ..scheduling_v1alpha2::WorkloadSpec::default()
    };
    let workload = through(
        plane,
        &format!("{base}/workloads"),
        &scheduling_v1alpha2::Workload::new("training", spec.clone()),
    );
    assert_eq!(workload.spec, spec);

    let reference = scheduling_v1alpha2::WorkloadTemplateReference {
        workload_name: "training".to_owned(),
        pod_group_template_name: "workers".to_owned(),
        ..scheduling_v1alpha2::WorkloadTemplateReference::default()
    };
    let spec = scheduling_v1alpha2::PodGroupSpec {
        pod_group_template_ref: Some(scheduling_v1alpha2::PodGroupTemplateReference {
            workload: Some(reference),
            ..scheduling_v1alpha2::PodGroupTemplateReference::default()
        }),
        scheduling_policy: SchedulingPolicy::gang(4),
        scheduling_constraints: Some(SchedulingConstraints::same(ZONE)),
        disruption_mode: Some(scheduling_v1alpha2::DisruptionMode::PodGroup),
        priority_class_name: Some(high()),
        ..scheduling_v1alpha2::PodGroupSpec::default()
    };
    let group = through(
        plane,
        &format!("{base}/podgroups"),
        &scheduling_v1alpha2::PodGroup::new("training-workers-0", spec.clone()),
    );
    assert_eq!(group.spec.pod_group_template_ref, spec.pod_group_template_ref);
    assert_eq!(group.spec.disruption_mode, spec.disruption_mode);
    assert_eq!(group.spec.priority, Some(1000), "filled in at admission");
}
