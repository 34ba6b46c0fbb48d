//! When to renew which certificate: the whole rotation, without IO, keys or clocks.
//!
//! ```text
//!            signer due                  every webhook carries it
//!            or unusable                 for the whole overlap
//!   [A]*A ─────────────► [A, B]*A ───────────────────────────────► [B, A]*B ──────► [B]*B
//!          announce B                  switch signer and leaf       retire A, once no
//!                                                                   leaf of A can be alive
//!   [trusted CAs]*signer of the leaf
//! ```
//!
//! A client that follows the published bundle within the overlap trusts every certificate that is
//! served, at every point. Without a usable leaf nothing can get worse, so it is replaced at once.
//! Each step is one write of the Secret; a crash between two of them leaves one of the states
//! above.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// When certificates are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// How long a serving certificate is valid.
    pub leaf_valid_for: Duration,
    /// How long after its issue it is replaced. Less than `leaf_valid_for`.
    pub leaf_renew_after: Duration,
    /// How long a CA certificate is valid.
    pub ca_valid_for: Duration,
    /// How long after its issue a successor is announced. Less than `ca_valid_for`.
    pub ca_renew_after: Duration,
    /// How long every webhook configuration must carry a new CA before anything signed by it is served: the
    /// time in which all API servers observe the change.
    pub overlap: Duration,
    /// How long a former CA stays trusted after the switch, for replicas that still serve its leaf.
    pub retire_after: Duration,
}

impl Default for Schedule {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            leaf_valid_for: 24 * HOUR,
            leaf_renew_after: 12 * HOUR,
            ca_valid_for: 365 * 24 * HOUR,
            ca_renew_after: 240 * 24 * HOUR,
            overlap: HOUR / 6,
            retire_after: 24 * HOUR,
        }
    }
}

/// Identity of a CA certificate: its encoding.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CaId(pub(super) Arc<[u8]>);

impl fmt::Debug for CaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A certificate ends with its signature, which identifies it.
        let tail = self.0.len().saturating_sub(4);
        write!(f, "{:02x?}", &self.0[tail..])
    }
}

/// Validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

impl Validity {
    pub(super) fn covers(&self, now: Timestamp) -> bool {
        self.not_before <= now && now < self.not_after
    }

    /// Whether the certificate expires within `margin`.
    fn ends_within(&self, margin: Duration, now: Timestamp) -> bool {
        now.checked_add(margin).is_ok_and(|then| self.not_after <= then)
    }
}

/// The state of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The serving certificate, if it can be served at all.
    pub(super) leaf: Option<LeafFacts>,
    /// The CAs that are published.
    pub(super) trusted: Vec<(CaId, Validity)>,
    /// The published CA whose key signs leaves.
    pub(super) signer: Option<CaId>,
    /// The published CA whose key will sign leaves.
    pub(super) next: Option<CaId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeafFacts {
    pub(super) validity: Validity,
    /// The published CA that signed it.
    pub(super) issuer: Option<CaId>,
    /// Whether it is valid for every required name.
    pub(super) names_complete: bool,
}

impl Facts {
    fn validity(&self, id: &CaId) -> Option<Validity> {
        self.trusted.iter().find(|(trusted, _)| trusted == id).map(|(_, validity)| *validity)
    }

    fn valid<'a>(&self, id: Option<&'a CaId>, now: Timestamp) -> Option<(&'a CaId, Validity)> {
        let id = id?;
        self.validity(id).filter(|validity| validity.covers(now)).map(|validity| (id, validity))
    }
}

/// Ages of the current values on this process's monotonic clock, which a suspended machine or a changed
/// wall clock does not distort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ages {
    /// The leaf.
    pub(super) leaf: Duration,
    /// How long every webhook configuration has carried exactly the published bundle; none while one does
    /// not.
    pub(super) published: Option<Duration>,
    /// The signer.
    pub(super) signer: Duration,
}

/// The next write of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing.
    Keep,
    /// A new CA and a leaf signed by it, at once: nothing usable exists.
    Found,
    /// A new leaf signed by the current signer.
    IssueLeaf,
    /// A new CA beside the current one.
    Announce,
    /// The announced CA becomes the signer and issues the leaf.
    Switch,
    /// These CAs are no longer trusted.
    Retire(Vec<CaId>),
}

/// Decides the next write.
pub(super) fn decide(facts: &Facts, ages: Ages, now: Timestamp, schedule: &Schedule) -> Step {
    let signer = facts.valid(facts.signer.as_ref(), now);
    let next = facts.valid(facts.next.as_ref(), now);
    let usable = facts.leaf.as_ref().filter(|leaf| {
        leaf.validity.covers(now) && facts.valid(leaf.issuer.as_ref(), now).is_some()
    });
    let Some(leaf) = usable else {
        return match (signer, next) {
            (Some(_), _) => Step::IssueLeaf,
            (None, Some(_)) => Step::Switch,
            (None, None) => Step::Found,
        };
    };
    if next.is_some() {
        if ages.published.is_some_and(|age| age >= schedule.overlap) {
            return Step::Switch;
        }
    } else if signer.is_none_or(|(_, validity)| ca_due(validity, now, schedule)) {
        return Step::Announce;
    }
    if let Some((id, validity)) = signer
        && (leaf.issuer.as_ref() != Some(id) || leaf_due(leaf, validity, ages, now, schedule))
    {
        return Step::IssueLeaf;
    }
    let retired = retired(facts, leaf, ages, now, schedule);
    if retired.is_empty() { Step::Keep } else { Step::Retire(retired) }
}

fn ca_due(signer: Validity, now: Timestamp, schedule: &Schedule) -> bool {
    signer.ends_within(schedule.ca_valid_for.saturating_sub(schedule.ca_renew_after), now)
}

fn leaf_due(
    leaf: &LeafFacts,
    signer: Validity,
    ages: Ages,
    now: Timestamp,
    schedule: &Schedule,
) -> bool {
    let margin = schedule.leaf_valid_for.saturating_sub(schedule.leaf_renew_after);
    // A leaf expires no later than its CA, so a renewal must extend its validity.
    let gains = leaf.validity.not_after < signer.not_after;
    !leaf.names_complete
        || ages.leaf >= schedule.leaf_renew_after
        || (gains && leaf.validity.ends_within(margin, now))
}

fn retired(
    facts: &Facts,
    leaf: &LeafFacts,
    ages: Ages,
    now: Timestamp,
    schedule: &Schedule,
) -> Vec<CaId> {
    let settled = ages.signer >= schedule.retire_after;
    let needed = [facts.signer.as_ref(), facts.next.as_ref(), leaf.issuer.as_ref()];
    facts
        .trusted
        .iter()
        .filter(|(id, _)| !needed.contains(&Some(id)))
        .filter(|(_, validity)| settled || now >= validity.not_after)
        .map(|(id, _)| id.clone())
        .collect()
}

#[cfg(test)]
mod tests;
