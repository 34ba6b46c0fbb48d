//! What users see and do with kubectl.

use grove_api::{labels, testkit};
use serde_json::{Value, json};

use crate::plane::{Plane, collection, on_every_version};

/// Stores the worked examples in a namespace. The two cluster-wide ones get its name as a suffix.
fn store_examples(plane: &Plane, namespace: &str) {
    plane.namespace(namespace);
    for mut example in testkit::worked_examples() {
        let name = example["metadata"]["name"].as_str().unwrap().to_owned();
        if example["metadata"].get("namespace").is_some() {
            example["metadata"]["namespace"] = json!(namespace);
        } else {
            example["metadata"]["name"] = json!(format!("{name}-{namespace}"));
        }
        plane.store(&example).unwrap();
    }
}

/// Column titles, then the cells of one row.
fn table(plane: &Plane, args: &[&str], row: &str) -> (Vec<String>, Vec<String>) {
    let text = plane.cluster.kubectl(args).unwrap();
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let titles = cells(text.lines().next().unwrap());
    let found = text.lines().find(|line| line.split_whitespace().next() == Some(row));
    (titles, cells(found.unwrap_or_else(|| panic!("no {row} in\n{text}"))))
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn get_shows_the_documented_columns() {
    on_every_version(|plane| {
        store_examples(plane, "columns");
        for (kind, row, titles, cells) in [
            (
                "pcs",
                "demo-defaulted",
                "NAME REPLICAS AVAILABLE UPDATED PCLQS-UPDATED PCLQS-TOTAL PCSGS-UPDATED PCSGS-TOTAL AGE",
                "1 1 1",
            ),
            (
                "pclq",
                "demo-0-decode-1-worker",
                "NAME MINAVAIL REPLICAS READY SCHEDULED UPDATED AGE",
                "2 3 3 3 3",
            ),
            (
                "pcsg",
                "demo-0-decode",
                "NAME MINAVAIL REPLICAS AVAILABLE SCHEDULED UPDATED PCLQS-UPDATED PCLQS-TOTAL AGE",
                "1 2 2 2 2",
            ),
            ("pg", "demo-0", "NAME PHASE AGE", "Pending"),
            ("ct", "dc1-columns", "NAME DOMAINS AGE", "block"),
            ("clustertopology", "grove-topology-columns", "NAME AGE", ""),
        ] {
            let (found_titles, found) = table(plane, &["get", kind, "-n", "columns"], row);
            assert_eq!(found_titles.join(" "), titles, "{kind}");
            assert!(found[1..].join(" ").starts_with(cells), "{kind}: {found:?}");
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn wide_output_adds_the_rarely_needed_columns() {
    on_every_version(|plane| {
        store_examples(plane, "wide");
        for (kind, row, titles, last) in [
            (
                "pclq",
                "demo-0-decode-1-worker",
                "NAME MINAVAIL REPLICAS READY SCHEDULED UPDATED GATED MINBREACHED AGE",
                ["0", "False"],
            ),
            (
                "pcsg",
                "demo-0-decode",
                "NAME MINAVAIL REPLICAS AVAILABLE SCHEDULED UPDATED PCLQS-UPDATED PCLQS-TOTAL \
                 MINBREACHED AGE",
                ["2", "False"],
            ),
        ] {
            let args = ["get", kind, "-n", "wide", "-o", "wide"];
            let (found_titles, found) = table(plane, &args, row);
            assert_eq!(found_titles.join(" "), titles);
            // Columns without a value are blank, so count from the end.
            assert_eq!(found[found.len() - 3..][..2], last, "{found:?}");
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn short_names_work_together() {
    on_every_version(|plane| {
        store_examples(plane, "short");
        let names = plane
            .cluster
            .kubectl(&["get", "pcs,pclq,pcsg,pg,ct", "-n", "short", "-o", "name"])
            .unwrap();
        for name in [
            "podcliqueset.grove.io/demo",
            "podclique.grove.io/demo-0-router",
            "podcliquescalinggroup.grove.io/demo-0-decode",
            "podgang.scheduler.grove.io/demo-0",
            "clustertopologybinding.grove.io/dc1-short",
        ] {
            assert!(names.lines().any(|line| line == name), "{name} is not in\n{names}");
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn scale_changes_replicas_and_shows_status_and_selector() {
    let managed = labels::set_pod_selector("demo");
    on_every_version(|plane| {
        store_examples(plane, "scale");
        let base = "/apis/grove.io/v1alpha1/namespaces/scale";
        for (resource, name, status_replicas, selector) in [
            ("podcliquesets", "demo-defaulted", 1, managed.clone()),
            (
                "podcliques",
                "demo-0-router",
                1,
                format!("{managed},grove.io/podclique=demo-0-router"),
            ),
            (
                "podcliquescalinggroups",
                "demo-0-decode",
                2,
                format!("{managed},grove.io/podcliquescalinggroup=demo-0-decode"),
            ),
        ] {
            let path = format!("{base}/{resource}/{name}");
            let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap();
            let before = generation(&plane.get(&path));
            let target = format!("{resource}/{name}");

            plane.cluster.kubectl(&["scale", &target, "--replicas=5", "-n", "scale"]).unwrap();

            let after = plane.get(&path);
            assert_eq!(after["spec"]["replicas"], 5, "{target}");
            assert_eq!(generation(&after), before + 1, "{target}");
            let mut scale = plane.get(&format!("{path}/scale"));
            assert_eq!(scale["spec"]["replicas"], 5);
            assert_eq!(scale["status"], json!({"replicas": status_replicas, "selector": selector}));

            scale["spec"]["replicas"] = json!(-1);
            let error = plane.replace(&format!("{path}/scale"), &scale).unwrap_err();
            assert!(error.contains("spec.replicas: Invalid value: -1"), "{error}");
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn status_and_the_rest_are_written_separately() {
    on_every_version(|plane| {
        plane.namespace("isolation");
        for mut example in testkit::worked_examples() {
            if example.get("status").is_none() {
                continue;
            }
            if example["metadata"].get("namespace").is_some() {
                example["metadata"]["namespace"] = json!("isolation");
            } else {
                example["metadata"]["name"] = json!("isolated");
            }
            let path = collection(&example);
            let name = example["metadata"]["name"].as_str().unwrap();

            let created = plane.create(&path, &example).unwrap();
            assert_eq!(
                created.get("status"),
                None,
                "a status sent to the main resource is ignored"
            );

            let mut update = created.clone();
            update["status"] = example["status"].clone();
            update["metadata"]["labels"] = json!({"changed": "here"});
            update["spec"] = json!({"nonsense": true});
            let stored = plane.replace(&format!("{path}/{name}/status"), &update).unwrap();
            assert_eq!(stored["status"], example["status"]);
            assert_eq!(stored["spec"], created["spec"], "a spec sent to the status is ignored");
            assert_eq!(stored["metadata"]["generation"], 1, "a status is no new generation");
        }
    });
}
