//! From the objects of a set to its tree.
//!
//! The template gives the desired objects, labels give the place of the observed ones. A desired object that does
//! not exist is shown as missing; an object that is not desired is shown where its labels put it.

use std::collections::{BTreeMap, BTreeSet};

use grove_api::condition::{Condition, FALSE, TRUE, pod_clique_set as set_conditions};
use grove_api::error_code::LastError;
use grove_api::{PodClique, PodCliqueScalingGroup};
use grove_core::layout::{Group, Layout};
use grove_core::minimum::min_available;
use grove_core::{hash, termination, update};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::gang::Gangs;
use super::meta::{condition, created, is_deleting, name};
use super::node::{Counts, Kind, Node, State, Termination, Update, What};
use super::placement::Placements;
use super::places::{Places, Replica};
use super::pod::{self, LivePod};
use crate::live::Objects;

/// The tree of a set.
pub(crate) fn analyse(objects: &Objects<'_>) -> Node {
    let pods: Vec<_> = objects.pods.iter().copied().map(LivePod::from).collect();
    let layout = Layout::of(objects.set);
    Analysis::of(objects, &pods, &layout).set()
}

struct Analysis<'a> {
    objects: &'a Objects<'a>,
    layout: &'a Layout<'a>,
    places: Places<'a>,
    placements: Placements<'a>,
    cliques: BTreeMap<&'a str, &'a PodClique>,
    groups: BTreeMap<&'a str, &'a PodCliqueScalingGroup>,
    gangs: Gangs<'a>,
    paused: bool,
}

impl<'a> Analysis<'a> {
    fn of(objects: &'a Objects<'a>, pods: &'a [LivePod<'a>], layout: &'a Layout<'a>) -> Self {
        let places = Places::of(objects, pods, layout);
        let cliques: BTreeMap<_, _> =
            objects.cliques.iter().map(|clique| (name(&clique.metadata), *clique)).collect();
        let groups = objects.groups.iter().map(|group| (name(&group.metadata), *group));
        Self {
            objects,
            gangs: Gangs::of(objects, pods, layout, &cliques, &places),
            placements: Placements::of(objects, pods, layout),
            layout,
            places,
            cliques,
            groups: groups.collect(),
            paused: update::is_paused(objects.set),
        }
    }

    // === the set ===

    fn set(&self) -> Node {
        let set = self.objects.set;
        let status = set.status.clone().unwrap_or_default();
        let children = self.set_children();
        let usable = status.available_replicas >= set.spec.replicas;
        let mut node = Node::new(Kind::PodCliqueSet, name(&set.metadata), State::Ready);
        node.created_at = created(&set.metadata);
        node.placement = self.placements.set();
        node.ready = Some(Counts {
            ready: status.available_replicas,
            wanted: set.spec.replicas,
            minimum: None,
        });
        node.update = status.update_progress.as_ref().and_then(|progress| {
            let current = progress.currently_updating.first();
            self.update(
                (&progress.update_started_at, &progress.update_ended_at),
                (status.updated_replicas, set.spec.replicas, "replicas"),
                current.map(|current| format!("replica {}", current.replica_index)),
            )
        });
        let worst = children.iter().map(|child| child.state).max().unwrap_or(State::Ready);
        node.state = if is_deleting(&set.metadata) {
            State::Terminating
        } else if node.update.is_some() {
            State::Updating
        } else if usable {
            worst.min(State::Available)
        } else {
            worst.max(State::Starting)
        };
        if is_deleting(&set.metadata) {
            finalizers(&mut node, &set.metadata);
        } else if status.observed_generation < set.metadata.generation {
            let generation = set.metadata.generation.unwrap_or_default();
            node.waits(What::Operator, format!("the operator to see generation {generation}"));
        }
        errors(&mut node, &status.last_errors);
        complaints(&mut node, &status.conditions);
        if (self.paused && node.update.is_some())
            || update::is_held_back(set, &hash::generation_hash(set))
        {
            let resume = format!("grove rollout resume {}", name(&set.metadata));
            node.waits(What::User, format!("the user: the update is paused, see {resume:?}"));
        }
        node.children = children;
        node
    }

    /// The replicas, then what belongs to none of them.
    fn set_children(&self) -> Vec<Node> {
        let replicas: BTreeSet<u32> =
            (0..self.layout.replicas()).chain(self.places.replicas()).collect();
        let replicas = replicas.into_iter().map(|replica| self.set_replica(replica));
        let stray = self.places.stray_pods(|clique| self.cliques.contains_key(clique));
        replicas.chain(stray.map(|one| self.pod(one, None))).collect()
    }

    // === a replica of the set ===

    fn set_replica(&self, replica: u32) -> Node {
        let expected = replica < self.layout.replicas();
        let nothing = Replica::default();
        let live = self.places.replica(replica).unwrap_or(&nothing);
        let mut node = Node::new(Kind::SetReplica, replica.to_string(), State::Ready);

        let mut gangs: BTreeSet<String> = live.gangs.iter().map(|&gang| gang.to_owned()).collect();
        if expected {
            gangs.extend(self.expected_gangs(replica));
        }
        node.children.extend(gangs.iter().map(|gang| self.gang(gang)));

        let desired = if expected { self.layout.standalone_cliques(replica) } else { Vec::new() };
        let cliques = in_order(desired.into_iter().map(|clique| clique.name), live.cliques.iter());
        let desired = self.layout.groups().iter().filter(|_| expected);
        let desired = desired.map(|group| self.layout.scaling_group_name(replica, group));
        let groups = in_order(desired, live.groups.iter());
        let cliques = cliques.iter().map(|name| self.clique(name));
        let parts = cliques.chain(groups.iter().map(|name| self.group(replica, name)));
        summarise(&mut node, parts.collect());
        node
    }

    fn gang(&self, gang: &str) -> Node {
        let mut node = self.gangs.node(gang);
        node.placement = self.placements.gang(gang);
        node
    }

    fn expected_gangs(&self, replica: u32) -> Vec<String> {
        let mut gangs = vec![self.layout.base_gang_name(replica)];
        for group in self.layout.groups() {
            let group_name = self.layout.scaling_group_name(replica, group);
            let live = self.groups.get(group_name.as_str());
            let replicas = live.map(|live| count(live.spec.replicas));
            let replicas = replicas.unwrap_or_else(|| group.initial_replicas());
            let scaled = self.layout.scaled_gangs(replica, group, replicas);
            gangs.extend(scaled.into_iter().map(|gang| gang.name));
        }
        gangs
    }

    // === a scaling group ===

    fn group(&self, set_replica: u32, group_name: &str) -> Node {
        let kind = Kind::PodCliqueScalingGroup;
        let template = self
            .layout
            .groups()
            .iter()
            .find(|group| self.layout.scaling_group_name(set_replica, group) == group_name);
        let Some(live) = self.groups.get(group_name).copied() else {
            let mut node = missing(kind, group_name);
            node.children = self.group_replicas(set_replica, group_name, template, 0);
            if set_replica >= self.layout.replicas() {
                // It was deleted, and its members are to follow.
                let left = node.children.iter().map(|child| child.state).max();
                node.state = left.unwrap_or(State::Missing);
                node.waits_for.clear();
            }
            return node;
        };
        let status = live.status.clone().unwrap_or_default();
        let minimum = live.spec.min_available.unwrap_or(1);
        let mut node = Node::new(kind, group_name, State::Ready);
        node.created_at = created(&live.metadata);
        node.placement = self.placements.group(template);
        node.ready = Some(Counts {
            ready: status.available_replicas,
            wanted: live.spec.replicas,
            minimum: Some(minimum),
        });
        node.update = status.update_progress.as_ref().and_then(|progress| {
            let current = progress.ready_replica_indices_selected_to_update.as_ref();
            self.update(
                (&progress.update_started_at, &progress.update_ended_at),
                (
                    progress.updated_pod_cliques_count,
                    progress.total_pod_cliques_count,
                    "PodCliques",
                ),
                current.map(|selected| format!("replica {}", selected.current)),
            )
        });
        node.termination = if termination::is_in_progress(live) {
            Some(Termination { breached_since: None, ends_at: None, in_progress: true })
        } else {
            self.termination(&live.metadata, termination::group_breached_since(live))
        };
        errors(&mut node, &status.last_errors);
        let replicas = count(live.spec.replicas);
        node.children = self.group_replicas(set_replica, group_name, template, replicas);
        let worst = node.children.iter().map(|child| child.state).max().unwrap_or(State::Ready);
        node.state = if is_deleting(&live.metadata) {
            State::Terminating
        } else if node.termination.is_some() {
            State::Breached
        } else if node.update.is_some() {
            State::Updating
        } else if status.available_replicas >= live.spec.replicas {
            State::Ready
        } else if status.available_replicas >= minimum {
            State::Available
        } else {
            worst.max(State::Starting)
        };
        if is_deleting(&live.metadata) {
            finalizers(&mut node, &live.metadata);
        } else if status.available_replicas < minimum {
            let available = status.available_replicas;
            let message = format!("its minimum: {available} of {minimum} replicas available");
            node.waits(What::Minimum, message);
        }
        node
    }

    fn group_replicas(
        &self,
        set_replica: u32,
        group: &str,
        template: Option<&Group<'a>>,
        replicas: u32,
    ) -> Vec<Node> {
        let nothing = BTreeMap::new();
        let live = self.places.members(group).unwrap_or(&nothing);
        let all: BTreeSet<u32> = (0..replicas).chain(live.keys().copied()).collect();
        let one = |replica: u32| {
            let desired = template.filter(|_| replica < replicas);
            let desired =
                desired.map(|template| self.layout.member_cliques(set_replica, template, replica));
            let desired = desired.into_iter().flatten().map(|clique| clique.name);
            let members = in_order(desired, live.get(&replica).into_iter().flatten());
            let mut node = Node::new(Kind::GroupReplica, replica.to_string(), State::Ready);
            let name = format!("{group}-{replica}");
            node.placement = self.placements.group_replica(template, &name, &members);
            summarise(&mut node, members.iter().map(|name| self.clique(name)).collect());
            node
        };
        all.into_iter().map(one).collect()
    }

    // === a clique ===

    fn clique(&self, clique_name: &str) -> Node {
        let Some(live) = self.cliques.get(clique_name).copied() else {
            return missing(Kind::PodClique, clique_name);
        };
        let status = live.status.clone().unwrap_or_default();
        let minimum = min_available(live);
        let tally = self.places.tally(clique_name);
        let mut node = Node::new(Kind::PodClique, clique_name, State::Ready);
        node.created_at = created(&live.metadata);
        let labels = live.metadata.labels.as_ref();
        let place = labels.and_then(|labels| self.layout.find_clique(clique_name, labels));
        let constraint = place.and_then(|place| place.template.topology_constraint.as_ref());
        node.placement = self.placements.clique(clique_name, constraint);
        node.ready =
            Some(Counts { ready: tally.ready, wanted: live.spec.replicas, minimum: Some(minimum) });
        node.update = status.update_progress.as_ref().and_then(|progress| {
            let current = progress.ready_pods_selected_to_update.as_ref();
            self.update(
                (&progress.update_started_at, &progress.update_ended_at),
                (status.updated_replicas, live.spec.replicas, "pods"),
                current.map(|selected| format!("pod {}", selected.current)),
            )
        });
        let breached_since = termination::clique_breached_since(live);
        node.termination = self.termination(&live.metadata, breached_since);
        let pods = self.places.pods(clique_name);
        node.children = pods.iter().map(|one| self.pod(one, Some(live))).collect();
        let shortage = if tally.created < minimum {
            Some((State::Pending, format!("{} of {minimum} pods created", tally.created)))
        } else if tally.scheduled < minimum {
            let state = if tally.gated > 0 { State::Gated } else { State::Unscheduled };
            Some((state, format!("{} of {minimum} pods scheduled", tally.scheduled)))
        } else if tally.ready < minimum {
            let failing = node.children.iter().any(|pod| pod.state == State::NotReady);
            let state = if failing { State::NotReady } else { State::Starting };
            Some((state, format!("{} of {minimum} pods ready", tally.ready)))
        } else {
            None
        };
        node.state = if is_deleting(&live.metadata) {
            State::Terminating
        } else if node.termination.is_some() {
            State::Breached
        } else if node.update.is_some() {
            State::Updating
        } else if let Some((state, _)) = &shortage {
            *state
        } else if tally.ready >= live.spec.replicas {
            State::Ready
        } else {
            State::Available
        };
        if is_deleting(&live.metadata) {
            finalizers(&mut node, &live.metadata);
        } else if let Some((_, message)) = shortage {
            node.waits(What::Minimum, format!("its minimum: {message}"));
            claims(&mut node);
        }
        errors(&mut node, &status.last_errors);
        node
    }

    fn pod(&self, one: &LivePod<'_>, clique: Option<&PodClique>) -> Node {
        let parents = clique.into_iter().flat_map(|clique| &clique.spec.starts_after);
        let parents = parents.filter_map(|parent| {
            let minimum = self.cliques.get(parent.as_str()).map_or(1, |live| min_available(live));
            let ready = self.places.tally(parent).ready;
            (ready < minimum).then(|| format!("{parent} has {ready} of {minimum} pods ready"))
        });
        pod::node(one, &self.gangs, &parents.collect::<Vec<_>>())
    }

    // === updates and terminations ===

    fn update(
        &self,
        (started, ended): (&Option<Time>, &Option<Time>),
        (updated, total, of): (i32, i32, &'static str),
        current: Option<String>,
    ) -> Option<Update> {
        let started_at = started.as_ref()?.0;
        let running = ended.is_none();
        running.then_some(Update {
            started_at: Some(started_at),
            updated,
            total,
            of,
            current,
            paused: self.paused,
        })
    }

    /// When a clique or group is terminated that has been below its minimum since a time.
    fn termination(
        &self,
        meta: &ObjectMeta,
        breached_since: Option<Timestamp>,
    ) -> Option<Termination> {
        let since = breached_since.filter(|_| !is_deleting(meta))?;
        let ends_at = termination::ends_at(since, termination::delay(self.objects.set));
        Some(Termination { breached_since: Some(since), ends_at, in_progress: false })
    }
}

/// A replica has the state of its worst child, and the earliest termination.
fn summarise(node: &mut Node, parts: Vec<Node>) {
    node.state = parts.iter().map(|part| part.state).max().unwrap_or(State::Missing);
    let ends = parts.iter().filter_map(|part| part.termination.clone());
    node.termination = ends.min_by_key(|end| (!end.in_progress, end.ends_at));
    node.children.extend(parts);
}

fn missing(kind: Kind, name: &str) -> Node {
    let mut node = Node::new(kind, name, State::Missing);
    node.waits(What::Operator, "the operator to create it");
    node
}

fn finalizers(node: &mut Node, meta: &ObjectMeta) {
    let held = meta.finalizers.iter().flatten().map(String::as_str).collect::<Vec<_>>();
    if !held.is_empty() {
        node.waits(What::Finalizers, format!("its finalizers: {}", held.join(", ")));
    }
}

/// Repeats the missing claims of the pods at their clique, each once.
fn claims(node: &mut Node) {
    let waits = node.children.iter().flat_map(|pod| &pod.waits_for);
    let claims: BTreeSet<_> =
        waits.filter(|wait| wait.what == What::Claim).map(|wait| wait.message.clone()).collect();
    for claim in claims {
        node.waits(What::Claim, claim);
    }
}

fn errors(node: &mut Node, errors: &[LastError]) {
    for error in errors {
        node.waits(What::Error, error.description.clone());
    }
}

/// Adds the conditions of the set about its scheduler and its topology.
fn complaints(node: &mut Node, conditions: &[Condition]) {
    for (type_, bad, what) in [
        (set_conditions::SCHEDULER_BACKEND_READY, FALSE, What::Scheduler),
        (set_conditions::SCHEDULER_LIMITS, TRUE, What::Scheduler),
        (set_conditions::TOPOLOGY_CONSTRAINTS, FALSE, What::Topology),
        (set_conditions::TOPOLOGY_LEVELS_UNAVAILABLE, TRUE, What::Topology),
    ] {
        let reported = condition(conditions, type_).filter(|condition| condition.status == bad);
        if let Some(Condition { reason, message, .. }) = reported {
            node.waits(what, format!("{type_}: {reason}: {message}"));
        }
    }
}

/// The desired names in their order, then the other existing ones.
fn in_order<'n>(
    desired: impl Iterator<Item = String>,
    live: impl Iterator<Item = &'n &'n str>,
) -> Vec<String> {
    let mut names: Vec<String> = desired.collect();
    let besides = live.filter(|name| !names.iter().any(|known| known == **name));
    let besides: Vec<String> = besides.map(|&name| name.to_owned()).collect();
    names.extend(besides);
    names
}

fn count(wire: i32) -> u32 {
    u32::try_from(wire).unwrap_or_default()
}
