//! `grove tree`: a set with everything below it, and what each part waits for.

mod analyse;
mod gang;
mod meta;
mod node;
mod nodes;
mod placement;
mod places;
mod pod;
mod render;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};

use anyhow::bail;
use clap::Args;
use grove_runtime::process::Env;
use jiff::Timestamp;
use serde_json::json;

use crate::args::Output;
use crate::cluster::{Asked, Cluster, SetArguments};
use crate::exit::Exit;
use crate::live::{Live, Objects, Scope, Snapshot};

pub(crate) use self::analyse::analyse;
pub(crate) use self::node::{Kind, Node, Update};
use self::nodes::Nodes;
use self::render::Room;

/// Moves to the upper left corner and empties screen and scrolled lines.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// What to show.
#[derive(Debug, Args)]
pub(crate) struct TreeArguments {
    #[command(flatten)]
    sets: SetArguments,
    /// Show it again whenever something changed, until it is gone. On a terminal in place, else one after
    /// the other
    #[arg(long, short, conflicts_with = "all_namespaces")]
    watch: bool,
    /// Format of the output; with --watch, JSON is one document per line
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Shows a set, once or for ever.
pub(crate) async fn run(arguments: &TreeArguments) -> anyhow::Result<Exit> {
    let env = Env::system();
    let screen = Screen::of(arguments);
    match arguments.sets.sets().await? {
        Asked::One(cluster, set) => follow(&cluster, &set, screen, &env).await,
        Asked::All(sets) => {
            let mut nodes = Nodes::default();
            for (cluster, set) in sets {
                let live = Live::start(&cluster, &set, Scope::Everything, &env).await?;
                // A set that is gone by now is none of them.
                if let Some(snapshot) = live.snapshot() {
                    let tree = observed(&cluster, &snapshot, &mut nodes).await;
                    screen.title(&cluster.namespace)?;
                    screen.show(&tree, &cluster.namespace, env.clock.wall())?;
                }
            }
            Ok(Exit::Success)
        }
    }
}

/// Shows one set, and with `--watch` again whenever it changed.
async fn follow(cluster: &Cluster, set: &str, screen: Screen, env: &Env) -> anyhow::Result<Exit> {
    let live = Live::start(cluster, set, Scope::Everything, env).await?;
    let set = format!("PodCliqueSet {}/{set}", cluster.namespace);
    let (mut shown, mut nodes) = (None, Nodes::default());
    loop {
        let Some(snapshot) = live.snapshot() else {
            if shown.is_some() {
                crate::note(&format!("{set} is gone\n"));
                return Ok(Exit::Refused);
            }
            bail!("{set} does not exist");
        };
        let tree = observed(cluster, &snapshot, &mut nodes).await;
        if shown.as_ref() != Some(&tree) {
            screen.show(&tree, &cluster.namespace, env.clock.wall())?;
        }
        if !screen.watch {
            return Ok(Exit::Success);
        }
        shown = Some(tree);
        live.changed().await;
    }
}

/// The tree of a set, with the labels of its nodes if they matter.
async fn observed(cluster: &Cluster, snapshot: &Snapshot, nodes: &mut Nodes) -> Node {
    let objects = snapshot.objects();
    nodes.read(&cluster.client, &placement::nodes(&objects)).await;
    analyse(&Objects { nodes: nodes.labels(), ..objects })
}

/// Where and how a tree is shown.
#[derive(Clone, Copy, Debug)]
struct Screen {
    output: Output,
    watch: bool,
    terminal: bool,
}

impl Screen {
    fn of(arguments: &TreeArguments) -> Self {
        let terminal = io::stdout().is_terminal();
        Self { output: arguments.output, watch: arguments.watch, terminal }
    }

    /// The line above the tree of one of several sets.
    fn title(self, namespace: &str) -> anyhow::Result<()> {
        match self.output {
            Output::Text => crate::print(&format!("NAMESPACE {namespace}\n")),
            Output::Json => Ok(()),
        }
    }

    fn show(self, tree: &Node, namespace: &str, now: Timestamp) -> anyhow::Result<()> {
        let in_place = self.watch && self.terminal;
        match self.output {
            Output::Text if in_place => {
                crate::print_raw(CLEAR)?;
                crate::print(&render::text(tree, now, self.room()))
            }
            Output::Text => {
                let room = Room { height: None, ..self.room() };
                crate::print(&render::text(tree, now, room))
            }
            Output::Json => {
                let document = json!({ "namespace": namespace, "time": now, "set": tree });
                let lines = !self.watch;
                let text = if lines { format!("{document:#}\n") } else { format!("{document}\n") };
                crate::print_json(&text)
            }
        }
    }

    /// A terminal has an end on the right, and below when the same place is used again.
    fn room(self) -> Room {
        let size = terminal_size::terminal_size().filter(|_| self.terminal);
        // The line after the last one is where the cursor rests.
        Room {
            width: size.map(|(width, _)| usize::from(width.0)),
            height: size.map(|(_, height)| usize::from(height.0).saturating_sub(1)),
        }
    }
}
