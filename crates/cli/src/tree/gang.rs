//! The gangs of a set: how far each is on its way from its first pod to the last ready one.

use std::collections::BTreeMap;

use grove_api::condition::{TRUE, pod_gang as conditions};
use grove_api::pod_gang::PodGroup;
use grove_api::{PodClique, PodGang, labels};
use grove_core::gang::{GangPods, Hold, OwnGang, gates, is_initialized, restarts_after};
use grove_core::layout::{GangPlace, Layout};

use super::meta::{condition, created, is_deleting, label, name};
use super::node::{Kind, Node, State, What};
use super::places::Places;
use super::pod::{LivePod, Tally};
use crate::live::Objects;

/// All gangs and their progress.
pub(super) struct Gangs<'a> {
    by_name: BTreeMap<&'a str, Progress<'a>>,
}

struct Progress<'a> {
    gang: &'a PodGang,
    /// Name of the gang that has to be scheduled first.
    base: Option<String>,
    /// Cliques with too few pods, with too few of them scheduled, with too few of them ready.
    uncreated: Vec<String>,
    unscheduled: Vec<String>,
    unready: Vec<String>,
    pods: Vec<&'a LivePod<'a>>,
}

/// Why pods of a gang are gated.
pub(super) struct Reason {
    pub(super) what: What,
    /// In short, for each of the pods.
    pub(super) message: String,
    /// The rest, for the gang.
    details: String,
}

impl<'a> Gangs<'a> {
    pub(super) fn of(
        objects: &Objects<'a>,
        pods: &'a [LivePod<'a>],
        layout: &Layout<'_>,
        cliques: &BTreeMap<&'a str, &'a PodClique>,
        places: &Places<'a>,
    ) -> Self {
        let mut by_gang = BTreeMap::<&str, Vec<&'a LivePod<'a>>>::new();
        for pod in pods {
            if let Some(gang) = &pod.observed.gang {
                by_gang.entry(gang).or_default().push(pod);
            }
        }
        let progress = |gang: &'a PodGang| {
            let name = name(&gang.metadata);
            let base = match layout.find_gang(name) {
                Some(GangPlace::Scaled { set_replica, .. }) => {
                    Some(layout.base_gang_name(set_replica))
                }
                Some(GangPlace::Base { .. }) | None => None,
            };
            let mut progress = Progress {
                gang,
                base,
                uncreated: Vec::new(),
                unscheduled: Vec::new(),
                unready: Vec::new(),
                pods: by_gang.remove(name).unwrap_or_default(),
            };
            for group in &gang.spec.pod_groups {
                let clique = cliques.get(group.name.as_str()).copied();
                progress.add(group, clique, places.pods(&group.name));
            }
            (name, progress)
        };
        Self { by_name: objects.gangs.iter().copied().map(progress).collect() }
    }

    /// Why a gated pod of a gang is held, or nothing when the operator is to lift its gate.
    pub(super) fn hold(&self, gang: &str, pod: &LivePod<'_>) -> Option<Reason> {
        let progress = self.by_name.get(gang);
        let base = progress.and_then(|progress| progress.base.as_deref());
        let base_progress = base.and_then(|base| self.by_name.get(base));
        let stored = progress.map(|progress| progress.gang);
        let place = match base {
            Some(_) => {
                let is_scheduled = |base: &Progress<'_>| base.unscheduled.is_empty();
                let base_scheduled = base_progress.is_some_and(is_scheduled);
                OwnGang::Scaled { gang: stored, base_scheduled }
            }
            None => OwnGang::Base(stored),
        };
        let clique = label(&pod.pod.metadata, labels::POD_CLIQUE).unwrap_or_default();
        let decision = gates(clique, std::slice::from_ref(&pod.observed), place);
        let former = progress.map(Progress::former).unwrap_or_default();
        let hold = decision.hold.or_else(|| (!former.is_empty()).then_some(Hold::FormerPods))?;
        let base = base.unwrap_or_default();
        let (what, message, details) = match hold {
            Hold::NoGang => (What::Gang, format!("PodGang {gang} to be created"), String::new()),
            Hold::NotInitialized => {
                let (reason, details) = progress?.uninitialized()?;
                (What::Gang, format!("PodGang {gang}: {reason}"), details)
            }
            Hold::BaseNotScheduled => match base_progress {
                Some(first) => {
                    let message = format!("base gang {base} to be scheduled");
                    (What::BaseGang, message, first.unscheduled.join(", "))
                }
                None => (What::BaseGang, format!("base gang {base} to be created"), String::new()),
            },
            Hold::NotReferenced => {
                (What::Gang, format!("PodGang {gang} to list it"), String::new())
            }
            Hold::FormerPods => {
                let message = format!("the former pods of PodGang {gang} to be gone");
                (What::Node, message, former.join(", "))
            }
        };
        Some(Reason { what, message, details })
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
            let mut gated =
                progress.pods.iter().filter(|pod| pod.observed.has_gate && !pod.observed.deleting);
            if let Some(reason) = gated.find_map(|pod| self.hold(gang, pod)) {
                node.state = State::Gated;
                node.waits(reason.what, with_details(reason.message, &reason.details));
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
    fn add(&mut self, group: &PodGroup, clique: Option<&PodClique>, pods: &[&LivePod<'_>]) {
        let clique_name = &group.name;
        let Some(clique) = clique else {
            let none = format!("{clique_name} does not exist");
            self.uncreated.push(none.clone());
            self.unscheduled.push(none.clone());
            self.unready.push(none);
            return;
        };
        let Tally { created, scheduled, ready, .. } = Tally::of(pods);
        let (desired, minimum) = (clique.spec.replicas, group.min_replicas);
        let member = GangPods::of([(minimum, pods.iter().map(|pod| &pod.observed))]);
        if created < desired {
            self.uncreated.push(format!("{clique_name} has {created} of {desired} pods"));
        }
        if !member.scheduled {
            let lacking = format!("{clique_name} has {scheduled} of {minimum} pods scheduled");
            self.unscheduled.push(lacking);
        }
        if !member.ready {
            self.unready.push(format!("{clique_name} has {ready} of {minimum} pods ready"));
        }
    }

    /// The terminating pods that the new pods of the gang wait for.
    fn former(&self) -> Vec<&'a str> {
        let gone_by = |pod: &LivePod<'_>| Some(pod.pod.metadata.deletion_timestamp.as_ref()?.0);
        let pods = self.pods.iter().map(|pod| (&pod.observed, gone_by(pod)));
        if restarts_after(&self.gang.spec, pods).is_none() {
            return Vec::new();
        }
        let former = self.pods.iter().filter(|pod| pod.observed.deleting);
        former.map(|pod| name(&pod.pod.metadata)).collect()
    }

    /// Why the gang is not initialized: in one word, and in detail.
    fn uninitialized(&self) -> Option<(String, String)> {
        if is_initialized(self.gang) {
            return None;
        }
        let status = self.gang.status.as_ref();
        let reported =
            status.and_then(|status| condition(&status.conditions, conditions::INITIALIZED));
        let reason =
            reported.map_or(conditions::PODS_PENDING, |condition| condition.reason.as_str());
        let details = if self.uncreated.is_empty() {
            reported.map(|condition| condition.message.clone()).unwrap_or_default()
        } else {
            self.uncreated.join(", ")
        };
        Some((reason.to_owned(), details))
    }

    /// Adds what the scheduler reports about the gang.
    fn complaints(&self, node: &mut Node) {
        let reported = self.gang.status.as_ref().map(|status| status.conditions.as_slice());
        let reported = reported.unwrap_or_default();
        for (type_, bad) in [
            (conditions::SCHEDULED, "False"),
            (conditions::UNHEALTHY, TRUE),
            (conditions::DISRUPTION_TARGET, TRUE),
        ] {
            let bad = condition(reported, type_).filter(|condition| condition.status == bad);
            if let Some(found) = bad {
                let message = format!("{type_}: {}: {}", found.reason, found.message);
                node.waits(What::Scheduler, message);
            }
        }
    }
}

fn with_details(message: String, details: &str) -> String {
    if details.is_empty() { message } else { format!("{message}: {details}") }
}
