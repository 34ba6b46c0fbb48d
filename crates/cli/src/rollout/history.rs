//! `grove rollout history`: the templates that a set has had, from the revisions that the operator keeps.

use std::iter;

use anyhow::Context as _;
use clap::Args;
use grove_api::{PodCliqueSet, annotations, labels};
use grove_runtime::process::Env;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::difference::difference;
use crate::age;
use crate::args::Output;
use crate::cluster::{Asked, Cluster, SetArguments};
use crate::exit::Exit;
use crate::table;

/// Which templates to show.
#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    #[command(flatten)]
    sets: SetArguments,
    /// Show the template with this number, and where the current one differs from it
    #[arg(long, value_name = "NUMBER", conflicts_with = "all_namespaces")]
    revision: Option<i64>,
    /// Format of the output; as JSON every revision has its template
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Prints the history, or one template of it.
pub(super) async fn run(arguments: &HistoryArguments) -> anyhow::Result<Exit> {
    match arguments.sets.sets().await? {
        Asked::One(cluster, set) => {
            let history = read(&cluster, &set).await?;
            match (arguments.output, arguments.revision) {
                (Output::Text, None) => {
                    crate::print(&history.table(Env::system().clock.wall()))?;
                }
                (Output::Text, Some(number)) => crate::print(&history.template(number)?)?,
                (Output::Json, number) => {
                    let document = history.json(&cluster.namespace, number)?;
                    crate::print_json(&format!("{document:#}\n"))?;
                }
            }
        }
        Asked::All(sets) => {
            for (cluster, set) in sets {
                let history = read(&cluster, &set).await?;
                let namespace = &cluster.namespace;
                if arguments.output == Output::Json {
                    crate::print_json(&format!("{:#}\n", history.json(namespace, None)?))?;
                    continue;
                }
                let table = history.table(Env::system().clock.wall());
                crate::print(&format!("PodCliqueSet {namespace}/{set}\n{table}"))?;
            }
        }
    }
    Ok(Exit::Success)
}

async fn read(cluster: &Cluster, set: &str) -> anyhow::Result<History> {
    let stored = super::read(cluster, set).await?;
    Ok(History::of(&stored, list(cluster, set).await?))
}

pub(super) async fn list(cluster: &Cluster, set: &str) -> anyhow::Result<Vec<ControllerRevision>> {
    let api = Api::<ControllerRevision>::namespaced(cluster.client.clone(), &cluster.namespace);
    let selector = labels::revision_selector(set);
    let list = api.list(&ListParams::default().labels(&selector)).await;
    let namespace = &cluster.namespace;
    let list = list.with_context(|| format!("cannot list ControllerRevisions in {namespace}"))?;
    Ok(list.items)
}

/// The templates of a set, the oldest first.
pub(super) struct History {
    set: String,
    revisions: Vec<Revision>,
}

pub(super) struct Revision {
    pub(super) number: i64,
    created: Option<Timestamp>,
    change_cause: Option<String>,
    pub(super) template: Value,
}

impl History {
    /// Revisions of a former set of this name are left out.
    pub(super) fn of(set: &PodCliqueSet, found: Vec<ControllerRevision>) -> Self {
        let ours = |revision: &ControllerRevision| {
            let mut owners = revision.metadata.owner_references.iter().flatten();
            owners.any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
        };
        let mut revisions: Vec<_> = found.into_iter().filter(ours).map(Revision::from).collect();
        revisions.sort_by_key(|revision| revision.number);
        Self { set: set.metadata.name.clone().unwrap_or_default(), revisions }
    }

    fn table(&self, now: Timestamp) -> String {
        if self.revisions.is_empty() {
            return format!("PodCliqueSet {:?} has no revisions yet\n", self.set);
        }
        let mut rows =
            vec![["REVISION", "CURRENT", "CREATED", "IMAGES", "CHANGE-CAUSE"].map(str::to_owned)];
        for (place, revision) in self.revisions.iter().enumerate() {
            let current = place + 1 == self.revisions.len();
            let age = revision.created.map(|created| age::between(created, now));
            rows.push([
                revision.number.to_string(),
                if current { "*".to_owned() } else { String::new() },
                age.unwrap_or_default(),
                revision.images(),
                revision.change_cause.clone().unwrap_or_else(|| "<none>".to_owned()),
            ]);
        }
        table::columns(&rows)
    }

    /// The revisions for programs, or one of them.
    fn json(&self, namespace: &str, number: Option<i64>) -> anyhow::Result<Value> {
        let chosen = match number {
            None => self.revisions.iter().collect(),
            Some(number) => vec![self.revision(number)?],
        };
        let newest = self.revisions.last().map(|revision| revision.number);
        let revisions = chosen.into_iter().map(|revision| {
            json!({
                "revision": revision.number,
                "current": Some(revision.number) == newest,
                "createdAt": revision.created,
                "changeCause": revision.change_cause,
                "template": revision.template,
            })
        });
        let revisions: Value = revisions.collect();
        Ok(json!({ "namespace": namespace, "name": self.set, "revisions": revisions }))
    }

    fn revision(&self, number: i64) -> anyhow::Result<&Revision> {
        let found = self.revisions.iter().find(|one| one.number == number);
        found.with_context(|| {
            let numbers = self.revisions.iter().map(|one| one.number.to_string());
            let numbers = numbers.collect::<Vec<_>>().join(", ");
            format!("PodCliqueSet {:?} has no revision {number}; it has {numbers}", self.set)
        })
    }

    /// The revision to go back to; 0 is the one before the current.
    pub(super) fn target(&self, number: i64) -> anyhow::Result<&Revision> {
        if number != 0 {
            return self.revision(number);
        }
        let before = self.revisions.iter().rev().nth(1);
        before.with_context(|| {
            format!("PodCliqueSet {:?} has no revision before the current one", self.set)
        })
    }

    /// One template, and as comments where the current one has something else.
    fn template(&self, number: i64) -> anyhow::Result<String> {
        let revision = self.revision(number)?;
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        let yaml = serde_saphyr::to_string_with_options(&revision.template, options)
            .context("cannot write the template as YAML")?;
        let mut text = yaml.trim_end().to_owned() + "\n";
        let current = self.revisions.last().filter(|current| current.number != number);
        if let Some(current) = current {
            let differences = difference(&revision.template, &current.template);
            let heading = format!("# The current revision {} differs in:\n", current.number);
            let lines = differences.iter().map(|one| format!("#   {one}\n"));
            text.extend(iter::once(heading).chain(lines));
        }
        Ok(text)
    }
}

impl From<ControllerRevision> for Revision {
    fn from(stored: ControllerRevision) -> Self {
        let mut annotations = stored.metadata.annotations.unwrap_or_default();
        Self {
            number: stored.revision.unwrap_or_default(),
            created: stored.metadata.creation_timestamp.map(|time| time.0),
            change_cause: annotations.remove(annotations::CHANGE_CAUSE),
            template: stored.data.0["spec"]["template"].clone(),
        }
    }
}

impl Revision {
    /// The images of each clique: `router=busybox,worker=a+b`.
    fn images(&self) -> String {
        let cliques = self.template["cliques"].as_array().into_iter().flatten();
        let images = cliques.map(|clique| {
            let containers = clique["spec"]["podSpec"]["containers"].as_array();
            let images = containers.into_iter().flatten().filter_map(|one| one["image"].as_str());
            let name = clique["name"].as_str().unwrap_or_default();
            format!("{name}={}", images.collect::<Vec<_>>().join("+"))
        });
        images.collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests;
