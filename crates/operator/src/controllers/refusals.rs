//! Pods that the API server refused, and when to try again.
//!
//! A refusal lasts until a user changes the template, a policy or a quota. A changed template is tried at
//! once; other changes are found by retries with growing delays. Events about other pods, and our own
//! status writes, do not make an attempt.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grove_runtime::backoff::Backoff;
use grove_runtime::clock::Instant;
use grove_runtime::resource::ObjectKey;
use grove_runtime::rng::Rng;

use crate::controllers::error::ReconcileError;

/// From a second to two minutes.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(120) };

/// The last refusal of each object whose pods were refused. Kept in memory: after a restart, one attempt finds
/// out again.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<ObjectKey, Refusal>>);

/// A refused attempt.
#[derive(Clone)]
pub(crate) struct Refusal {
    /// What was refused: another template is another attempt.
    template: String,
    failures: u32,
    pub(crate) retry_at: Instant,
    pub(crate) error: ReconcileError,
}

impl Refusals {
    /// The refusal that still holds for the template of an object.
    pub(crate) fn get(&self, owner: &ObjectKey, template: &str, now: Instant) -> Option<Refusal> {
        let all = self.lock();
        let refusal = all.get(owner).filter(|refusal| refusal.template == template)?;
        (refusal.retry_at > now).then(|| refusal.clone())
    }

    /// Records that the template of an object was refused. Returns when to try again.
    pub(crate) fn record(
        &self,
        owner: &ObjectKey,
        template: &str,
        error: &ReconcileError,
        now: Instant,
        rng: &Rng,
    ) -> Instant {
        let mut all = self.lock();
        let before = all.get(owner).filter(|refusal| refusal.template == template);
        let failures = before.map_or(0, |refusal| refusal.failures).saturating_add(1);
        let retry_at = now + BACKOFF.after(failures, rng);
        let (template, error) = (template.to_owned(), error.clone());
        all.insert(owner.clone(), Refusal { template, failures, retry_at, error });
        retry_at
    }

    /// Forgets an object that is deleted, or whose pods were accepted.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.lock().remove(owner);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use grove_api::error_code::ErrorCode;

    use super::*;

    #[test]
    fn a_refused_template_is_tried_again_with_growing_delays_and_another_one_at_once() {
        let (refusals, rng, owner) =
            (Refusals::default(), Rng::seeded(1), ObjectKey::new("n", "a"));
        let error = ReconcileError::rule(ErrorCode::CreatePod, "no image");
        let mut now = Instant::START;
        let mut before = Duration::ZERO;
        for attempt in 1..=7 {
            assert!(refusals.get(&owner, "1", now).is_none(), "attempt {attempt} is due");
            let retry_at = refusals.record(&owner, "1", &error, now, &rng);
            let wait = retry_at.since(now);
            assert!(wait > before, "{wait:?} after {before:?}");
            assert!(refusals.get(&owner, "1", now).is_some());
            assert!(refusals.get(&owner, "2", now).is_none(), "another template");
            (before, now) = (wait, retry_at);
        }
        let retry_at = refusals.record(&owner, "2", &error, now, &rng);
        assert!(retry_at.since(now) <= Duration::from_secs(1), "the count starts again");
        refusals.forget(&owner);
        assert!(refusals.get(&owner, "2", now).is_none());
    }
}
