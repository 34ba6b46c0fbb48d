//! `grove topology`: the domains of the cluster's topologies, what is free in them, and what fits.

mod fits;
mod model;
mod nodes;
mod observe;
mod render;
#[cfg(test)]
mod tests;

use clap::Args;
use serde_json::json;

use self::fits::Shape;
use self::model::Topology;
use crate::args::Output;
use crate::cluster::ConnectionArguments;
use crate::exit::Exit;

/// Which topologies to show.
#[derive(Debug, Args)]
pub(crate) struct TopologyArguments {
    /// Name of a ClusterTopologyBinding, or grove-topology. Without it: all topologies
    name: Option<String>,
    /// Show how many pods with these requests fit into one domain of each level, for example
    /// nvidia.com/gpu=8,cpu=4,memory=64Gi
    #[arg(long, value_name = "RESOURCE=QUANTITY,...")]
    fits: Option<Shape>,
    #[command(flatten)]
    connection: ConnectionArguments,
    /// Format of the output
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Shows the topologies.
pub(crate) async fn run(arguments: &TopologyArguments) -> anyhow::Result<Exit> {
    let client = arguments.connection.connect().await?;
    let observed = observe::observe(&client, arguments.name.as_deref()).await?;
    let shape = arguments.fits.as_ref();
    let nodes = nodes::with_free(observed.nodes, &observed.pods);
    let declared = observed.topologies.into_iter();
    let topologies: Vec<_> =
        declared.map(|declared| Topology::of(declared, &nodes, shape)).collect();
    match arguments.output {
        Output::Text if topologies.is_empty() => crate::note(
            "no topologies: create a ClusterTopologyBinding, or give the operator configuration \
             topologyAwareScheduling.levels\n",
        ),
        Output::Text => crate::print(&render::text(&topologies, shape))?,
        Output::Json => {
            crate::print_json(&format!("{:#}\n", json!({ "topologies": topologies })))?;
        }
    }
    Ok(Exit::Success)
}
