//! Failures of replicas and gangs, which have no status of their own for them: their sets report them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use grove_api::error_code::LastError;
use grove_core::status::aggregate;
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::ObjectKey;

use super::replica::ReplicaKey;

/// Failures by replica and by gang. Kept in memory: after a restart every reconcile records its failure again.
pub(crate) struct Problems {
    by_replica: Mutex<BTreeMap<ReplicaKey, LastError>>,
    by_gang: Mutex<BTreeMap<GangKey, BackendProblem>>,
    sets: Queue<ObjectKey>,
}

/// A gang of a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GangKey {
    pub(crate) set: ObjectKey,
    pub(crate) name: String,
}

/// Why a scheduler does not do what a gang or a set requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendProblem {
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl BackendProblem {
    /// Reason and message.
    pub(crate) fn parts(&self) -> (&str, &str) {
        (&self.reason, &self.message)
    }
}

impl Problems {
    /// No failures yet. A change wakes its set in `sets`.
    pub(crate) fn new(sets: Queue<ObjectKey>) -> Self {
        Self { by_replica: Mutex::default(), by_gang: Mutex::default(), sets }
    }

    /// Records the failure of a replica, or that it has none.
    pub(crate) fn record_replica(&self, replica: &ReplicaKey, error: Option<LastError>) {
        let changed = {
            let mut known = self.by_replica.lock().unwrap_or_else(PoisonError::into_inner);
            let before = known.get(replica).map(|known| known.description.clone());
            let after = error.as_ref().map(|error| error.description.clone());
            match error {
                Some(error) => known.insert(replica.clone(), error),
                None => known.remove(replica),
            };
            before != after
        };
        if changed {
            self.sets.want(replica.set.clone(), Priority::ChildChange);
        }
    }

    /// Records the failure of a gang with its scheduler, or that it has none.
    pub(crate) fn record_gang(&self, gang: &GangKey, problem: Option<BackendProblem>) {
        let changed = {
            let mut known = self.by_gang.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = known.get(gang) != problem.as_ref();
            match problem {
                Some(problem) => known.insert(gang.clone(), problem),
                None => known.remove(gang),
            };
            changed
        };
        if changed {
            self.sets.want(gang.set.clone(), Priority::ChildChange);
        }
    }

    /// Forgets a gang that is deleted.
    pub(crate) fn forget_gang(&self, gang: &ObjectKey) {
        let mut known = self.by_gang.lock().unwrap_or_else(PoisonError::into_inner);
        let sets: Vec<ObjectKey> = known
            .extract_if(.., |key, _| *key.name == *gang.name && key.set.namespace == gang.namespace)
            .map(|(key, _)| key.set)
            .collect();
        drop(known);
        for set in sets {
            self.sets.want(set, Priority::ChildChange);
        }
    }

    /// The first failure of the gangs of a set with their scheduler, and how many more there are.
    pub(crate) fn with_scheduler(&self, set: &ObjectKey) -> Option<BackendProblem> {
        let known = self.by_gang.lock().unwrap_or_else(PoisonError::into_inner);
        let first = GangKey { set: set.clone(), name: String::new() };
        let mut of_set = known.range(first..).take_while(|(gang, _)| gang.set == *set);
        let (gang, problem) = of_set.next()?;
        let more = match of_set.count() {
            0 => String::new(),
            1 => " (and one more gang)".to_owned(),
            more => format!(" (and {more} more gangs)"),
        };
        let message = format!("PodGang {}: {}{more}", gang.name, problem.message);
        Some(BackendProblem { message, reason: problem.reason.clone() })
    }

    /// The failures of the replicas of a set: one of each code, with the number of replicas.
    pub(crate) fn of_replicas(&self, set: &ObjectKey) -> Vec<LastError> {
        let known = self.by_replica.lock().unwrap_or_else(PoisonError::into_inner);
        let first = ReplicaKey { set: set.clone(), index: 0 };
        let of_set = known.range(first..).take_while(|(replica, _)| replica.set == *set);
        let of_set: Vec<_> =
            of_set.map(|(replica, problem)| (replica.index.to_string(), problem)).collect();
        let errors = of_set.iter().map(|(name, one)| (name.as_str(), std::slice::from_ref(*one)));
        aggregate("replica", errors)
    }
}

#[cfg(test)]
mod tests {
    use grove_runtime::clock::Clock;
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_set_reports_the_first_failure_of_its_gangs_and_counts_the_rest() {
        let sets = Queue::new(Clock::at(Timestamp::UNIX_EPOCH));
        let problems = Problems::new(sets);
        let (set, other) = (ObjectKey::new("n", "a"), ObjectKey::new("n", "b"));
        let gang =
            |set: &ObjectKey, name: &str| GangKey { set: set.clone(), name: name.to_owned() };
        let problem = |message: &str| {
            Some(BackendProblem { reason: "Refused".into(), message: message.to_owned() })
        };
        problems.record_gang(&gang(&set, "a-1"), problem("second"));
        problems.record_gang(&gang(&set, "a-0"), problem("first"));
        problems.record_gang(&gang(&other, "b-0"), problem("theirs"));

        let reported = problems.with_scheduler(&set).unwrap();
        assert_eq!(reported.parts(), ("Refused", "PodGang a-0: first (and one more gang)"));
        problems.record_gang(&gang(&set, "a-0"), None);
        let reported = problems.with_scheduler(&set).unwrap();
        assert_eq!(reported.message, "PodGang a-1: second");
        problems.forget_gang(&ObjectKey::new("n", "a-1"));
        assert_eq!(problems.with_scheduler(&set), None);
        assert!(problems.with_scheduler(&other).is_some());
    }
}
