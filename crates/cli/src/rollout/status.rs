//! `grove rollout status`: how far an update is, until it is done.

use std::time::Duration;

use clap::{ArgAction, Args};
use grove_api::duration::{GoDuration, ParseError};
use grove_api::pod_clique_set::PodCliqueSetStatus;
use grove_core::hash::generation_hash;
use grove_core::update::{is_held_back, is_on_delete, is_paused};
use grove_runtime::process::Env;

use crate::cluster::{Asked, Cluster, SetArguments};
use crate::exit::Exit;
use crate::live::{Live, Objects, Scope};
use crate::tree::{self, Kind, Node, Update};

/// What to wait for, and how long.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    #[command(flatten)]
    sets: SetArguments,
    /// Wait until the set is complete; with --watch=false, report its state and end. With
    /// --all-namespaces nothing is waited for
    #[arg(
        long,
        short,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set
    )]
    watch: bool,
    /// How long to wait, for example 90s or 1h30m; 0s is for ever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: GoDuration = text.parse().map_err(|error: ParseError| error.to_string())?;
    parsed.to_std().ok_or_else(|| "must not be negative".to_owned())
}

/// Reports the progress of the update until it ends.
pub(super) async fn run(arguments: &StatusArguments) -> anyhow::Result<Exit> {
    let env = Env::system();
    if arguments.timeout.is_zero() {
        return follow(arguments, &env).await;
    }
    let in_time = env.clock.timeout(arguments.timeout, follow(arguments, &env)).await;
    in_time.unwrap_or_else(|| Ok(too_late(arguments.sets.name(), arguments.timeout)))
}

fn too_late(set: &str, timeout: Duration) -> Exit {
    let seconds = timeout.as_secs_f64();
    crate::note(&format!("error: PodCliqueSet {set:?} was not complete within {seconds} s\n"));
    Exit::Refused
}

async fn follow(arguments: &StatusArguments, env: &Env) -> anyhow::Result<Exit> {
    match arguments.sets.sets().await? {
        Asked::One(cluster, set) => follow_one(&cluster, &set, arguments.watch, env).await,
        Asked::All(sets) => {
            for (cluster, set) in sets {
                let parts = Live::start(&cluster, &set, Scope::Progress, env).await?;
                if let Some(snapshot) = parts.snapshot() {
                    let line = report(&snapshot.objects()).line;
                    crate::print(&format!("{}: {line}\n", cluster.namespace))?;
                }
            }
            Ok(Exit::Success)
        }
    }
}

async fn follow_one(cluster: &Cluster, set: &str, watch: bool, env: &Env) -> anyhow::Result<Exit> {
    let live = Live::start(cluster, set, Scope::Progress, env).await?;
    let mut reported = String::new();
    loop {
        let Some(snapshot) = live.snapshot() else {
            let set = format!("PodCliqueSet {}/{set}", cluster.namespace);
            let end = if reported.is_empty() { "does not exist" } else { "is gone" };
            crate::note(&format!("error: {set} {end}\n"));
            return Ok(Exit::Refused);
        };
        let Report { line, complete } = report(&snapshot.objects());
        if reported != line {
            crate::print(&format!("{line}\n"))?;
            reported = line;
        }
        if complete || !watch {
            return Ok(Exit::Success);
        }
        live.changed().await;
    }
}

/// The progress of a rollout.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    line: String,
    complete: bool,
}

fn report(objects: &Objects<'_>) -> Report {
    let set = objects.set;
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let status = set.status.clone().unwrap_or_default();
    let paused = is_paused(set);
    let Some(missing) = missing(objects, &status) else {
        let replicas = counted(set.spec.replicas, "replica");
        let held = if paused { "; it is paused, so the next change will wait" } else { "" };
        let line = format!("PodCliqueSet {name:?} successfully rolled out: {replicas}{held}");
        return Report { line, complete: true };
    };
    let error = status.last_errors.first();
    let error = error.map(|error| format!("; error: {}", error.description)).unwrap_or_default();
    let line = if paused {
        format!(
            "PodCliqueSet {name:?} is paused: {missing}; \"grove rollout resume {name}\" lets it go on{error}"
        )
    } else {
        format!("Waiting for PodCliqueSet {name:?}: {missing}{error}")
    };
    Report { line, complete: false }
}

/// What a set lacks.
fn missing(objects: &Objects<'_>, status: &PodCliqueSetStatus) -> Option<String> {
    let set = objects.set;
    if set.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    let generation = set.metadata.generation;
    if status.observed_generation < generation {
        let generation = generation.unwrap_or_default();
        return Some(format!("the operator has not seen generation {generation} yet"));
    }
    if is_held_back(set, &generation_hash(set)) {
        return Some("its template has changed".to_owned());
    }
    let (wanted, updated) = (set.spec.replicas, status.updated_replicas);
    let of_wanted = |is: i32| format!("{is} of {}", counted(wanted, "replica"));
    let tree = tree::analyse(objects);
    if tree.update.is_some() {
        let now = currently(&tree, status);
        return Some(format!("{} updated{now}", of_wanted(updated)));
    }
    if updated < wanted && status.available_replicas >= wanted {
        let how = if is_on_delete(set) {
            ", the others follow when somebody deletes their pods (updateStrategy OnDelete)"
        } else {
            ""
        };
        return Some(format!("{} updated{how}", of_wanted(updated)));
    }
    (status.available_replicas < wanted)
        .then(|| format!("{} available", of_wanted(status.available_replicas)))
}

/// The replica that is being updated, and how far its parts are.
fn currently(set: &Node, status: &PodCliqueSetStatus) -> String {
    let progress = status.update_progress.as_ref();
    let current = progress.and_then(|progress| progress.currently_updating.first());
    let Some(current) = current else { return String::new() };
    let index = current.replica_index.to_string();
    let replica = set.children.iter().find(|child| child.name == index);
    let parts = replica.into_iter().flat_map(|replica| &replica.children);
    let parts: Vec<String> =
        parts.filter_map(|part| Some(progress_of(part, part.update.as_ref()?))).collect();
    if parts.is_empty() {
        format!(", replica {index} is being updated")
    } else {
        format!(", replica {index} is being updated: {}", parts.join(", "))
    }
}

fn progress_of(part: &Node, update: &Update) -> String {
    let what = match part.kind {
        Kind::PodCliqueScalingGroup => "group",
        _ => "clique",
    };
    let Update { updated, total, of, current, .. } = update;
    let current = current.as_ref().map(|current| format!(" ({current} now)")).unwrap_or_default();
    format!("{what} {} {updated} of {total} {of}{current}", part.name)
}

fn counted(number: i32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests;
