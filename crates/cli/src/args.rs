//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::backend_check::CheckArguments;
use crate::completion::Shell;
use crate::exit;
use crate::operator::OperatorArguments;
use crate::rollout::RolloutCommand;
use crate::topology::TopologyArguments;
use crate::tree::TreeArguments;
use crate::validate::ValidateArguments;

/// Gang scheduling, scaling and updates of multi-part workloads on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "grove", version, after_help = exit::HELP, max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the version of grove and of the APIs it serves
    Version {
        /// Format of the output
        #[arg(long, short, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Print the custom resource definitions (CRDs)
    ///
    /// Install or upgrade them with:
    ///
    ///     grove crds | kubectl apply --server-side -f -
    #[command(verbatim_doc_comment)]
    Crds {
        /// Write one file per definition into this directory instead
        #[arg(long, value_name = "DIR")]
        output_dir: Option<PathBuf>,
    },
    /// Run the operator
    ///
    /// It turns every PodCliqueSet into cliques, scaling groups, gangs and pods, keeps them as the set
    /// says, and checks sets before they are stored. Of several replicas one leads; all of them
    /// answer webhooks.
    Operator(OperatorArguments),
    /// Compare the schedulers that a configuration makes available
    ///
    /// One line per scheduler: what it is told about a gang and what it enforces on the cluster that
    /// KUBECONFIG names, then the kinds it needs and whether the cluster serves them.
    Backends {
        /// Operator configuration with the scheduler profiles
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Format of the output
        #[arg(long, short, value_enum, default_value_t = Output::Text)]
        output: Output,
        /// End with exit code 1 when the cluster serves no kind of a scheduler, or a scheduler behind an
        /// endpoint does not answer
        #[arg(long)]
        check: bool,
    },
    /// Show a PodCliqueSet with everything below it, and what each part waits for
    ///
    /// Replicas, scaling groups, cliques, gangs and pods, each with its state and age, and whatever keeps
    /// it from being complete: its gang, the scheduler, cliques that start first, a container. An update
    /// or a gang termination under way is shown where it happens. Parts with a topology constraint show it,
    /// the domains that their pods are in, and whether a required constraint is kept.
    Tree(TreeArguments),
    /// Show the domains of topologies, what is free in them, and how many pods fit
    ///
    /// For the topology that the operator manages and for every ClusterTopologyBinding: the domains by the
    /// labels of the nodes, with their nodes and resources. Free is what nodes can allocate minus the
    /// requests of pods; nothing is free on nodes that are not ready or unschedulable. Taints, affinities
    /// and resource claims are not considered.
    Topology(TopologyArguments),
    /// Follow, list, pause, resume, undo or restart the updates of a PodCliqueSet
    #[command(subcommand)]
    Rollout(RolloutCommand),
    /// Print the script that completes the command line in a shell
    ///
    /// For bash, with the package bash-completion:
    ///
    ///     grove completion bash > ~/.local/share/bash-completion/completions/grove
    #[command(verbatim_doc_comment)]
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Work with a scheduler backend that is a program of its own
    #[command(subcommand)]
    Backend(BackendCommand),
    /// Check PodCliqueSet manifests as the cluster would
    ///
    /// Every PodCliqueSet gets its defaults and is checked against the schema and the rules of the
    /// admission webhook, without a cluster. Unknown fields and duplicate keys are errors, as they are for
    /// kubectl apply --validate=strict. Each finding is one line on standard output:
    ///
    ///     FILE:LINE: error: PodCliqueSet NAMESPACE/NAME: PATH: what is wrong
    ///     FILE:LINE: warning: PodCliqueSet NAMESPACE/NAME: PATH: what to know
    ///
    /// LINE is that of the nearest key the file has. Other kinds of Grove are checked against their
    /// schemas, topologies against the rules of their webhook as well. Kinds of other projects are skipped;
    /// standard error names them and ends with a summary. Rules of a scheduler backend and the names of
    /// priority classes need the cluster and are not checked.
    ///
    /// Topology constraints are checked against the topologies of --topology, of the manifests themselves
    /// and, with --live, of the cluster. Standard error names the sets whose topology is not known.
    ///
    /// Exit code 0 without errors (warnings may be there), 1 with errors or without any object, 2 when the
    /// configuration file cannot be used, 6 when a manifest or the cluster cannot be read.
    #[command(verbatim_doc_comment)]
    Validate(ValidateArguments),
}

/// What to do with a scheduler backend.
#[derive(Debug, Subcommand)]
pub(crate) enum BackendCommand {
    /// Take a scheduler backend through the contract and report what is missing
    ///
    /// The program at URL is asked everything that the operator asks: in order, twice, late and
    /// together. It is asked about objects that are made up; nothing is written to a cluster. Each
    /// check is one line on standard output:
    ///
    ///     ok      what holds
    ///     FAILED  what does not: sent ...; came ...; wanted ...
    ///
    /// Exit code 0 when everything holds, 1 when something does not, 2 when the command line or a file it
    /// names cannot be used.
    #[command(verbatim_doc_comment)]
    Check(CheckArguments),
}

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For humans
    Text,
    /// For programs
    Json,
}
