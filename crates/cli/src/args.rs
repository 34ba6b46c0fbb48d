//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::exit;

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
}

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For humans
    Text,
    /// For programs
    Json,
}
