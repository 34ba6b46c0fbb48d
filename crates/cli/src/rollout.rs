//! `grove rollout`: the updates of a set, as `kubectl rollout` has them for other kinds.

mod difference;
mod history;
mod pause;
mod status;
mod template;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use grove_api::PodCliqueSet;
use kube::Api;

use self::history::HistoryArguments;
use self::status::StatusArguments;
use self::template::UndoArguments;
use crate::cluster::{Cluster, ClusterArguments};
use crate::exit::Exit;

/// What to do about the updates of a set.
#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Wait until a set runs its current template
    ///
    /// Says how far the update is whenever that changes. Exit code 0 when the set is complete, 1 when
    /// the time is up or the set is gone.
    Status(StatusArguments),
    /// List the templates that a set has had
    ///
    /// The eleven newest are there, and older ones that something still runs. What the annotation
    /// kubernetes.io/change-cause of the set said at the time is shown next to each.
    History(HistoryArguments),
    /// Hold an update where it is
    ///
    /// Nothing more is replaced until the update is resumed. Scaling and repairs go on.
    Pause(Target),
    /// Let a paused update go on
    Resume(Target),
    /// Go back to a former template
    ///
    /// Restores pod specs, labels, annotations and the priority class of the revision. Replicas and
    /// everything else stay as they are. The set then updates as after any other change.
    Undo(UndoArguments),
    /// Replace all pods by new ones
    ///
    /// Sets the annotation kubectl.kubernetes.io/restartedAt in the template of every clique. The set then
    /// updates as after any other change of its template.
    Restart(Target),
}

/// Who changed a set, in its managed fields.
const MANAGER: &str = "grove-rollout";

/// A set in a cluster.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Name of the PodCliqueSet
    #[arg(value_name = "NAME")]
    set: String,
    #[command(flatten)]
    cluster: ClusterArguments,
}

/// Does it.
pub(crate) async fn run(command: &RolloutCommand) -> anyhow::Result<Exit> {
    match command {
        RolloutCommand::Status(arguments) => status::run(arguments).await,
        RolloutCommand::History(arguments) => history::run(arguments).await,
        RolloutCommand::Pause(target) => pause::run(target, true).await,
        RolloutCommand::Resume(target) => pause::run(target, false).await,
        RolloutCommand::Undo(arguments) => template::undo(arguments).await,
        RolloutCommand::Restart(target) => template::restart(target).await,
    }
}

/// The set as it is stored.
async fn read(cluster: &Cluster, set: &str) -> anyhow::Result<PodCliqueSet> {
    let api = Api::<PodCliqueSet>::namespaced(cluster.client.clone(), &cluster.namespace);
    let what = || format!("PodCliqueSet {}/{set}", cluster.namespace);
    let found = api.get_opt(set).await.with_context(|| format!("cannot read {}", what()))?;
    found.with_context(|| format!("{} does not exist", what()))
}
