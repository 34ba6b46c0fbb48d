//! Dependency cycles between cliques.

use std::collections::BTreeMap;

use grove_api::pod_clique_set::PodCliqueTemplate;

/// The groups of cliques in which each clique depends on all others, directly or indirectly. Groups, and the
/// names in them, are in template order. A clique that depends only on itself is no group, and parents that do
/// not exist are ignored.
pub(super) fn of(cliques: &[PodCliqueTemplate]) -> Vec<Vec<&str>> {
    let index: BTreeMap<&str, usize> =
        cliques.iter().enumerate().rev().map(|(at, clique)| (clique.name.as_str(), at)).collect();
    let mut forward = vec![Vec::new(); cliques.len()];
    let mut backward = vec![Vec::new(); cliques.len()];
    for (child, clique) in cliques.iter().enumerate() {
        for &parent in clique.spec.starts_after.iter().filter_map(|name| index.get(name.as_str())) {
            forward[child].push(parent);
            backward[parent].push(child);
        }
    }
    let mut component = vec![None; cliques.len()];
    for &root in finishing_order(&forward).iter().rev() {
        claim(root, &backward, &mut component);
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, root) in component.iter().enumerate() {
        groups.entry(root.unwrap_or(at)).or_default().push(at);
    }
    let mut cycles: Vec<_> = groups.into_values().filter(|members| members.len() > 1).collect();
    cycles.sort_unstable();
    let name = |at: usize| cliques[at].name.as_str();
    cycles.into_iter().map(|members| members.into_iter().map(name).collect()).collect()
}

/// All nodes in the order in which a depth-first search leaves them.
fn finishing_order(edges: &[Vec<usize>]) -> Vec<usize> {
    let mut visited = vec![false; edges.len()];
    let mut finished = Vec::with_capacity(edges.len());
    for start in 0..edges.len() {
        if std::mem::replace(&mut visited[start], true) {
            continue;
        }
        // A node and the number of its edges that were followed. No recursion: chains can be long.
        let mut stack = vec![(start, 0)];
        while let Some((node, followed)) = stack.last_mut() {
            if let Some(&next) = edges[*node].get(*followed) {
                *followed += 1;
                if !std::mem::replace(&mut visited[next], true) {
                    stack.push((next, 0));
                }
            } else {
                finished.push(*node);
                stack.pop();
            }
        }
    }
    finished
}

/// Adds all unclaimed nodes that can be reached from `root` to its component.
fn claim(root: usize, edges: &[Vec<usize>], component: &mut [Option<usize>]) {
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        if component[node].is_none() {
            component[node] = Some(root);
            stack.extend(&edges[node]);
        }
    }
}

#[cfg(test)]
mod tests {
    use grove_api::pod_clique_set::PodCliqueTemplate;

    fn cliques(edges: &[(&str, &[&str])]) -> Vec<PodCliqueTemplate> {
        let clique = |&(name, parents): &(&str, &[&str])| {
            let mut clique = PodCliqueTemplate { name: name.to_owned(), ..Default::default() };
            clique.spec.starts_after = parents.iter().map(|&parent| parent.to_owned()).collect();
            clique
        };
        edges.iter().map(clique).collect()
    }

    #[test]
    fn only_cycles_are_found() {
        type Case = (
            &'static [(&'static str, &'static [&'static str])],
            &'static [&'static [&'static str]],
        );
        let cases: [Case; 6] = [
            (&[], &[]),
            (&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])], &[]),
            (&[("a", &["a"])], &[]),
            (&[("a", &["ghost"])], &[]),
            (&[("a", &["b"]), ("b", &["a"])], &[&["a", "b"]]),
            (
                &[
                    ("a", &["c"]),
                    ("x", &["y"]),
                    ("b", &["a"]),
                    ("y", &["x", "a"]),
                    ("c", &["b"]),
                    ("d", &["c"]),
                ],
                &[&["a", "b", "c"], &["x", "y"]],
            ),
        ];
        for (edges, expected) in cases {
            assert_eq!(super::of(&cliques(edges)), expected, "{edges:?}");
        }
    }

    #[test]
    fn long_chains_are_walked_without_recursion() {
        let names: Vec<String> = (0..20_000).map(|at| format!("c{at}")).collect();
        let chain: Vec<PodCliqueTemplate> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let mut clique = PodCliqueTemplate { name: name.clone(), ..Default::default() };
                clique.spec.starts_after = names.get(at + 1).cloned().into_iter().collect();
                clique
            })
            .collect();

        assert!(super::of(&chain).is_empty());
    }
}
