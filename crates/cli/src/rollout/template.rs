//! Changes of the template of a set: `grove rollout restart` and `grove rollout undo`.

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use grove_api::PodCliqueSet;
use grove_core::update::is_paused;
use grove_runtime::fence::Fence;
use grove_runtime::lease::Leadership;
use grove_runtime::process::Env;
use grove_runtime::resource::Resource;
use grove_runtime::view::Meta;
use grove_runtime::write::{Precondition, Verb, Write, Writer};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::history::{self, History, Revision};
use super::{MANAGER, Target};
use crate::cluster::{Cluster, ClusterArguments};
use crate::exit::Exit;

/// When a user last asked for new pods. The key is that of kubectl.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// Which template to go back to.
#[derive(Debug, Args)]
pub(crate) struct UndoArguments {
    /// Name of the PodCliqueSet
    #[arg(value_name = "NAME")]
    set: String,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// The revision to go back to, as grove rollout history shows it; 0 is the one before the current
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    to_revision: i64,
}

/// Replaces all pods of a set by new ones of the same template.
pub(super) async fn restart(target: &Target) -> anyhow::Result<Exit> {
    let cluster = target.cluster.connect().await?;
    let set = super::read(&cluster, &target.set).await?;
    refuse_paused(&set)?;
    let env = Env::system();
    let patch = restarted(&set, env.clock.wall());
    write(cluster, &set, patch, "the user restarts the pods", &env).await?;
    crate::print(&format!("PodCliqueSet {:?} restarted\n", target.set))?;
    Ok(Exit::Success)
}

/// Restores a former template of a set.
pub(super) async fn undo(arguments: &UndoArguments) -> anyhow::Result<Exit> {
    let cluster = arguments.cluster.connect().await?;
    let set = super::read(&cluster, &arguments.set).await?;
    refuse_paused(&set)?;
    let history = History::of(&set, history::list(&cluster, &arguments.set).await?);
    let revision = history.target(arguments.to_revision)?;
    let name = &arguments.set;
    let patch = restored(&set, revision)?;
    if patch.is_empty() {
        let number = revision.number;
        let text = format!("PodCliqueSet {name:?} has the template of revision {number} already\n");
        crate::print(&text)?;
        return Ok(Exit::Success);
    }
    let reason = "the user goes back to a former template";
    write(cluster, &set, patch, reason, &Env::system()).await?;
    crate::print(&format!("PodCliqueSet {name:?} rolled back to revision {}\n", revision.number))?;
    Ok(Exit::Success)
}

/// An update that is held would do nothing, and be forgotten.
fn refuse_paused(set: &PodCliqueSet) -> anyhow::Result<()> {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    ensure!(
        !is_paused(set),
        "PodCliqueSet {name:?} is paused: run \"grove rollout resume {name}\" first"
    );
    Ok(())
}

async fn write(
    cluster: Cluster,
    set: &PodCliqueSet,
    operations: Vec<Value>,
    reason: &'static str,
    env: &Env,
) -> anyhow::Result<()> {
    let meta = Meta::from(&set.metadata);
    let patch = serde_json::from_value(Value::Array(operations));
    let patch = patch.context("the patch of the template is no JSON patch")?;
    let only_if = Precondition::uid(&meta.uid);
    let write = Write {
        resource: Resource::of::<PodCliqueSet>(),
        verb: Verb::Json { patch, only_if, subresource: None },
        key: meta.key,
        reason,
    };
    let writer = Writer::new(cluster.client, env, Leadership::without_election(), MANAGER);
    writer.execute(&Fence::default(), &write).await.context("nothing was changed")?;
    Ok(())
}

/// The operations that give every clique template the time of the restart.
fn restarted(set: &PodCliqueSet, now: Timestamp) -> Vec<Value> {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut operations = Vec::new();
    for (index, clique) in set.spec.template.cliques.iter().enumerate() {
        operations.push(is_clique(index, &clique.name));
        let mut annotations = clique.annotations.clone();
        annotations.insert(RESTARTED_AT.to_owned(), now.clone());
        operations.push(put(&format!("{}/annotations", path(index)), &json!(annotations)));
    }
    operations
}

/// The operations that restore a template; none when the set has it already.
fn restored(set: &PodCliqueSet, revision: &Revision) -> anyhow::Result<Vec<Value>> {
    let template = &set.spec.template;
    let mut operations = Vec::new();
    let former = revision.template["cliques"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = |found: &[&str]| found.join(", ");
    let now: Vec<_> = template.cliques.iter().map(|clique| clique.name.as_str()).collect();
    let then: Vec<_> = former.iter().filter_map(|clique| clique["name"].as_str()).collect();
    if now.len() != then.len() || !now.iter().all(|name| then.contains(name)) {
        bail!(
            "revision {} has the cliques {}, the set has {}: cliques cannot be added or removed",
            revision.number,
            names(&then),
            names(&now)
        );
    }
    for (index, clique) in template.cliques.iter().enumerate() {
        let Some(former) = former.iter().find(|one| one["name"] == clique.name) else { continue };
        let first = operations.len();
        for (key, current) in
            [("labels", json!(clique.labels)), ("annotations", json!(clique.annotations))]
        {
            let wanted = former.get(key).cloned().unwrap_or_else(|| json!({}));
            if wanted != current {
                operations.push(put(&format!("{}/{key}", path(index)), &wanted));
            }
        }
        let pods = former["spec"]["podSpec"].clone();
        if pods != json!(clique.spec.pod_spec) {
            operations.push(put(&format!("{}/spec/podSpec", path(index)), &pods));
        }
        if operations.len() > first {
            operations.insert(first, is_clique(index, &clique.name));
        }
    }
    let class = revision.template["priorityClassName"].as_str().unwrap_or_default();
    if class != template.priority_class_name.as_deref().unwrap_or_default() {
        operations.push(put("/spec/template/priorityClassName", &json!(class)));
    }
    Ok(operations)
}

fn path(index: usize) -> String {
    format!("/spec/template/cliques/{index}")
}

/// Fails the patch when another clique has this place by now.
fn is_clique(index: usize, name: &str) -> Value {
    json!({ "op": "test", "path": format!("{}/name", path(index)), "value": name })
}

/// Sets a field, whether it exists or not.
fn put(path: &str, value: &Value) -> Value {
    json!({ "op": "add", "path": path, "value": value })
}

#[cfg(test)]
mod tests;
