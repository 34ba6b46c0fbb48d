//! One pod, and the first thing it waits for: gang, scheduler, parents, containers, in this order.

use grove_api::{finalizers, init_container, labels};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

use super::gang::{Gangs, Hold};
use super::meta::{created, is_deleting, label, name};
use super::node::{Kind, Node, State, What};

/// How many pods of a clique are how far. The status of the clique says the same, a little later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) created: i32,
    pub(super) gated: i32,
    pub(super) scheduled: i32,
    pub(super) ready: i32,
}

impl Tally {
    /// Counts the pods that stay.
    pub(super) fn of(pods: &[&Pod]) -> Self {
        let staying = || pods.iter().filter(|pod| !is_deleting(&pod.metadata));
        let count = |counts: fn(&Pod) -> bool| {
            let number = staying().filter(|pod| counts(pod)).count();
            i32::try_from(number).unwrap_or(i32::MAX)
        };
        Self {
            created: count(|_| true),
            gated: count(is_gated),
            scheduled: count(|pod| is(pod, "PodScheduled")),
            ready: count(|pod| is(pod, "Ready")),
        }
    }
}

/// Whether somebody keeps the scheduler from a pod.
pub(super) fn is_gated(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.is_some_and(|gates| !gates.is_empty())
}

pub(super) fn is_on_node(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

/// The node of a pod. `parents` are the cliques that have to be ready before it starts and are not.
pub(super) fn node(pod: &Pod, gangs: &Gangs<'_>, parents: &[String]) -> Node {
    let mut node = Node::new(Kind::Pod, name(&pod.metadata), State::Ready);
    node.created_at = created(&pod.metadata);
    let (state, wait) = judge(pod, gangs, parents);
    node.state = state;
    if let Some((what, message)) = wait {
        node.waits(what, message);
    }
    node
}

/// Reason of the condition of a pod with scheduling gates.
const GATED: &str = "SchedulingGated";

type Judgement = (State, Option<(What, String)>);

fn judge(pod: &Pod, gangs: &Gangs<'_>, parents: &[String]) -> Judgement {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if is_deleting(&pod.metadata) {
        return (State::Terminating, Some((What::Node, leaving(pod))));
    }
    match phase {
        "Succeeded" => return (State::Succeeded, None),
        "Failed" => {
            let said = status.and_then(|s| s.message.clone().or_else(|| s.reason.clone()));
            return (State::Failed, said.map(|said| (What::Container, said)));
        }
        _ => {}
    }
    if let Some(wait) = gate(pod, gangs) {
        return (State::Gated, Some(wait));
    }
    if is(pod, "Ready") {
        return (State::Ready, None);
    }
    if !is(pod, "PodScheduled") {
        if let Some(claim) = missing_claim(pod) {
            return (State::Unscheduled, Some((What::Claim, claim)));
        }
        return (State::Unscheduled, Some((What::Scheduler, unscheduled(pod))));
    }
    if let Some(wait) = init(pod, parents) {
        return (State::Starting, Some(wait));
    }
    containers(pod)
}

fn leaving(pod: &Pod) -> String {
    let held = pod.metadata.finalizers.iter().flatten().map(String::as_str).collect::<Vec<_>>();
    if held.is_empty() {
        "its containers to end".to_owned()
    } else {
        format!("its containers to end and its finalizers: {}", held.join(", "))
    }
}

/// Why the scheduler is not asked yet.
fn gate(pod: &Pod, gangs: &Gangs<'_>) -> Option<(What, String)> {
    let gates = pod.spec.as_ref()?.scheduling_gates.as_deref().unwrap_or_default();
    let (ours, others): (Vec<_>, Vec<_>) = gates
        .iter()
        .map(|gate| gate.name.as_str())
        .partition(|&gate| gate == finalizers::SCHEDULING_GATE);
    if ours.is_empty() {
        let held = others.join(", ");
        return (!held.is_empty())
            .then(|| (What::User, format!("the scheduling gates of others: {held}")));
    }
    let Some(gang) = label(&pod.metadata, labels::POD_GANG) else {
        return Some((What::Operator, "the operator to say which PodGang it is in".to_owned()));
    };
    if let Some(Hold { what, message, .. }) = gangs.hold(gang) {
        return Some((what, message));
    }
    let groups = gangs.get(gang).into_iter().flat_map(|gang| &gang.spec.pod_groups);
    let mut listed = groups.flat_map(|group| &group.pod_references);
    if !listed.any(|reference| reference.name == name(&pod.metadata)) {
        return Some((What::Gang, format!("PodGang {gang} to list it")));
    }
    Some((What::Operator, "the operator to lift its gate".to_owned()))
}

/// The claims that keep the scheduler from a pod without gates.
///
/// The scheduler does not look at a pod before its claims exist, so the condition still has the reason from
/// the time when the pod had a gate.
fn missing_claim(pod: &Pod) -> Option<String> {
    if condition(pod, "PodScheduled")?.reason.as_deref() != Some(GATED) {
        return None;
    }
    let claims = pod.spec.as_ref()?.resource_claims.as_deref().unwrap_or_default();
    let status = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_deref());
    let made = |name: &str| status.unwrap_or_default().iter().any(|status| status.name == name);
    let from_templates = claims.iter().filter(|claim| !made(&claim.name)).filter_map(|claim| {
        let template = claim.resource_claim_template_name.as_ref()?;
        Some(format!("ResourceClaimTemplate {template} of claim {:?}", claim.name))
    });
    let mut missing: Vec<_> = from_templates.collect();
    if missing.is_empty() {
        let named = claims.iter().filter_map(|claim| claim.resource_claim_name.as_ref());
        missing = named.map(|claim| format!("ResourceClaim {claim}")).collect();
    }
    (!missing.is_empty()).then(|| format!("{} to exist", missing.join(", ")))
}

fn unscheduled(pod: &Pod) -> String {
    let scheduler = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
    let scheduler = scheduler.unwrap_or("default-scheduler");
    // A pod without gates is not gated any more, whatever the condition says.
    let report = condition(pod, "PodScheduled");
    let report = report.filter(|one| one.reason.as_deref() != Some(GATED));
    let message = report.and_then(|one| one.message.clone().or_else(|| one.reason.clone()));
    match message {
        Some(message) => format!("scheduler {scheduler}: {message}"),
        None => format!("scheduler {scheduler}, which has not looked at it yet"),
    }
}

/// The first init container that is not done.
fn init(pod: &Pod, parents: &[String]) -> Option<(What, String)> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_deref().unwrap_or_default();
    let status = statuses.iter().find(|status| !is_done(status))?;
    let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
    if status.name == init_container::NAME && runs {
        let message = if parents.is_empty() {
            "its parents, which are ready now".to_owned()
        } else {
            format!("its parents: {}", parents.join(", "))
        };
        return Some((What::Parents, message));
    }
    let state = trouble(status).unwrap_or_else(|| "is running".to_owned());
    Some((What::Container, format!("init container {}: {state}", status.name)))
}

/// An init container is done when it ended well, or when it is one that keeps running and has started.
fn is_done(status: &ContainerStatus) -> bool {
    let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
    ended.is_some_and(|ended| ended.exit_code == 0) || status.started == Some(true)
}

fn containers(pod: &Pod) -> Judgement {
    let status = pod.status.as_ref();
    let statuses = status.and_then(|status| status.container_statuses.as_deref());
    let statuses = statuses.unwrap_or_default();
    if let Some(status) = statuses.iter().find(|status| !status.ready) {
        let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
        let starts = running && status.started != Some(true);
        let told = trouble(status);
        let before = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let fresh = status.restart_count == 0 && before.is_none();
        let waits = matches!(told.as_deref(), Some("ContainerCreating" | "PodInitializing"));
        let state = if fresh && (starts || waits) { State::Starting } else { State::NotReady };
        let told = told.unwrap_or_else(|| {
            if starts { "has not started".to_owned() } else { "is not ready".to_owned() }
        });
        return (state, Some((What::Container, format!("container {}: {told}", status.name))));
    }
    if statuses.is_empty() {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.unwrap_or_default();
        return (State::Starting, Some((What::Node, format!("node {node} to start it"))));
    }
    let told = condition(pod, "Ready").and_then(|told| told.message.clone());
    let told = told.unwrap_or_else(|| "the condition Ready".to_owned());
    (State::NotReady, Some((What::Container, told)))
}

/// Why a container does not run, if it does not.
fn trouble(status: &ContainerStatus) -> Option<String> {
    let state = status.state.as_ref()?;
    let said = |reason: Option<&str>, message: Option<&str>| {
        let parts = [reason, message].into_iter().flatten().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(": ")
    };
    if let Some(waiting) = &state.waiting {
        return Some(said(waiting.reason.as_deref(), waiting.message.as_deref()));
    }
    let ended = state.terminated.as_ref()?;
    let why = said(ended.reason.as_deref(), ended.message.as_deref());
    Some(format!("ended with exit code {} ({why})", ended.exit_code))
}

fn condition<'p>(pod: &'p Pod, type_: &str) -> Option<&'p PodCondition> {
    let mut conditions = pod.status.as_ref()?.conditions.as_deref()?.iter();
    conditions.find(|condition| condition.type_ == type_)
}

fn is(pod: &Pod, type_: &str) -> bool {
    condition(pod, type_).is_some_and(|condition| condition.status == "True")
}
