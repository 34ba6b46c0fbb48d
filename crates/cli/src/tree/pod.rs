//! One pod, and the first thing it waits for: gang, scheduler, parents, containers, in this order.

use grove_api::init_container;
use grove_core::pods::{ObservedPod, Phase};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodSchedulingGate};

use super::gang::Gangs;
use super::meta::name;
use super::node::{Kind, Node, State, What};

/// A pod, and the facts that the rules need.
#[derive(Debug)]
pub(super) struct LivePod<'a> {
    pub(super) pod: &'a Pod,
    pub(super) observed: ObservedPod,
}

impl<'a> From<&'a Pod> for LivePod<'a> {
    fn from(pod: &'a Pod) -> Self {
        Self { pod, observed: ObservedPod::from(pod) }
    }
}

impl LivePod<'_> {
    /// Whether its containers have ended for good.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.observed.phase, Phase::Succeeded | Phase::Failed)
    }
}

/// How many pods of a clique have come how far. The status of the clique reports the same a little later.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) created: i32,
    pub(super) gated: i32,
    pub(super) scheduled: i32,
    pub(super) ready: i32,
}

impl Tally {
    /// Counts the pods that are not terminating.
    pub(super) fn of(pods: &[&LivePod<'_>]) -> Self {
        let staying = || pods.iter().filter(|pod| !pod.observed.deleting);
        let count = |counts: fn(&LivePod<'_>) -> bool| {
            let number = staying().filter(|pod| counts(pod)).count();
            i32::try_from(number).unwrap_or(i32::MAX)
        };
        Self {
            created: count(|_| true),
            gated: count(|pod| !gates(pod.pod).is_empty()),
            scheduled: count(|pod| pod.observed.scheduled),
            ready: count(|pod| pod.observed.ready),
        }
    }
}

/// The scheduling gates of a pod, ours and those of others.
fn gates(pod: &Pod) -> &[PodSchedulingGate] {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_deref());
    gates.unwrap_or_default()
}

/// The node of a pod. `parents` describes the cliques that it waits for.
pub(super) fn node(live: &LivePod<'_>, gangs: &Gangs<'_>, parents: &[String]) -> Node {
    let mut node = Node::new(Kind::Pod, name(&live.pod.metadata), State::Ready);
    node.created_at = live.observed.created;
    let (state, wait) = state(live, gangs, parents);
    node.state = state;
    if let Some((what, message)) = wait {
        node.waits(what, message);
    }
    node
}

type Finding = (State, Option<(What, String)>);

/// Reason of the condition of a pod with scheduling gates.
const GATED: &str = "SchedulingGated";

/// The state of a pod, and what it waits for.
fn state(live: &LivePod<'_>, gangs: &Gangs<'_>, parents: &[String]) -> Finding {
    let LivePod { pod, observed } = live;
    if observed.deleting {
        return (State::Terminating, Some((What::Node, terminating(pod))));
    }
    match observed.phase {
        Phase::Succeeded => return (State::Succeeded, None),
        Phase::Failed => {
            let status = pod.status.as_ref();
            let why = status.and_then(|s| s.message.clone().or_else(|| s.reason.clone()));
            return (State::Failed, why.map(|why| (What::Container, why)));
        }
        _ => {}
    }
    if let Some(wait) = gate(live, gangs) {
        return (State::Gated, Some(wait));
    }
    if observed.ready {
        return (State::Ready, None);
    }
    if !observed.scheduled {
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

fn terminating(pod: &Pod) -> String {
    let held = pod.metadata.finalizers.iter().flatten().map(String::as_str).collect::<Vec<_>>();
    if held.is_empty() {
        "its containers to end".to_owned()
    } else {
        format!("its containers to end and its finalizers: {}", held.join(", "))
    }
}

/// Why a pod is gated.
fn gate(live: &LivePod<'_>, gangs: &Gangs<'_>) -> Option<(What, String)> {
    if live.observed.has_gate {
        return Some(match &live.observed.gang {
            Some(gang) => match gangs.hold(gang, live) {
                Some(hold) => (hold.what, hold.message),
                None => (What::Operator, "the operator to lift its gate".to_owned()),
            },
            None => (What::Operator, "the operator to say which PodGang it is in".to_owned()),
        });
    }
    let others: Vec<_> = gates(live.pod).iter().map(|gate| gate.name.as_str()).collect();
    (!others.is_empty())
        .then(|| (What::User, format!("the scheduling gates of others: {}", others.join(", "))))
}

/// The claims that keep the scheduler from a pod without gates.
///
/// The scheduler does not try a pod before its claims exist, so the condition still has the reason from the time
/// when the pod had a gate.
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
    // The condition of a pod without gates may be outdated.
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
    let state = why_not_running(status).unwrap_or_else(|| "is running".to_owned());
    Some((What::Container, format!("init container {}: {state}", status.name)))
}

/// An init container is done when it ended well, or when it is one that keeps running and has started.
fn is_done(status: &ContainerStatus) -> bool {
    let ended = status.state.as_ref().and_then(|state| state.terminated.as_ref());
    ended.is_some_and(|ended| ended.exit_code == 0) || status.started == Some(true)
}

fn containers(pod: &Pod) -> Finding {
    let status = pod.status.as_ref();
    let statuses = status.and_then(|status| status.container_statuses.as_deref());
    let statuses = statuses.unwrap_or_default();
    if let Some(status) = statuses.iter().find(|status| !status.ready) {
        let running = status.state.as_ref().is_some_and(|state| state.running.is_some());
        let starts = running && status.started != Some(true);
        let why = why_not_running(status);
        let before = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let fresh = status.restart_count == 0 && before.is_none();
        let waits = matches!(why.as_deref(), Some("ContainerCreating" | "PodInitializing"));
        let state = if fresh && (starts || waits) { State::Starting } else { State::NotReady };
        let why = why.unwrap_or_else(|| {
            if starts { "has not started".to_owned() } else { "is not ready".to_owned() }
        });
        return (state, Some((What::Container, format!("container {}: {why}", status.name))));
    }
    if statuses.is_empty() {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.unwrap_or_default();
        return (State::Starting, Some((What::Node, format!("node {node} to start it"))));
    }
    let why = condition(pod, "Ready").and_then(|ready| ready.message.clone());
    let why = why.unwrap_or_else(|| "the condition Ready".to_owned());
    (State::NotReady, Some((What::Container, why)))
}

/// Why a container does not run, if it does not.
fn why_not_running(status: &ContainerStatus) -> Option<String> {
    let state = status.state.as_ref()?;
    let joined = |reason: Option<&str>, message: Option<&str>| {
        let parts = [reason, message].into_iter().flatten().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(": ")
    };
    if let Some(waiting) = &state.waiting {
        return Some(joined(waiting.reason.as_deref(), waiting.message.as_deref()));
    }
    let ended = state.terminated.as_ref()?;
    let why = joined(ended.reason.as_deref(), ended.message.as_deref());
    Some(format!("ended with exit code {} ({why})", ended.exit_code))
}

fn condition<'p>(pod: &'p Pod, type_: &str) -> Option<&'p PodCondition> {
    let mut conditions = pod.status.as_ref()?.conditions.as_deref()?.iter();
    conditions.find(|condition| condition.type_ == type_)
}
