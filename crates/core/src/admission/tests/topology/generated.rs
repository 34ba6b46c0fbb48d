//! Every combination of domains at set, group and clique, against rules that are written down a second time.

use grove_api::topology_constraint::{Pack, TopologyConstraint};

use super::*;

/// No domain, each level of the binding, and one that it lacks.
const DOMAINS: [Option<&str>; 6] =
    [None, Some("zone"), Some("block"), Some("rack"), Some("host"), Some("numa")];

/// Broadest first.
const ORDER: [&str; 5] = ["zone", "block", "rack", "host", "numa"];

/// Required and preferred domain of the set, the group and its clique.
type Pair = (Option<&'static str>, Option<&'static str>);

/// The pairs to combine: each domain as required, as preferred, and as both.
fn pairs() -> Vec<Pair> {
    let mut pairs: Vec<Pair> = DOMAINS.iter().map(|&domain| (domain, None)).collect();
    pairs.extend(DOMAINS[1..].iter().flat_map(|&domain| [(None, domain), (domain, domain)]));
    pairs
}

fn constraint((required, preferred): Pair, name: Option<&str>) -> Option<TopologyConstraint> {
    let pack = Pack {
        required: required.map(str::to_owned),
        preferred: preferred.map(str::to_owned),
        ..Pack::default()
    };
    (required.is_some() || preferred.is_some()).then(|| TopologyConstraint {
        topology_name: name.map(str::to_owned),
        pack: Some(pack),
        ..TopologyConstraint::default()
    })
}

fn rank(domain: &str) -> usize {
    ORDER.iter().position(|one| *one == domain).unwrap()
}

/// Whether these domains exist and become no broader from the set to the clique.
fn is_right(chain: [Option<&str>; 3], levels: &[&str]) -> bool {
    let ranks: Vec<usize> = chain.into_iter().flatten().map(rank).collect();
    chain.into_iter().flatten().all(|domain| levels.contains(&domain)) && ranks.is_sorted()
}

#[test]
fn sets_are_admitted_if_their_domains_exist_and_become_no_broader() {
    let levels = ["zone", "block", "rack", "host"];
    let mut set = decode(&good()).unwrap();
    let mut admitted = 0;
    for (mode, name) in [(managing(&levels), None), (Mode::Bindings, Some("t"))] {
        for own in pairs() {
            for of_group in pairs() {
                for of_clique in pairs() {
                    let parts = [own, of_group, of_clique];
                    let expected = is_right(parts.map(|part| part.0), &levels)
                        && is_right(parts.map(|part| part.1), &levels);
                    let [own, of_group, of_clique] = parts.map(|part| constraint(part, name));
                    let template = &mut set.spec.template;
                    template.topology_constraint = own;
                    template.pod_clique_scaling_groups[0].topology_constraint = of_group;
                    template.cliques[1].topology_constraint = of_clique;
                    let mut errors = Vec::new();
                    let topology = resolved(&set, &mode);
                    crate::admission::topology::validate_create(&set, &topology, &mut errors);
                    assert_eq!(errors.is_empty(), expected, "{name:?} {parts:?}: {errors:?}");
                    admitted += usize::from(errors.is_empty());
                }
            }
        }
    }
    assert!(admitted > 500, "{admitted} are admitted");
}
