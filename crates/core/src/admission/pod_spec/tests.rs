use grove_api::pod_spec::PodSpec;
use serde::Deserialize;
use serde_json::{Value, json};

use super::pod_errors;

/// One pod spec and its expected errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    pod: Value,
    #[serde(default)]
    container: Value,
    #[serde(default)]
    errors: Vec<String>,
}

impl Case {
    fn spec(&self) -> PodSpec {
        let mut spec = json!({ "containers": [{ "name": "c", "image": "busybox" }] });
        if self.pod.is_object() {
            json_patch::merge(&mut spec, &self.pod);
        }
        if self.container.is_object() {
            json_patch::merge(&mut spec["containers"][0], &self.container);
        }
        serde_json::from_value(spec).unwrap()
    }
}

fn cases() -> Vec<Case> {
    serde_saphyr::from_str(include_str!("cases.yaml")).unwrap()
}

#[test]
fn every_case_has_its_expected_errors() {
    for case in cases() {
        let found = pod_errors("podSpec", &case.spec(), false);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        let as_expected = |(found, expected): (&String, &String)| {
            found.strip_prefix("podSpec.").is_some_and(|found| found.starts_with(expected))
        };
        let right =
            found.len() == case.errors.len() && found.iter().zip(&case.errors).all(as_expected);
        assert!(right, "{}: {found:#?} instead of {:#?}", case.name, case.errors);
    }
}

#[test]
fn names_of_cases_are_unique() {
    let mut names: Vec<_> = cases().into_iter().map(|case| case.name).collect();
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn claims_that_the_operator_adds_may_be_named() {
    let spec = json!({ "containers": [
        { "name": "c", "image": "busybox", "resources": { "claims": [{ "name": "shared" }] } },
    ]});
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    assert_eq!(pod_errors("podSpec", &spec, true), []);
    assert_eq!(pod_errors("podSpec", &spec, false).len(), 1);
}
