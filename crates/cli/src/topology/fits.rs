//! How many pods of one shape fit into a domain.

use std::fmt;
use std::str::FromStr;

use grove_core::quantity::Quantity;
use serde::Serialize;

use super::model::Domain;
use super::nodes::{Amounts, Capacity, PODS};

/// The requests of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// As the user wrote it.
    text: String,
    requests: Amounts,
}

impl Shape {
    /// The resources that it requests.
    pub(super) fn resources(&self) -> impl Iterator<Item = &String> {
        self.requests.keys()
    }

    /// How many pods fit on one node.
    fn on(&self, node: &Capacity) -> u64 {
        let fits = |(name, request): (&String, &Quantity)| {
            node.free.get(name).map_or(0, |free| free.contains(*request))
        };
        let places = node.free.get(PODS).map_or(0, |free| free.contains(Quantity::ONE));
        self.requests.iter().map(fits).min().unwrap_or(u64::MAX).min(places)
    }

    /// How many pods fit on these nodes.
    pub(super) fn on_all(&self, nodes: &[&Capacity]) -> u64 {
        nodes.iter().map(|node| self.on(node)).fold(0, u64::saturating_add)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut requests = Amounts::new();
        for part in text.split(',') {
            let Some((name, amount)) = part.split_once('=').filter(|(name, _)| !name.is_empty())
            else {
                return Err(format!("{part:?} is not RESOURCE=QUANTITY, for example cpu=4"));
            };
            if name == PODS {
                return Err(format!("every pod counts as one of {PODS:?}; leave it out"));
            }
            let quantity = Quantity::parse(amount).ok().filter(|amount| *amount > Quantity::ZERO);
            let Some(quantity) = quantity else {
                return Err(format!(
                    "{amount:?} of {name} is not a quantity greater than zero, for example 500m, 2 or 1.5Gi"
                ));
            };
            if requests.insert(name.to_owned(), quantity).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
        Ok(Self { text: text.to_owned(), requests })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The domain of a level with room for the most pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fit {
    pub(super) level: String,
    pub(super) pods: u64,
    /// Label values from the broadest level to this one. Empty when no pod fits.
    pub(super) domain: Vec<String>,
}

/// The best domain of every level; of equal ones the first.
pub(super) fn best<'l>(levels: impl Iterator<Item = &'l str>, domains: &[Domain]) -> Vec<Fit> {
    let empty = |level: &str| Fit { level: level.to_owned(), ..Fit::default() };
    let mut best: Vec<Fit> = levels.map(empty).collect();
    improve(&mut best, domains, &mut Vec::new());
    best
}

fn improve(best: &mut [Fit], domains: &[Domain], path: &mut Vec<String>) {
    let Some((first, narrower)) = best.split_first_mut() else { return };
    for domain in domains {
        path.push(domain.name.clone());
        let pods = domain.room.fits.unwrap_or_default();
        if pods > first.pods {
            (first.pods, first.domain) = (pods, path.clone());
        }
        improve(narrower, &domain.domains, path);
        path.pop();
    }
}
