//! The text of a tree.

use jiff::Timestamp;

use super::node::{Kind, Node, Placement, Termination, Update};
use crate::age;
use crate::table;

/// The size of the terminal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    /// Longest line, in characters.
    pub(crate) width: Option<usize>,
    /// Most lines.
    pub(crate) height: Option<usize>,
}

/// One line per node, under a heading. Text that does not fit is cut off and marked. There is a column for
/// the placement if a part has a constraint.
pub(crate) fn text(tree: &Node, now: Timestamp, room: Room) -> String {
    let heading = ["NAME", "READY", "STATE", "AGE", "PLACEMENT", "WAITS FOR"].map(str::to_owned);
    let mut rows = vec![heading, row(tree, String::new(), now)];
    below(tree, "", now, &mut rows);
    let text = if rows.iter().skip(1).any(|[.., placement, _]| !placement.is_empty()) {
        table::columns(&rows)
    } else {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|[name, ready, state, age, _, waits]| [name, ready, state, age, waits])
            .collect();
        table::columns(&rows)
    };
    let mut lines: Vec<String> = text.lines().map(|line| cut(line, room.width)).collect();
    if let Some(height) = room.height
        && lines.len() > height
    {
        let shown = height.saturating_sub(1);
        let more = format!("… {} more lines", lines.len() - shown);
        lines.truncate(shown);
        lines.push(more);
    }
    lines.join("\n") + "\n"
}

fn below(node: &Node, indent: &str, now: Timestamp, rows: &mut Vec<[String; 6]>) {
    for (number, child) in node.children.iter().enumerate() {
        let last = number + 1 == node.children.len();
        let (branch, trunk) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        rows.push(row(child, format!("{indent}{branch}"), now));
        below(child, &format!("{indent}{trunk}"), now, rows);
    }
}

fn row(node: &Node, indent: String, now: Timestamp) -> [String; 6] {
    let ready = node.ready.map(|counts| format!("{}/{}", counts.ready, counts.wanted));
    let age = node.created_at.map(|created| age::between(created, now));
    // The termination of a child is not repeated at its parent.
    let is_replica = matches!(node.kind, Kind::SetReplica | Kind::GroupReplica);
    let end = node.termination.as_ref().filter(|_| !is_replica).map(|end| termination(end, now));
    let update = node.update.as_ref().map(|progress| update(progress, now));
    let waits = node.waits_for.iter().map(|wait| wait.message.clone());
    let story: Vec<String> = end.into_iter().chain(update).chain(waits).collect();
    [
        indent + &title(node),
        ready.unwrap_or_default(),
        format!("{:?}", node.state),
        age.unwrap_or_default(),
        node.placement.as_ref().map(placement).unwrap_or_default(),
        // Messages may contain line breaks.
        story.join("; ").split_whitespace().collect::<Vec<_>>().join(" "),
    ]
}

/// Objects as `kubectl` takes them.
fn title(node: &Node) -> String {
    let short = match node.kind {
        Kind::PodCliqueSet => "pcs/",
        Kind::PodGang => "pg/",
        Kind::PodCliqueScalingGroup => "pcsg/",
        Kind::PodClique => "pclq/",
        Kind::Pod => "pod/",
        Kind::SetReplica | Kind::GroupReplica => "replica ",
    };
    format!("{short}{}", node.name)
}

/// The constraint, and where the pods are.
fn placement(placement: &Placement) -> String {
    let Placement { topology, required, preferred, dropped, violated, .. } = placement;
    let words = [("packed in", required), ("prefers", preferred)].into_iter();
    let words = words.filter_map(|(what, level)| Some(format!("{what} {}", level.as_ref()?)));
    let words = words.collect::<Vec<_>>().join(", ");
    let topology = topology.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
    let dropped = if *dropped { ", not in effect" } else { "" };
    let mut places = placement.domains.clone();
    let outside = &placement.pods_without_domain;
    if !outside.is_empty() {
        places.push(format!("no domain ({})", outside.join(", ")));
    }
    let places = match (places.is_empty(), *violated) {
        (true, _) => String::new(),
        (false, true) => format!(": VIOLATED: {}", places.join(", ")),
        (false, false) => format!(": {}", places.join(", ")),
    };
    format!("{words}{topology}{dropped}{places}")
}

fn update(update: &Update, now: Timestamp) -> String {
    let Update { started_at, updated, total, of, current, paused } = update;
    let since = started_at.map(|start| format!(" since {}", age::between(start, now)));
    let current = current.as_ref().map(|current| format!(", now {current}"));
    let (since, current) = (since.unwrap_or_default(), current.unwrap_or_default());
    let held = if *paused { ", paused" } else { "" };
    format!("its update{since}: {updated} of {total} {of}{current}{held}")
}

fn termination(end: &Termination, now: Timestamp) -> String {
    let Termination { breached_since, ends_at, in_progress } = end;
    if *in_progress {
        return "its recovery after it was terminated as a gang".to_owned();
    }
    let since = breached_since.map(|since| format!(" since {}", age::between(since, now)));
    let since = since.unwrap_or_default();
    match ends_at {
        Some(at) if *at > now => {
            let rest = age::between(now, *at);
            format!("its recovery: breached{since}, terminated in {rest} (at {at})")
        }
        Some(at) => format!("its termination: breached{since}, due at {at}"),
        None => format!("its recovery: breached{since}"),
    }
}

fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
        }
        _ => line.to_owned(),
    }
}
