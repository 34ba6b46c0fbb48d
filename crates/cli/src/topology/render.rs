//! The text of topologies.

use std::collections::BTreeMap;

use grove_core::quantity::Quantity;

use super::fits::{Fit, Shape};
use super::model::{Domain, Room, Topology};
use crate::table;
use crate::terminal::visible_in_line;

/// Each topology with its domains, and what fits into them.
pub(super) fn text(topologies: &[Topology], shape: Option<&Shape>) -> String {
    let one = |topology| one(topology, shape);
    topologies.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(topology: &Topology, shape: Option<&Shape>) -> String {
    let levels = topology.levels.iter();
    let levels: Vec<_> = levels.map(|level| format!("{} ({})", level.domain, level.key)).collect();
    let mut text = line(&heading(topology)) + &line(&format!("Levels: {}", levels.join(", ")));
    text += &domains(topology);
    for node in &topology.unavailable_nodes {
        text += &line(&format!("Node {} is {}: nothing on it is free", node.name, node.reason));
    }
    let mut unlabelled = BTreeMap::<&[String], Vec<&str>>::new();
    for node in &topology.unlabelled_nodes {
        unlabelled.entry(&node.missing).or_default().push(&node.name);
    }
    for (missing, nodes) in unlabelled {
        let s = if missing.len() > 1 { "s" } else { "" };
        text += &line(&format!("Without label{s} {}: {}", missing.join(", "), nodes.join(", ")));
    }
    let Some(shape) = shape else { return text };
    for resource in shape.resources() {
        if topology.room.allocatable.get(resource).is_none_or(|amount| *amount == Quantity::ZERO) {
            text += &line(&format!("No node of {} has {resource}", topology.name));
        }
    }
    text + &fits(&topology.best_domains, shape)
}

fn line(text: &str) -> String {
    visible_in_line(text) + "\n"
}

fn heading(topology: &Topology) -> String {
    let Topology { kind, name, condition, .. } = topology;
    let Some(condition) = condition else { return format!("{kind} {name}") };
    let state = format!("{}={}", condition.type_, condition.status);
    match &condition.problem {
        Some(problem) => format!("{kind} {name}, {state}: {problem}"),
        None => format!("{kind} {name}, {state}"),
    }
}

fn domains(topology: &Topology) -> String {
    let resources = topology.resources();
    let titles = resources.iter().map(|name| format!("FREE {}", name.to_uppercase()));
    let fits = topology.room.fits.map(|_| "FITS".to_owned());
    let start = ["DOMAIN".to_owned(), "NODES".to_owned()];
    let mut rows = vec![start.into_iter().chain(titles).chain(fits).collect()];
    rows.push(row(topology.name.clone(), &topology.room, &resources));
    below(&topology.domains, "", &resources, &mut rows);
    table::columns(&rows)
}

fn below(domains: &[Domain], indent: &str, resources: &[&str], rows: &mut Vec<Vec<String>>) {
    for (number, domain) in domains.iter().enumerate() {
        let last = number + 1 == domains.len();
        let (branch, trunk) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let title = format!("{indent}{branch}{} {}", domain.level, domain.name);
        rows.push(row(title, &domain.room, resources));
        below(&domain.domains, &format!("{indent}{trunk}"), resources, rows);
    }
}

fn row(title: String, room: &Room, resources: &[&str]) -> Vec<String> {
    let nodes = match room.unavailable {
        0 => room.nodes.to_string(),
        unavailable => format!("{}, {unavailable} unavailable", room.nodes),
    };
    let amounts = resources.iter().map(|name| {
        let of = |amounts: &BTreeMap<String, Quantity>| {
            written(name, amounts.get(*name).copied().unwrap_or_default())
        };
        format!("{} of {}", of(&room.free), of(&room.allocatable))
    });
    let fits = room.fits.map(|pods| pods.to_string());
    [title, nodes].into_iter().chain(amounts).chain(fits).collect()
}

fn fits(fits: &[Fit], shape: &Shape) -> String {
    let row = |fit: &Fit| {
        let domain = if fit.domain.is_empty() { "none".to_owned() } else { fit.domain.join("/") };
        [fit.level.clone(), fit.pods.to_string(), domain]
    };
    let title = ["LEVEL".to_owned(), format!("PODS WITH {shape}"), "IN DOMAIN".to_owned()];
    let rows: Vec<_> = [title].into_iter().chain(fits.iter().map(row)).collect();
    table::columns(&rows)
}

/// Bytes in the largest binary unit, processors with one digit after the point, everything else exactly. Digits
/// that are left out are rounded down.
pub(super) fn written(resource: &str, amount: Quantity) -> String {
    let is_bytes = ["memory", "ephemeral-storage"].contains(&resource);
    if !(is_bytes || resource == "cpu") || amount.is_negative() {
        return amount.to_string();
    }
    let units = ["0.1Ei", "0.1Pi", "0.1Ti", "0.1Gi", "0.1Mi", "0.1Ki"].into_iter();
    let mut tenths = units.filter(|_| is_bytes).chain(["0.1"]).filter_map(|tenth| {
        let number = amount.contains(Quantity::parse(tenth).ok()?);
        Some((number, tenth.trim_start_matches("0.1")))
    });
    let is_enough = |(number, suffix): &(u64, &str)| *number >= 10 || suffix.is_empty();
    let (tenths, suffix) = tenths.find(is_enough).unwrap_or_default();
    match tenths % 10 {
        0 => format!("{}{suffix}", tenths / 10),
        digit => format!("{}.{digit}{suffix}", tenths / 10),
    }
}
