//! How soon all below a set of shape a can be gone on this machine, for the operator to be compared with.
//!
//! Clients that know every object below the set beforehand and do nothing else send the writes that the
//! operator sends, in its name and in its order. Nodes and the controller manager take part as ever. The
//! clients show a certificate where the operator shows a token, which costs the API server some percent more.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use xtask::cluster::{Connection, Connector};

use super::ceiling::{self, CLIENTS};
use super::progress::Kind;

const POD_CLIQUE: &str = "grove.io/podclique";
const NO_FINALIZERS: &str = r#"{"metadata":{"finalizers":null,"managedFields":[{}]}}"#;

/// The writes that one client sends one after another.
type Errand = Vec<Request>;

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

    /// The last write that an object needs which was deleted before.
    fn let_go(path: String) -> Self {
        Self { method: "PATCH", path, body: Some(NO_FINALIZERS) }
    }

    /// What is gone already need not go: the garbage collector may be quicker.
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

/// Objects of sets, listed before the time is taken.
#[derive(Debug)]
pub(crate) struct Inventory(Vec<Errand>);

impl Inventory {
    /// Everything that the sets of a namespace are made of.
    pub(crate) fn take(connector: &Connector, namespace: &str) -> Result<Self> {
        let mut client = connector.connect()?;
        let mut list = |path: &str| -> Result<Vec<Item>> {
            let list: List = serde_json::from_str(&client.expect("GET", path, None)?)
                .with_context(|| format!("{path} is no list"))?;
            Ok(list.items)
        };
        let pods_path = format!("/api/v1/namespaces/{namespace}/pods");
        let pods = list(&pods_path)?;
        let cliques = errands_of_cliques(
            &Kind::Clique.path(namespace),
            list(&Kind::Clique.path(namespace))?,
            &pods_path,
            pods,
        );
        let mut deletes = |kind: Kind| -> Result<Vec<Errand>> {
            let path = kind.path(namespace);
            let delete =
                |item: Item| vec![Request::delete(format!("{path}/{}", item.metadata.name))];
            Ok(list(&path)?.into_iter().map(delete).collect())
        };
        let mut errands = deletes(Kind::Service)?;
        errands.extend(interleave(cliques, vec![deletes(Kind::Gang)?]));
        Ok(Self(errands))
    }

    /// Has everything deleted.
    pub(crate) fn delete(&self, connector: &Connector) -> Result<()> {
        let connect = |_| connector.connect();
        let mut clients: Vec<Connection> = (0..CLIENTS).map(connect).collect::<Result<_>>()?;
        ceiling::each(&mut clients, &self.0, |client, errand| {
            errand.iter().try_for_each(|request| request.send(client))
        })
    }
}

/// A clique is deleted before its pods, so that nobody makes them anew, and let go after them.
fn errands_of_cliques(
    cliques_path: &str,
    cliques: Vec<Item>,
    pods_path: &str,
    pods: Vec<Item>,
) -> Vec<Errand> {
    let mut pods_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Item { mut metadata } in pods {
        let clique = metadata.labels.remove(POD_CLIQUE).unwrap_or_default();
        pods_of.entry(clique).or_default().push(metadata.name);
    }
    let errand = |Item { metadata }: Item| {
        let path = format!("{cliques_path}/{}", metadata.name);
        let pods = pods_of.remove(&metadata.name).unwrap_or_default();
        let pods = pods.into_iter().map(|name| Request::delete(format!("{pods_path}/{name}")));
        let mut errand = vec![Request::delete(path.clone())];
        errand.extend(pods);
        errand.push(Request::let_go(path));
        errand
    };
    cliques.into_iter().map(errand).collect()
}

/// One of each list in turn: replica by replica.
fn interleave(first: Vec<Errand>, others: Vec<Vec<Errand>>) -> Vec<Errand> {
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
    fn a_clique_goes_with_its_pods_and_is_let_go_after_them() {
        let cliques = vec![item("a", None), item("b", None)];
        let pods = vec![item("b-1", Some("b")), item("a-1", Some("a")), item("a-2", Some("a"))];
        let errands = errands_of_cliques("/c", cliques, "/p", pods);
        let delete = |path: &str| Request::delete(path.to_owned());
        let let_go = |path: &str| Request::let_go(path.to_owned());
        assert_eq!(
            errands,
            [
                vec![delete("/c/a"), delete("/p/a-1"), delete("/p/a-2"), let_go("/c/a")],
                vec![delete("/c/b"), delete("/p/b-1"), let_go("/c/b")],
            ]
        );
    }

    #[test]
    fn lists_are_worked_off_side_by_side() {
        let list = |names: &[&str]| -> Vec<Errand> {
            names.iter().map(|name| vec![Request::delete((*name).to_owned())]).collect()
        };
        let all = interleave(list(&["a", "b", "c"]), vec![list(&["x"]), list(&["1", "2"])]);
        assert_eq!(all, list(&["a", "x", "1", "b", "2", "c"]));
    }
}
