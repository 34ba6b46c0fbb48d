//! The progress of a deployment, from watch events.
//!
//! Pure: takes changes with the time of their observation and returns the time at which each step was
//! reached. A step that is undone (a pod that is deleted again) does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Kinds that are counted besides pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Set,
    Clique,
    Group,
    Gang,
    Service,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Set, Self::Clique, Self::Group, Self::Gang, Self::Service];

    /// Path of the objects of this kind in a namespace of the API.
    pub(crate) fn path(self, namespace: &str) -> String {
        let (version, resource) = match self {
            Self::Set => ("apis/grove.io/v1alpha1", "podcliquesets"),
            Self::Clique => ("apis/grove.io/v1alpha1", "podcliques"),
            Self::Group => ("apis/grove.io/v1alpha1", "podcliquescalinggroups"),
            Self::Gang => ("apis/scheduler.grove.io/v1alpha1", "podgangs"),
            Self::Service => ("api/v1", "services"),
        };
        format!("/{version}/namespaces/{namespace}/{resource}")
    }

    fn word(self) -> &'static str {
        match self {
            Self::Set => "sets",
            Self::Clique => "cliques",
            Self::Group => "scaling groups",
            Self::Gang => "gangs",
            Self::Service => "services",
        }
    }
}

/// A change that a watch reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Pod { name: String, state: Option<Pod> },
    Object { kind: Kind, name: String, deleted: bool },
}

/// The fields of a pod that are needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pod {
    /// The base gang of the pod; none for pods of scaled gangs.
    pub(crate) base_gang: Option<String>,
    /// Whether the pod has our gate.
    pub(crate) gated: bool,
    /// Ready and not terminating.
    pub(crate) ready: bool,
}

/// The state to reach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Goal {
    /// Pods, all of them ready.
    pub(crate) pods: u32,
    /// Pods of a base gang.
    pub(crate) base_gang: u32,
    /// How many of each kind.
    pub(crate) objects: BTreeMap<Kind, u32>,
}

/// When each step was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    /// All pods of one base gang are ready.
    pub(crate) first_gang: Option<Duration>,
    /// All pods exist.
    pub(crate) pods: Option<Duration>,
    /// All gates are removed.
    pub(crate) ungated: Option<Duration>,
    /// All pods are ready.
    pub(crate) ready: Option<Duration>,
    /// The goal is reached.
    pub(crate) all: Option<Duration>,
}

/// The state of a namespace, and the steps to a goal.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pods: BTreeMap<String, Pod>,
    objects: BTreeMap<Kind, BTreeSet<String>>,
    ungated: u32,
    ready: u32,
    /// The lowest number of ready pods since the goal was set.
    fewest_ready: u32,
    ready_of_gang: BTreeMap<String, u32>,
    goal: Goal,
    marks: Marks,
}

impl Progress {
    /// Sets a goal.
    pub(crate) fn begin(&mut self, goal: Goal, at: Duration) {
        self.goal = goal;
        self.marks = Marks::default();
        self.fewest_ready = self.ready;
        self.mark(at);
    }

    /// Records a change that was observed at `at`.
    pub(crate) fn observe(&mut self, at: Duration, change: Change) {
        match change {
            Change::Pod { name, state } => self.replace_pod(&name, state, at),
            Change::Object { kind, name, deleted } => {
                let names = self.objects.entry(kind).or_default();
                if deleted {
                    names.remove(&name);
                } else {
                    names.insert(name);
                }
            }
        }
        self.fewest_ready = self.fewest_ready.min(self.ready);
        self.mark(at);
    }

    /// The lowest number of ready pods since the goal was set.
    pub(crate) fn fewest_ready(&self) -> u32 {
        self.fewest_ready
    }

    /// The steps reached so far.
    pub(crate) fn marks(&self) -> Marks {
        self.marks
    }

    fn replace_pod(&mut self, name: &str, state: Option<Pod>, at: Duration) {
        let before = match state {
            Some(pod) => {
                self.ungated += u32::from(!pod.gated);
                self.ready += u32::from(pod.ready);
                self.pods.insert(name.to_owned(), pod)
            }
            None => self.pods.remove(name),
        };
        let after = self.pods.get(name);
        if let Some(pod) = &before {
            self.ungated -= u32::from(!pod.gated);
            self.ready -= u32::from(pod.ready);
        }
        let was_ready = before.as_ref().is_some_and(|pod| pod.ready);
        let is_ready = after.is_some_and(|pod| pod.ready);
        let gang = after.or(before.as_ref()).and_then(|pod| pod.base_gang.clone());
        if let Some(gang) = gang.filter(|_| was_ready != is_ready) {
            let ready = self.ready_of_gang.entry(gang).or_default();
            if is_ready {
                *ready += 1;
                if *ready == self.goal.base_gang {
                    self.marks.first_gang.get_or_insert(at);
                }
            } else {
                *ready -= 1;
            }
        }
    }

    fn mark(&mut self, at: Duration) {
        let goal = self.goal.pods;
        let pods = self.count() == goal;
        let ready = self.ready == goal;
        let objects = self.goal.objects.iter().all(|(kind, count)| self.objects(*kind) == *count);
        for (mark, reached) in [
            (&mut self.marks.pods, pods),
            (&mut self.marks.ungated, self.ungated == goal),
            (&mut self.marks.ready, ready),
            (&mut self.marks.all, pods && ready && objects),
        ] {
            if reached {
                mark.get_or_insert(at);
            } else {
                *mark = None;
            }
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.pods.len()).unwrap_or(u32::MAX)
    }

    fn objects(&self, kind: Kind) -> u32 {
        let count = self.objects.get(&kind).map_or(0, BTreeSet::len);
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

/// Actual and expected numbers.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goal = self.goal.pods;
        write!(
            f,
            "{} of {goal} pods, {} ungated, {} ready",
            self.count(),
            self.ungated,
            self.ready
        )?;
        for (kind, count) in &self.goal.objects {
            write!(f, ", {} of {count} {}", self.objects(*kind), kind.word())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pod(name: &str, gang: Option<&str>, gated: bool, ready: bool) -> Change {
        let state = Pod { base_gang: gang.map(str::to_owned), gated, ready };
        Change::Pod { name: name.to_owned(), state: Some(state) }
    }

    fn deleted(name: &str) -> Change {
        Change::Pod { name: name.to_owned(), state: None }
    }

    fn gang(name: &str, deleted: bool) -> Change {
        Change::Object { kind: Kind::Gang, name: name.to_owned(), deleted }
    }

    fn goal(pods: u32, gangs: u32) -> Goal {
        Goal { pods, base_gang: 2, objects: [(Kind::Gang, gangs)].into() }
    }

    #[test]
    fn every_step_is_marked_when_it_is_reached() {
        let mut progress = Progress::default();
        progress.begin(goal(4, 2), at(0));
        let changes = [
            (1, gang("g0", false)),
            (2, pod("a", Some("g0"), true, false)),
            (3, pod("b", Some("g0"), true, false)),
            (4, pod("a", Some("g0"), false, false)),
            (5, pod("b", Some("g0"), false, false)),
            (6, pod("a", Some("g0"), false, true)),
            (7, pod("b", Some("g0"), false, true)),
            (8, pod("c", None, false, false)),
            (9, pod("d", None, false, true)),
            (10, pod("c", None, false, true)),
            (11, gang("g1", false)),
        ];
        for (seconds, change) in changes {
            progress.observe(at(seconds), change);
        }

        let marks = Marks {
            first_gang: Some(at(7)),
            pods: Some(at(9)),
            ungated: Some(at(9)),
            ready: Some(at(10)),
            all: Some(at(11)),
        };
        assert_eq!(progress.marks(), marks);
    }

    #[test]
    fn a_step_that_is_undone_counts_from_when_it_is_reached_again() {
        let mut progress = Progress::default();
        progress.begin(goal(2, 0), at(0));
        progress.observe(at(1), pod("a", None, false, true));
        progress.observe(at(2), pod("b", None, false, true));
        progress.observe(at(3), deleted("a"));
        assert_eq!(progress.marks().ready, None);
        progress.observe(at(4), pod("c", None, false, true));
        assert_eq!(progress.marks().ready, Some(at(4)));
    }

    #[test]
    fn the_first_gang_became_ready_after_the_goal_was_set() {
        let mut progress = Progress::default();
        progress.begin(goal(2, 0), at(0));
        progress.observe(at(1), pod("a", Some("g0"), false, true));
        progress.observe(at(2), pod("b", Some("g0"), false, true));
        progress.begin(goal(4, 0), at(3));
        progress.observe(at(4), pod("c", Some("g1"), false, true));
        assert_eq!(progress.marks().first_gang, None);
        progress.observe(at(5), pod("d", Some("g1"), false, true));
        assert_eq!(progress.marks().first_gang, Some(at(5)));
    }

    #[test]
    fn a_teardown_ends_when_all_objects_are_deleted() {
        let mut progress = Progress::default();
        progress.begin(goal(1, 1), at(0));
        progress.observe(at(1), gang("g0", false));
        progress.observe(at(2), pod("a", None, false, true));
        progress.begin(goal(0, 0), at(3));
        assert_eq!(progress.marks(), Marks::default());
        progress.observe(at(4), deleted("a"));
        assert_eq!((progress.marks().pods, progress.marks().all), (Some(at(4)), None));
        assert_eq!(progress.to_string(), "0 of 0 pods, 0 ungated, 0 ready, 1 of 0 gangs");
        progress.observe(at(5), gang("g0", true));
        assert_eq!(progress.marks().all, Some(at(5)));
    }

    #[test]
    fn a_goal_that_is_already_reached_is_reached_at_once() {
        let mut progress = Progress::default();
        progress.begin(goal(0, 0), at(6));
        assert_eq!(progress.marks().all, Some(at(6)));
    }
}
