//! Manifests to start from.

pub use grove_api::testkit::sets::*;
use serde_json::{Value, json};

/// The small set, whose parts share claims: all copies of the group one of the set, each replica of the
/// set one of a template beside it, the copies of the group one each, the pods of the router one each,
/// and the leaders of a copy one.
pub fn sharing(name: &str) -> Value {
    let mut set = small(name);
    let entry = |name: &str, scope: &str| json!({ "name": name, "scope": scope });
    let template = &mut set["spec"]["template"];
    template["resourceClaimTemplates"] =
        json!([{ "name": "own", "templateSpec": crate::devices::template_spec() }]);
    let mut for_groups = entry("own", "AllReplicas");
    for_groups["filter"] = json!({ "childScalingGroupNames": ["decode"] });
    template["resourceSharing"] = json!([for_groups, entry("beside", "PerReplica")]);
    let mut for_workers = entry("own", "PerReplica");
    for_workers["filter"] = json!({ "childCliqueNames": ["worker"] });
    template["podCliqueScalingGroups"][0]["resourceSharing"] = json!([for_workers]);
    template["cliques"][0]["resourceSharing"] = json!([entry("own", "PerReplica")]);
    template["cliques"][1]["resourceSharing"] = json!([entry("own", "AllReplicas")]);
    set
}

/// The patch that gives cliques of a stored set another template: one of them, or all.
pub fn new_image(set: &Value, clique: Option<&str>, image: &str) -> Value {
    let mut cliques = set["spec"]["template"]["cliques"].clone();
    for one in cliques.as_array_mut().unwrap() {
        if clique.is_none_or(|clique| one["name"] == clique) {
            one["spec"]["podSpec"]["containers"][0]["image"] = image.into();
        }
    }
    json!({ "spec": { "template": { "cliques": cliques } } })
}
