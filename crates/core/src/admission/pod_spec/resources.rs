//! Requests, limits and claims of a container.

use std::collections::BTreeSet;

use grove_api::field_error::FieldError;
use serde_json::Value;

use super::part::{Part, faults};
use crate::admission::syntax;
use crate::quantity::{Quantity, Unusable};

const HUGE_PAGES: &str = "hugepages-";

/// The claims that containers of a pod may name.
pub(super) struct Claims<'a> {
    pub(super) names: BTreeSet<&'a str>,
    /// Whether the list is complete: the operator adds no claims to the pod.
    pub(super) complete: bool,
}

pub(super) fn validate(container: &Part<'_>, claims: &Claims<'_>, errors: &mut Vec<FieldError>) {
    let Some(resources) = container.part("resources") else { return };
    let (limits, requests) = (resources.part("limits"), resources.part("requests"));
    for amounts in [&limits, &requests].into_iter().flatten() {
        for (name, value) in amounts.entries() {
            let path = format!("{}[{name}]", amounts.path());
            validate_name(&path, name, errors);
            validate_amount(&path, name, value, errors);
        }
    }
    if let Some(requests) = &requests {
        for (name, request) in requests.entries() {
            let limit = limits.as_ref().and_then(|limits| limits.get(name));
            validate_pair(&resources, name, request, limit, errors);
        }
    }
    validate_huge_pages(&resources, [&limits, &requests], errors);
    validate_claims(&resources, claims, errors);
}

fn validate_name(path: &str, name: &str, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    faults(path, name, syntax::qualified_name(name), errors);
    if errors.len() > before {
        return;
    }
    let known = ["cpu", "memory", "ephemeral-storage"].contains(&name) || is_huge_pages(name);
    let detail = if !name.contains('/') && !known {
        "must be a standard resource for containers: cpu, memory, ephemeral-storage or hugepages-<size>; \
         other resources need a domain, for example example.com/gpu"
    } else if name.contains('/') && !is_native(name) && !is_extended(name) {
        "doesn't follow extended resource name standard: use a shorter name without the prefix requests."
    } else {
        return;
    };
    errors.push(FieldError::invalid(path, name, detail));
}

fn validate_amount(path: &str, name: &str, value: &Value, errors: &mut Vec<FieldError>) {
    let quantity = match Quantity::read(value) {
        Ok(quantity) => quantity,
        Err(Unusable::OutOfRange) => return,
        Err(Unusable::Malformed) => {
            let detail = "must be a quantity, for example 500m, 2 or 1.5Gi";
            errors.push(FieldError::invalid(path, value.clone(), detail));
            return;
        }
    };
    if quantity.is_negative() {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path, value.clone(), detail));
    }
    if is_extended(name) && !quantity.is_whole() {
        errors.push(FieldError::invalid(path, value.clone(), "must be an integer"));
    }
    let page = name.strip_prefix(HUGE_PAGES).map(|size| Quantity::read(&Value::from(size)));
    let divisible = match page {
        None | Some(Err(Unusable::OutOfRange)) => true,
        Some(Err(Unusable::Malformed)) => false,
        Some(Ok(page)) => !quantity.is_whole() || quantity.is_multiple_of(page),
    };
    if !divisible {
        let detail = format!("must be an integer multiple of the page size in the name {name}");
        errors.push(FieldError::invalid(path, value.clone(), detail));
    }
}

/// Compares a request with the limit of the same resource. A limit without a request is a request as well.
fn validate_pair(
    resources: &Part<'_>,
    name: &str,
    request: &Value,
    limit: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let overcommit = is_native(name) && !is_huge_pages(name);
    let Some(limit) = limit else {
        if !overcommit {
            let detail = format!("set the limit of {name} too: it cannot be overcommitted");
            errors.push(FieldError::required(resources.at("limits"), detail));
        }
        return;
    };
    let (Ok(requested), Ok(limited)) = (Quantity::read(request), Quantity::read(limit)) else {
        return;
    };
    let relation = match requested.cmp(&limited) {
        std::cmp::Ordering::Equal => return,
        _ if !overcommit => "equal to",
        std::cmp::Ordering::Greater => "less than or equal to",
        std::cmp::Ordering::Less => return,
    };
    let limit = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
    let detail = format!("must be {relation} {name} limit of {limit}");
    errors.push(FieldError::invalid(resources.at("requests"), request.clone(), detail));
}

fn validate_huge_pages(
    resources: &Part<'_>,
    amounts: [&Option<Part<'_>>; 2],
    errors: &mut Vec<FieldError>,
) {
    let has = |matches: fn(&str) -> bool| {
        let amounts = amounts.into_iter().flatten();
        amounts.flat_map(Part::entries).any(|(name, _)| matches(name))
    };
    if has(is_huge_pages) && !has(|name| ["cpu", "memory"].contains(&name)) {
        let detail = "HugePages require cpu or memory: request one of them too";
        errors.push(FieldError::forbidden(resources.path(), detail));
    }
}

fn validate_claims(resources: &Part<'_>, known: &Claims<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for claim in resources.parts("claims") {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errors.push(FieldError::required(claim.path(), "name one of podSpec.resourceClaims"));
            continue;
        }
        claim.form("request", syntax::dns_label, errors);
        // A claim without a request name includes each of its requests.
        let overlaps = |&(other, part): &(&str, &str)| {
            other == name && (part == request || part.is_empty() || request.is_empty())
        };
        if seen.iter().any(overlaps) {
            errors.push(FieldError::duplicate(claim.path(), name));
        }
        seen.insert((name, request));
        if known.complete && !known.names.contains(name) {
            errors.push(FieldError::not_found(claim.path(), name));
        }
    }
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether the resource belongs to Kubernetes itself.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && syntax::qualified_name(&format!("requests.{name}")).is_empty()
}
