//! The definition of each kind, and that the committed files are current.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use super::*;

fn find(kind: &str) -> Value {
    let found = all().into_iter().find(|crd| crd.object["spec"]["names"]["kind"] == kind);
    found.unwrap_or_else(|| panic!("no definition of {kind}")).object["spec"].take()
}

#[test]
fn kinds_have_their_documented_names_and_scopes() {
    for (kind, group, plural, short, scope) in [
        ("PodCliqueSet", "grove.io", "podcliquesets", Some("pcs"), "Namespaced"),
        ("PodClique", "grove.io", "podcliques", Some("pclq"), "Namespaced"),
        ("PodCliqueScalingGroup", "grove.io", "podcliquescalinggroups", Some("pcsg"), "Namespaced"),
        ("ClusterTopology", "grove.io", "clustertopologies", None, "Cluster"),
        ("ClusterTopologyBinding", "grove.io", "clustertopologybindings", Some("ct"), "Cluster"),
        ("PodGang", "scheduler.grove.io", "podgangs", Some("pg"), "Namespaced"),
    ] {
        let spec = find(kind);
        assert_eq!(spec["group"], group);
        assert_eq!(spec["scope"], scope);
        assert_eq!(spec["names"]["plural"], plural);
        assert_eq!(spec["names"]["singular"], kind.to_lowercase());
        assert_eq!(spec["names"]["listKind"], format!("{kind}List"));
        assert_eq!(spec["names"].get("shortNames"), short.map(|s| json!([s])).as_ref());
        assert_eq!(spec["versions"].as_array().unwrap().len(), 1);
        let version = &spec["versions"][0];
        assert_eq!(version["name"], "v1alpha1");
        assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
        assert_eq!(version["subresources"]["status"], json!({}));
        assert_eq!(version["schema"]["openAPIV3Schema"]["required"], json!(["spec"]));
    }
    assert_eq!(all().len(), 6);
}

#[test]
fn scale_subresources_have_their_documented_paths() {
    for (kind, selector) in [
        ("PodCliqueSet", Some(".status.hpaPodSelector")),
        ("PodClique", Some(".status.hpaPodSelector")),
        ("PodCliqueScalingGroup", Some(".status.selector")),
        ("ClusterTopology", None),
        ("ClusterTopologyBinding", None),
        ("PodGang", None),
    ] {
        let expected = selector.map(|selector| {
            json!({
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": selector,
            })
        });
        let subresources = &find(kind)["versions"][0]["subresources"];
        assert_eq!(subresources.get("scale"), expected.as_ref(), "{kind}");
    }
}

#[test]
fn columns_are_the_documented_ones_in_order() {
    let breached = r#".status.conditions[?(@.type=="MinAvailableBreached")].status"#;
    let age = "Age date .metadata.creationTimestamp";
    for (kind, expected) in [
        (
            "PodCliqueSet",
            vec![
                "Replicas integer .spec.replicas",
                "Available integer .status.availableReplicas",
                "Updated integer .status.updatedReplicas",
                "PCLQs-Updated integer .status.updateProgress.updatedPodCliquesCount",
                "PCLQs-Total integer .status.updateProgress.totalPodCliquesCount",
                "PCSGs-Updated integer .status.updateProgress.updatedPodCliqueScalingGroupsCount",
                "PCSGs-Total integer .status.updateProgress.totalPodCliqueScalingGroupsCount",
                age,
            ],
        ),
        (
            "PodClique",
            vec![
                "MinAvail integer .spec.minAvailable",
                "Replicas integer .spec.replicas",
                "Ready integer .status.readyReplicas",
                "Scheduled integer .status.scheduledReplicas",
                "Updated integer .status.updatedReplicas",
                "Gated integer .status.scheduleGatedReplicas wide",
                &format!("MinBreached string {breached} wide"),
                age,
            ],
        ),
        (
            "PodCliqueScalingGroup",
            vec![
                "MinAvail integer .spec.minAvailable",
                "Replicas integer .spec.replicas",
                "Available integer .status.availableReplicas",
                "Scheduled integer .status.scheduledReplicas",
                "Updated integer .status.updatedReplicas",
                "PCLQs-Updated integer .status.updateProgress.updatedPodCliquesCount",
                "PCLQs-Total integer .status.updateProgress.totalPodCliquesCount",
                &format!("MinBreached string {breached} wide"),
                age,
            ],
        ),
        ("ClusterTopology", vec![]),
        ("ClusterTopologyBinding", vec!["Domains string .spec.levels[*].domain", age]),
        ("PodGang", vec!["Phase string .status.phase", age]),
    ] {
        let spec = find(kind);
        let columns = spec["versions"][0]["additionalPrinterColumns"].as_array();
        let printed: Vec<String> = columns.into_iter().flatten().map(print_column).collect();
        assert_eq!(printed, expected, "{kind}");
    }
}

fn print_column(column: &Value) -> String {
    let part = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
    let wide = match column.get("priority") {
        None => "",
        Some(priority) => {
            assert_eq!(priority, 1);
            " wide"
        }
    };
    format!("{} {} {}{wide}", part("name"), part("type"), part("jsonPath"))
}

#[test]
fn committed_definitions_are_current() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let advice = "deploy/crds is out of date: run `cargo xtask generate` and commit the result";
    let mut expected = BTreeSet::new();
    for crd in all() {
        let committed = fs::read_to_string(directory.join(&crd.file_name)).unwrap_or_default();
        assert!(committed == crd.to_yaml(), "{}: {advice}", crd.file_name);
        expected.insert(crd.file_name);
    }
    let found: BTreeSet<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, expected, "{advice}");
}

#[test]
fn yaml_says_the_same_as_the_object() {
    for crd in all() {
        let yaml = crd.to_yaml();
        assert!(yaml.starts_with("---\napiVersion: apiextensions.k8s.io/v1\n"), "{}", &yaml[..80]);
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read, crd.object, "{}", crd.file_name);
    }
}
