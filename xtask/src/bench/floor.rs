//! The minimum time of a teardown of shape a on this machine, for comparison.
//!
//! Clients that know every object of the set beforehand and do nothing else send the writes of the operator,
//! as its user and in its order. Nodes and the controller manager take part as usual. The clients use a
//! certificate instead of the operator's token, which costs the API server a few percent more.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use xtask::cluster::{Connection, Connector};

use super::ceiling::{self, CLIENTS};
use super::progress::Kind;

const POD_CLIQUE: &str = "grove.io/podclique";
const NO_FINALIZERS: &str = r#"{"metadata":{"finalizers":null,"managedFields":[{}]}}"#;

/// The writes of one client, in order.
type Batch = Vec<Request>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    method: &'static str,
    path: String,
    body: Option<&'static str>,
}

impl Request {
    fn delete(path: String) -> Self {
        Self { method: "DELETE", path, body: None }
    }

    /// Removes the finalizers of a deleted object.
    fn remove_finalizers(path: String) -> Self {
        Self { method: "PATCH", path, body: Some(NO_FINALIZERS) }
    }

    /// A missing object is no error: the garbage collector may be faster.
    fn send(&self, client: &mut Connection) -> Result<()> {
        let Self { method, path, body } = self;
        let answer = client.request(method, path, *body)?;
        let fine = (200..300).contains(&answer.status) || answer.status == 404;
        ensure!(fine, "{method} {path}: {} {}", answer.status, answer.body);
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Objects of sets, listed before the measurement.
#[derive(Debug)]
pub(crate) struct Inventory(Vec<Batch>);

impl Inventory {
    /// Lists all objects of the sets in a namespace.
    pub(crate) fn take(connector: &Connector, namespace: &str) -> Result<Self> {
        let mut client = connector.connect()?;
        let mut list = |path: &str| -> Result<Vec<Item>> {
            let list: List = serde_json::from_str(&client.expect("GET", path, None)?)
                .with_context(|| format!("{path} is no list"))?;
            Ok(list.items)
        };
        let pods_path = format!("/api/v1/namespaces/{namespace}/pods");
        let pods = list(&pods_path)?;
        let cliques = batches_of_cliques(
            &Kind::Clique.path(namespace),
            list(&Kind::Clique.path(namespace))?,
            &pods_path,
            pods,
        );
        let mut deletes = |kind: Kind| -> Result<Vec<Batch>> {
            let path = kind.path(namespace);
            let delete =
                |item: Item| vec![Request::delete(format!("{path}/{}", item.metadata.name))];
            Ok(list(&path)?.into_iter().map(delete).collect())
        };
        let mut batches = deletes(Kind::Service)?;
        batches.extend(interleave(cliques, vec![deletes(Kind::Gang)?]));
        Ok(Self(batches))
    }

    /// Deletes all of them.
    pub(crate) fn delete(&self, connector: &Connector) -> Result<()> {
        let connect = |_| connector.connect();
        let mut clients: Vec<Connection> = (0..CLIENTS).map(connect).collect::<Result<_>>()?;
        ceiling::each(&mut clients, &self.0, |client, batch| {
            batch.iter().try_for_each(|request| request.send(client))
        })
    }
}

/// A clique is deleted before its pods, so that they are not recreated, and loses its finalizers after them.
fn batches_of_cliques(
    cliques_path: &str,
    cliques: Vec<Item>,
    pods_path: &str,
    pods: Vec<Item>,
) -> Vec<Batch> {
    let mut pods_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Item { mut metadata } in pods {
        let clique = metadata.labels.remove(POD_CLIQUE).unwrap_or_default();
        pods_of.entry(clique).or_default().push(metadata.name);
    }
    let batch = |Item { metadata }: Item| {
        let path = format!("{cliques_path}/{}", metadata.name);
        let pods = pods_of.remove(&metadata.name).unwrap_or_default();
        let pods = pods.into_iter().map(|name| Request::delete(format!("{pods_path}/{name}")));
        let mut batch = vec![Request::delete(path.clone())];
        batch.extend(pods);
        batch.push(Request::remove_finalizers(path));
        batch
    };
    cliques.into_iter().map(batch).collect()
}

/// Takes one of each list in turn: replica by replica.
fn interleave(first: Vec<Batch>, others: Vec<Vec<Batch>>) -> Vec<Batch> {
    let mut lists: Vec<_> =
        [first].into_iter().chain(others).map(IntoIterator::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(lists.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, clique: Option<&str>) -> Item {
        let labels = clique.map(|clique| (POD_CLIQUE.to_owned(), clique.to_owned()));
        Item { metadata: Metadata { name: name.to_owned(), labels: labels.into_iter().collect() } }
    }

    #[test]
    fn a_clique_is_deleted_before_its_pods_and_loses_its_finalizers_after_them() {
        let cliques = vec![item("a", None), item("b", None)];
        let pods = vec![item("b-1", Some("b")), item("a-1", Some("a")), item("a-2", Some("a"))];
        let batches = batches_of_cliques("/c", cliques, "/p", pods);
        let delete = |path: &str| Request::delete(path.to_owned());
        let remove_finalizers = |path: &str| Request::remove_finalizers(path.to_owned());
        assert_eq!(
            batches,
            [
                vec![delete("/c/a"), delete("/p/a-1"), delete("/p/a-2"), remove_finalizers("/c/a")],
                vec![delete("/c/b"), delete("/p/b-1"), remove_finalizers("/c/b")],
            ]
        );
    }

    #[test]
    fn lists_are_interleaved() {
        let list = |names: &[&str]| -> Vec<Batch> {
            names.iter().map(|name| vec![Request::delete((*name).to_owned())]).collect()
        };
        let all = interleave(list(&["a", "b", "c"]), vec![list(&["x"]), list(&["1", "2"])]);
        assert_eq!(all, list(&["a", "x", "1", "b", "2", "c"]));
    }
}
