//! Installing the CRDs.

use grove_api::crd;
use serde_json::{Value, json};
use xtask::cluster::Kube;

use crate::plane::on_every_version;

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn definitions_are_accepted_and_established() {
    on_every_version(|plane| {
        let applied = plane.install();
        assert_eq!(applied.matches("serverside-applied").count(), crd::all().len(), "{applied}");

        for crd in crd::all() {
            let name = crd.object["metadata"]["name"].as_str().unwrap();
            let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
            let stored = plane.get(&path);
            let conditions = stored["status"]["conditions"].as_array().unwrap();
            let status = |type_: &str| {
                let found = conditions.iter().find(|condition| condition["type"] == type_);
                found.map(|condition| condition["status"].clone())
            };
            assert_eq!(status("Established"), Some(json!("True")), "{name}");
            assert_eq!(status("NamesAccepted"), Some(json!("True")), "{name}");
            assert_eq!(status("NonStructuralSchema"), None, "{name}");
            // Nothing that we say is dropped or changed on the way in.
            let schema = |crd: &Value| crd["spec"]["versions"][0]["schema"].clone();
            assert_eq!(schema(&stored), schema(&crd.object), "{name}");
        }
    });
}

#[test]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
fn embedded_core_schemas_are_those_of_the_newest_server() {
    on_every_version(|plane| {
        if plane.kube != Kube::V1_37 {
            return;
        }
        let documents = [
            "/openapi/v3/api/v1",
            "/openapi/v3/apis/resource.k8s.io/v1",
            "/openapi/v3/apis/autoscaling/v2",
        ]
        .map(|path| plane.get(path));
        let served = grove_api::schema::trim(&documents).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/schema/kubernetes-1.37.json");
        let kept: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert!(
            served == kept,
            "run `cargo xtask generate --refresh-openapi` and commit the result"
        );
    });
}
