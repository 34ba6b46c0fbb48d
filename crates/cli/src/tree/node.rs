//! What a tree consists of. Serialised, this is the document of `grove tree --output json`: its keys and the
//! names of kinds, states and waits are an interface.

use jiff::Timestamp;
use serde::Serialize;

/// A node of the tree with its children.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Name of the object, or index of the replica.
    pub(crate) name: String,
    pub(crate) state: State,
    /// How much of it is usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<Counts>,
    /// When the object was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_at: Option<Timestamp>,
    /// What keeps it from being complete.
    pub(crate) waits_for: Vec<Wait>,
    /// The update under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<Update>,
    /// The end that is near or under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) termination: Option<Termination>,
    /// Where its topology constraint puts it, and where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) placement: Option<Placement>,
    pub(crate) children: Vec<Self>,
}

impl Node {
    pub(crate) fn new(kind: Kind, name: impl Into<String>, state: State) -> Self {
        Self {
            kind,
            name: name.into(),
            state,
            ready: None,
            created_at: None,
            waits_for: Vec::new(),
            update: None,
            termination: None,
            placement: None,
            children: Vec::new(),
        }
    }

    pub(crate) fn waits(&mut self, what: What, message: impl Into<String>) {
        self.waits_for.push(Wait { what, message: message.into() });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Kind {
    PodCliqueSet,
    SetReplica,
    PodGang,
    PodCliqueScalingGroup,
    GroupReplica,
    PodClique,
    Pod,
}

/// How it is. The later in the list, the more it needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum State {
    /// All of it can be used.
    Ready,
    /// Its containers ended well.
    Succeeded,
    /// Enough of it can be used.
    Available,
    /// It is being replaced by the current template.
    Updating,
    /// Scheduled, and not usable yet.
    Starting,
    /// It runs and cannot be used.
    NotReady,
    /// The scheduler has not placed it.
    Unscheduled,
    /// Not given to the scheduler yet.
    Gated,
    /// Some of its parts do not exist yet.
    Pending,
    /// It should exist and does not.
    Missing,
    /// Its containers ended badly.
    Failed,
    /// It could be used and has too little left.
    Breached,
    /// It is being deleted.
    Terminating,
}

/// How much of something is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub(crate) ready: i32,
    pub(crate) wanted: i32,
    /// How much is enough, where that may be less than all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) minimum: Option<i32>,
}

/// Something that has to happen first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Wait {
    #[serde(rename = "for")]
    pub(crate) what: What,
    /// The reason in full, for people.
    pub(crate) message: String,
}

/// Who or what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum What {
    /// The operator, which has work to do.
    Operator,
    /// A user or administrator who fixes an error that the operator reports.
    Error,
    /// The scheduler, or the resources that it lacks.
    Scheduler,
    /// A resource claim that does not exist.
    Claim,
    /// A topology that has the levels.
    Topology,
    /// The gang.
    Gang,
    /// The gang that comes first.
    BaseGang,
    /// Cliques that start first.
    Parents,
    /// The node.
    Node,
    /// A container.
    Container,
    /// As many pods or replicas as are enough.
    Minimum,
    /// The user.
    User,
    /// The controllers that hold a finalizer.
    Finalizers,
}

/// An update under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Update {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) updated: i32,
    pub(crate) total: i32,
    /// What `updated` and `total` count.
    pub(crate) of: &'static str,
    /// What is being replaced now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// Whether the user paused it.
    pub(crate) paused: bool,
}

/// The end of a replica that lacks its minimum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Termination {
    /// Since when the minimum is lacking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) breached_since: Option<Timestamp>,
    /// When it is terminated unless it recovers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ends_at: Option<Timestamp>,
    /// Whether it has been terminated and is on its way back.
    pub(crate) in_progress: bool,
}

/// A topology constraint, and the domains that the pods are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Placement {
    /// The ClusterTopologyBinding, if the set names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) topology: Option<String>,
    /// The level that all pods have to share a domain of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) required: Option<String>,
    /// The level that all pods should share a domain of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preferred: Option<String>,
    /// Whether the gang lacks what is required: no topology has the level, or the feature is off.
    pub(crate) dropped: bool,
    /// Domains of the required level, or else of the preferred one.
    pub(crate) domains: Vec<String>,
    /// Pods on nodes that are in no domain of the level.
    pub(crate) pods_without_domain: Vec<String>,
    /// Whether the pods are not in one domain of the required level.
    pub(crate) violated: bool,
}
