//! The gangs of a set: how far each is on its way from its first pod to the last ready one.

use std::collections::BTreeMap;

use grove_api::condition::{TRUE, pod_gang as conditions};
use grove_api::pod_gang::PodGroup;
use grove_api::{PodClique, PodGang, labels};
use k8s_openapi::api::core::v1::Pod;

use super::meta::{condition, created, is_deleting, label, name};
use super::node::{Kind, Node, State, What};
use super::places::Places;
use super::pod::{Tally, is_gated, is_on_node};
use crate::live::Objects;

/// All gangs, and what tells their state.
pub(super) struct Gangs<'a> {
    by_name: BTreeMap<&'a str, Progress<'a>>,
}

struct Progress<'a> {
    gang: &'a PodGang,
    /// Name of the gang that has to be scheduled first.
    base: Option<&'a str>,
    /// Cliques with too few pods, with too few of them scheduled, with too few of them ready.
    uncreated: Vec<String>,
    unscheduled: Vec<String>,
    unready: Vec<String>,
    /// The pods that have to be gone before those in their place are given to the scheduler.
    former: Vec<&'a str>,
}

/// Why a gang keeps its pods.
pub(super) struct Hold {
    pub(super) what: What,
    /// In short, for each of its pods.
    pub(super) message: String,
    /// The rest, which is told once.
    details: String,
}

impl<'a> Gangs<'a> {
    pub(super) fn of(
        objects: &Objects<'a>,
        cliques: &BTreeMap<&'a str, &'a PodClique>,
        places: &Places<'a>,
    ) -> Self {
        let mut pods = BTreeMap::<&str, Vec<&'a Pod>>::new();
        for &pod in &objects.pods {
            if let Some(gang) = label(&pod.metadata, labels::POD_GANG) {
                pods.entry(gang).or_default().push(pod);
            }
        }
        let progress = |gang: &'a PodGang| {
            let mut progress = Progress {
                gang,
                base: None,
                uncreated: Vec::new(),
                unscheduled: Vec::new(),
                unready: Vec::new(),
                former: pods.get(name(&gang.metadata)).map_or_else(Vec::new, |pods| former(pods)),
            };
            for group in &gang.spec.pod_groups {
                let clique = cliques.get(group.name.as_str()).copied();
                progress.look(group, clique, places.tally(&group.name));
            }
            progress
        };
        let by_name = objects.gangs.iter().map(|gang| (name(&gang.metadata), progress(gang)));
        Self { by_name: by_name.collect() }
    }

    pub(super) fn get(&self, gang: &str) -> Option<&'a PodGang> {
        self.by_name.get(gang).map(|progress| progress.gang)
    }

    /// Why the pods of a gang are not given to the scheduler, or nothing when they are to be.
    pub(super) fn hold(&self, gang: &str) -> Option<Hold> {
        let hold = |what, message, details| Some(Hold { what, message, details });
        let Some(progress) = self.by_name.get(gang) else {
            return hold(What::Gang, format!("PodGang {gang} to be created"), String::new());
        };
        if let Some((reason, details)) = progress.uninitialized() {
            return hold(What::Gang, format!("PodGang {gang}: {reason}"), details);
        }
        if let Some(base) = progress.base {
            let Some(first) = self.by_name.get(base) else {
                let message = format!("base gang {base} to be created");
                return hold(What::BaseGang, message, String::new());
            };
            if !first.unscheduled.is_empty() {
                let message = format!("base gang {base} to be scheduled");
                return hold(What::BaseGang, message, first.unscheduled.join(", "));
            }
        }
        if progress.former.is_empty() {
            return None;
        }
        let message = format!("the former pods of PodGang {gang} to be gone");
        hold(What::Node, message, progress.former.join(", "))
    }

    /// The node of a gang, which may not exist.
    pub(super) fn node(&self, gang: &str) -> Node {
        let mut node = Node::new(Kind::PodGang, gang, State::Ready);
        let Some(progress) = self.by_name.get(gang) else {
            node.state = State::Missing;
            node.waits(What::Operator, "the operator to create it");
            return node;
        };
        node.created_at = created(&progress.gang.metadata);
        if is_deleting(&progress.gang.metadata) {
            node.state = State::Terminating;
            return node;
        }
        if let Some((reason, details)) = progress.uninitialized() {
            node.state = State::Pending;
            node.waits(What::Gang, with_details(reason, &details));
        } else if !progress.unscheduled.is_empty() {
            if let Some(hold) = self.hold(gang) {
                node.state = State::Gated;
                node.waits(hold.what, with_details(hold.message, &hold.details));
            } else {
                node.state = State::Unscheduled;
                let message = format!("the scheduler: {}", progress.unscheduled.join(", "));
                node.waits(What::Scheduler, message);
            }
        } else if !progress.unready.is_empty() {
            node.state = State::Starting;
            node.waits(What::Minimum, format!("its minimum: {}", progress.unready.join(", ")));
        }
        progress.complaints(&mut node);
        node
    }
}

impl<'a> Progress<'a> {
    fn look(&mut self, group: &PodGroup, clique: Option<&'a PodClique>, tally: Tally) {
        let clique_name = &group.name;
        let Some(clique) = clique else {
            let none = format!("{clique_name} does not exist");
            self.uncreated.push(none.clone());
            self.unscheduled.push(none.clone());
            self.unready.push(none);
            return;
        };
        self.base = self.base.or_else(|| label(&clique.metadata, labels::BASE_POD_GANG));
        let Tally { created, scheduled, ready, .. } = tally;
        let (wanted, minimum) = (clique.spec.replicas, group.min_replicas);
        if created < wanted {
            self.uncreated.push(format!("{clique_name} has {created} of {wanted} pods"));
        }
        if scheduled < minimum {
            let lacking = format!("{clique_name} has {scheduled} of {minimum} pods scheduled");
            self.unscheduled.push(lacking);
        }
        if ready < minimum {
            self.unready.push(format!("{clique_name} has {ready} of {minimum} pods ready"));
        }
    }

    /// Why the gang was never complete: in one word, and in detail.
    fn uninitialized(&self) -> Option<(String, String)> {
        let status = self.gang.status.as_ref();
        let told = status.and_then(|status| condition(&status.conditions, conditions::INITIALIZED));
        if told.is_some_and(|condition| condition.status == TRUE) {
            return None;
        }
        let reason = told.map_or(conditions::PODS_PENDING, |condition| condition.reason.as_str());
        let details = if self.uncreated.is_empty() {
            told.map(|condition| condition.message.clone()).unwrap_or_default()
        } else {
            self.uncreated.join(", ")
        };
        Some((reason.to_owned(), details))
    }

    /// What the scheduler says about the gang.
    fn complaints(&self, node: &mut Node) {
        let said = self.gang.status.as_ref().map(|status| status.conditions.as_slice());
        let said = said.unwrap_or_default();
        for (type_, bad) in [
            (conditions::SCHEDULED, "False"),
            (conditions::UNHEALTHY, TRUE),
            (conditions::DISRUPTION_TARGET, TRUE),
        ] {
            let bad = condition(said, type_).filter(|condition| condition.status == bad);
            if let Some(found) = bad {
                let message = format!("{type_}: {}: {}", found.reason, found.message);
                node.waits(What::Scheduler, message);
            }
        }
    }
}

/// The pods of a gang that are going, when all others are new and gated.
fn former<'a>(pods: &[&'a Pod]) -> Vec<&'a str> {
    let (going, staying): (Vec<&Pod>, Vec<&Pod>) =
        pods.iter().copied().partition(|pod| is_deleting(&pod.metadata));
    let is_new =
        staying.iter().any(|pod| is_gated(pod)) && !staying.iter().any(|pod| is_on_node(pod));
    let going = going.into_iter().filter(|_| is_new);
    going.map(|pod| name(&pod.metadata)).collect()
}

fn with_details(message: String, details: &str) -> String {
    if details.is_empty() { message } else { format!("{message}: {details}") }
}
