//! `grove backends`: which schedulers a configuration makes available, and what each of them can do on this
//! cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use grove_backends::{Backend, Capabilities, Registry, SchedulerObject, SchedulerObjects};
use grove_runtime::process::Env;
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::store::Presence;
use serde_json::{Value, json};

use crate::args::Output;
use crate::cluster;
use crate::exit::Exit;
use crate::operator;
use crate::table;

/// Prints the comparison. With `check`, a scheduler that cannot work on the cluster is a failure.
pub(crate) fn run(config: &Path, output: Output, check: bool) -> anyhow::Result<Exit> {
    let configuration = operator::load(config)?;
    let registry = Registry::new(&configuration.scheduler, &Env::system())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let served = runtime.block_on(discover(&registry))?;
    let default = registry.default_backend().name();
    let rows = registry.all().map(|backend| Row::of(backend, &served));
    let rows = runtime.block_on(futures::future::join_all(rows));
    match output {
        Output::Text => crate::print(&text(&rows, default))?,
        Output::Json => crate::print_json(&format!("{:#}\n", json(&rows, default)))?,
    }
    let fails = check && !rows.iter().all(Row::is_usable);
    Ok(if fails { Exit::Refused } else { Exit::Success })
}

/// Kinds, and whether the cluster serves them.
struct Served(BTreeMap<Resource, bool>);

impl Served {
    fn is_served(&self, resource: &Resource) -> bool {
        self.0.get(resource).copied().unwrap_or_default()
    }
}

/// Knows which kinds are served, and none of their objects.
impl SchedulerObjects for Served {
    fn get(&self, _: &Resource, _: &ObjectKey) -> Option<Arc<SchedulerObject>> {
        None
    }

    fn of_gang(&self, _: &Resource, _: &ObjectKey) -> Vec<Arc<SchedulerObject>> {
        Vec::new()
    }

    fn presence(&self, resource: &Resource) -> Presence {
        if self.is_served(resource) { Presence::Served } else { Presence::Absent }
    }
}

async fn discover(registry: &Registry) -> anyhow::Result<Served> {
    let client = cluster::client(cluster::infer().await?)?;
    let mut lists = BTreeMap::<String, Vec<String>>::new();
    let mut served = BTreeMap::new();
    for kind in registry.kinds() {
        let path = format!("/apis/{}/{}", kind.group, kind.version);
        if !lists.contains_key(&path) {
            lists.insert(path.clone(), resources(&client, &path).await?);
        }
        let found = lists[&path].iter().any(|plural| *plural == kind.plural);
        served.insert(kind, found);
    }
    Ok(Served(served))
}

/// The resources of one version of a group; none when it is not served.
async fn resources(client: &kube::Client, path: &str) -> anyhow::Result<Vec<String>> {
    let request = http::Request::get(path).body(Vec::new())?;
    let list = match client.request::<Value>(request).await {
        Ok(list) => list,
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
    };
    let all = list["resources"].as_array().into_iter().flatten();
    Ok(all.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
}

struct Row<'a> {
    name: &'a str,
    /// `group/version plural`, and whether it is served.
    kinds: Vec<(String, bool)>,
    /// Of a program of its own: where it is, and why it cannot be asked.
    endpoint: Option<(String, Option<String>)>,
    capabilities: Capabilities,
}

impl<'a> Row<'a> {
    async fn of(backend: &'a dyn Backend, served: &Served) -> Self {
        let problem = backend.check().await.err().map(|error| error.to_string());
        let endpoint = backend.url().map(|url| (url, problem));
        let kind = |one: Resource| {
            (format!("{}/{} {}", one.group, one.version, one.plural), served.is_served(&one))
        };
        Self {
            name: backend.name(),
            kinds: backend.kinds().into_iter().map(kind).collect(),
            endpoint,
            capabilities: backend.capabilities(served),
        }
        .limited_to_served()
    }

    /// Whether the cluster serves none of the kinds that the scheduler needs. Of some kinds there are
    /// several versions, of which one is enough.
    fn is_unserved(&self) -> bool {
        !self.kinds.is_empty() && self.kinds.iter().all(|(_, served)| !served)
    }

    /// Whether the scheduler can be worked with.
    fn is_usable(&self) -> bool {
        !self.is_unserved() && self.endpoint.as_ref().is_none_or(|(_, problem)| problem.is_none())
    }

    /// Nothing is enforced by objects that cannot be created.
    fn limited_to_served(mut self) -> Self {
        if self.is_unserved() {
            let can = &mut self.capabilities;
            for word in [&mut can.minimum, &mut can.gang, &mut can.topology] {
                if word.starts_with("enforced") {
                    *word = "not served".into();
                }
            }
        }
        self
    }
}

fn text(rows: &[Row<'_>], default: &str) -> String {
    let header = ["NAME", "OBJECTS", "MINIMUM", "GANG", "TOPOLOGY", "QUEUE", "PRIORITY"];
    let mut table = vec![header.map(str::to_owned)];
    for Row { name, capabilities: can, .. } in rows {
        let mark = if *name == default { " (default)" } else { "" };
        let can = can.clone();
        let cells = [can.objects, can.minimum, can.gang, can.topology, can.queue, can.priority];
        let [objects, minimum, gang, topology, queue, priority] =
            cells.map(std::borrow::Cow::into_owned);
        table.push([format!("{name}{mark}"), objects, minimum, gang, topology, queue, priority]);
    }
    let served = |served: bool| if served { "served" } else { "not served" };
    let kinds = rows.iter().flat_map(|row| &row.kinds);
    let kinds = kinds.map(|(kind, is)| format!("{kind}: {}\n", served(*is)));
    let endpoints = rows.iter().filter_map(|row| match row.endpoint.as_ref()? {
        (url, None) => Some(format!("{url}: reachable\n")),
        (_, Some(problem)) => Some(format!("{problem}\n")),
    });
    table::columns(&table) + &kinds.chain(endpoints).collect::<String>()
}

fn json(rows: &[Row<'_>], default: &str) -> Value {
    rows.iter()
        .map(|Row { name, kinds, endpoint, capabilities: can }| {
            let kinds: BTreeMap<_, _> = kinds.iter().cloned().collect();
            let endpoint = endpoint.as_ref().map(|(url, problem)| {
                json!({ "url": url, "reachable": problem.is_none(), "problem": problem })
            });
            json!({
                "name": name,
                "default": *name == default,
                "served": kinds,
                "endpoint": endpoint,
                "capabilities": {
                    "objects": can.objects, "minimum": can.minimum, "gang": can.gang,
                    "topology": can.topology, "queue": can.queue, "priority": can.priority,
                },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kinds: &[(&str, bool)]) -> Row<'static> {
        let words = ["PodGroup", "enforced", "enforced", "refused", "optional", "yes"];
        let [objects, minimum, gang, topology, queue, priority] = words.map(Into::into);
        Row {
            name: "volcano",
            kinds: kinds.iter().map(|(kind, served)| ((*kind).to_owned(), *served)).collect(),
            endpoint: None,
            capabilities: Capabilities { objects, minimum, gang, topology, queue, priority },
        }
        .limited_to_served()
    }

    #[test]
    fn nothing_is_enforced_by_kinds_that_are_not_served() {
        for (kinds, gang, usable) in [
            (&[][..], "enforced", true),
            (&[("a", true), ("b", true)], "enforced", true),
            (&[("v1 a", false), ("v2 a", true)], "enforced", true),
            (&[("a", false), ("b", false)], "not served", false),
        ] {
            let row = row(kinds);
            assert_eq!((&*row.capabilities.gang, row.is_usable()), (gang, usable), "{kinds:?}");
            assert_eq!(row.capabilities.topology, "refused");
        }
        for (problem, usable) in [(None, true), (Some("connection refused".to_owned()), false)] {
            let remote = Row { endpoint: Some(("https://a/".to_owned(), problem)), ..row(&[]) };
            assert_eq!(remote.is_usable(), usable);
        }
    }
}
