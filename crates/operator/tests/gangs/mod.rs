//! The cases, by what the cluster offers.

pub(crate) mod ended;
pub(crate) mod every;
pub(crate) mod flat;
pub(crate) mod minimum;
pub(crate) mod refused;
pub(crate) mod trap;
pub(crate) mod tree;

use serde_json::{Value, json};

use grove_testbed::fixture::Fixture;
use grove_testbed::kinds::{KUBE_GROUPS, KUBE_GROUPS_1_36, PODS};
use grove_testbed::mirror::{Namespace, State, text};
use grove_testbed::sets::{self, Manifest as _};

/// Places for the pods of one case.
struct Room {
    fixture: Fixture,
    place: String,
}

impl Room {
    async fn new(fixture: Fixture, namespace: &Namespace, places: u32) -> Self {
        let room = Self { fixture, place: format!("grove.test/{}", namespace.name) };
        room.fixture.node(&namespace.name, &room.place, places).await;
        room
    }

    /// Another number of places.
    async fn resize(&self, namespace: &Namespace, places: u32) {
        self.fixture.set_places(&namespace.name, &self.place, places).await;
    }

    /// A clique whose pods take a place each.
    fn clique(&self, name: &str, replicas: i32, min: i32) -> Value {
        let mut clique = sets::clique(name, replicas).min_available(min);
        let place = json!({ &self.place: "1" });
        clique["spec"]["podSpec"]["containers"][0]["resources"] =
            json!({ "limits": place, "requests": place });
        clique
    }
}

/// How many pods of a clique are on a node.
fn bound(state: &State, clique: &str) -> usize {
    let pods = state.pods_of(clique);
    pods.values().filter(|pod| pod["spec"]["nodeName"].is_string()).count()
}

/// How many pods of a namespace ever were.
fn ever_bound(state: &State) -> usize {
    let pods = state.history.iter().filter(|(kind, _)| *kind == PODS);
    pods.filter(|(_, pod)| pod["spec"]["nodeName"].is_string()).count()
}

/// Whether the scheduler has tried to place a group, and could not.
fn is_refused(state: &State, group: &str) -> bool {
    let mut groups = [KUBE_GROUPS, KUBE_GROUPS_1_36].into_iter();
    let group = groups.find_map(|kind| state.get(kind, group));
    let conditions = group.and_then(|group| group["status"]["conditions"].as_array());
    conditions.into_iter().flatten().any(|one| one["status"] == "False")
}

/// Waits until none of these can be placed.
async fn until_refused(namespace: &Namespace, groups: &[&str]) {
    let what = format!("{} cannot be placed", groups.join(", "));
    namespace.until_is(&what, |state| groups.iter().all(|group| is_refused(state, group))).await;
}

/// Waits until these cliques have exactly as many pods on nodes.
async fn until_bound(namespace: &Namespace, expected: &[(&str, usize)]) {
    let what = format!("placed are {expected:?}");
    namespace
        .until_is(&what, |state| {
            expected.iter().all(|(clique, number)| bound(state, clique) == *number)
        })
        .await;
}

/// The groups of the scheduler for a gang of two cliques: `x-0-a` and `x-0-b`.
fn groups_of(namespace: &Namespace) -> Vec<String> {
    let has_tree = namespace.look(|state| state.get(KUBE_GROUPS, "x-0-a").is_some());
    let names: &[&str] = if has_tree { &["x-0-a", "x-0-b"] } else { &["x-0"] };
    names.iter().map(|&name| name.to_owned()).collect()
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}
