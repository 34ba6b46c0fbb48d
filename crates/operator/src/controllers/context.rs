//! The context that all reconciles share.

use std::time::Duration;

use grove_backends::Registry;
use grove_runtime::controller::Due;
use grove_runtime::events::Recorder;
use grove_runtime::process::Env;
use grove_runtime::report::{Pace, Reporter};
use grove_runtime::write::Writer;
use jiff::Timestamp;
use kube::Client;

use super::problems::Problems;
use super::refusals::Refusals;
use crate::caches::Stores;

/// What a reconcile works with.
pub(crate) struct Context {
    pub(crate) stores: Stores,
    pub(crate) writer: Writer,
    /// For the few objects that are read once, when a write was refused because of them.
    pub(crate) client: Client,
    pub(crate) events: Recorder,
    pub(crate) env: Env,
    /// The active scheduler backends.
    pub(crate) backends: Registry,
    /// Image of the start-order container, with tag; absent when the operator was started without one.
    pub(crate) init_image: Option<String>,
    /// Failures of the replicas and gangs of sets, which the sets report.
    pub(crate) problems: Problems,
    /// PodCliques whose pods the API server refused.
    pub(crate) refusals: Refusals,
    /// Sets whose new template the API server would refuse.
    pub(crate) refused_updates: Refusals,
    /// Writes the statuses of all kinds.
    pub(crate) reporter: Reporter,
    /// How often the status of a set is computed.
    pub(crate) pace_of_sets: Pace,
}

impl Context {
    /// The earlier of a due time and a deadline.
    pub(crate) fn earlier(&self, due: Due, deadline: Option<Timestamp>) -> Due {
        let (now, wall) = (self.env.clock.now(), self.env.clock.wall());
        let wait =
            |end: Timestamp| Duration::try_from(end.duration_since(wall)).unwrap_or_default();
        let deadline = deadline.map(|end| now + wait(end));
        due.into_iter().chain(deadline).min()
    }
}
