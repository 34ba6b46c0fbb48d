//! Counts the ready pods of the parents.

use std::fmt;

use crate::parent::Parents;

/// Ready pods per parent at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress(Vec<Count>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Count {
    parent: String,
    ready: u32,
    minimum: u32,
}

impl Count {
    fn done(&self) -> bool {
        self.ready >= self.minimum
    }
}

impl Progress {
    /// Counts the pods of each parent. `counted` has the PodClique of each ready pod; other cliques are
    /// ignored.
    pub(crate) fn of<'a>(
        parents: &Parents,
        counted: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
    ) -> Self {
        let counted = counted.into_iter();
        let count = |(parent, minimum): (&str, u32)| {
            let ready = counted.clone().filter(|clique| *clique == parent).count();
            let ready = u32::try_from(ready).unwrap_or(u32::MAX);
            Count { parent: parent.to_owned(), ready, minimum }
        };
        Self(parents.iter().map(count).collect())
    }

    /// Whether every parent has its minimum at this moment.
    pub(crate) fn done(&self) -> bool {
        self.0.iter().all(Count::done)
    }
}

/// `a 1/2 ready, b done`.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, count) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", count.parent)?;
            if count.done() {
                f.write_str(" done")?;
            } else {
                write!(f, " {}/{} ready", count.ready, count.minimum)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parent::Parent;

    fn parents(texts: &[&str]) -> Parents {
        texts.iter().map(|text| text.parse::<Parent>().unwrap()).collect()
    }

    #[test]
    fn every_parent_needs_its_minimum_at_the_same_time() {
        let two = ["x-0-a:2", "x-0-b:1"];
        let cases: [(&[&str], &[&str], bool, &str); 8] = [
            (&two, &[], false, "x-0-a 0/2 ready, x-0-b 0/1 ready"),
            (&two, &["x-0-a"], false, "x-0-a 1/2 ready, x-0-b 0/1 ready"),
            (&two, &["x-0-a", "x-0-a"], false, "x-0-a done, x-0-b 0/1 ready"),
            (&two, &["x-0-a", "x-0-b"], false, "x-0-a 1/2 ready, x-0-b done"),
            (&two, &["x-0-b", "x-0-a", "x-0-a"], true, "x-0-a done, x-0-b done"),
            (&two, &["x-0-a"; 9], false, "x-0-a done, x-0-b 0/1 ready"),
            (&["x-0-a:1"], &["x-0-a-b", "x-0", "x-0-aa", ""], false, "x-0-a 0/1 ready"),
            (&["x-0-a:1", "x-0-a-b:1"], &["x-0-a-b"], false, "x-0-a 0/1 ready, x-0-a-b done"),
        ];
        for (texts, counted, done, said) in cases {
            let progress = Progress::of(&parents(texts), counted.iter().copied());
            assert_eq!(
                (progress.done(), progress.to_string().as_str()),
                (done, said),
                "{counted:?}"
            );
        }
    }

    /// Few names, many of them prefixes of others.
    fn clique() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["x-0-a", "x-0-a-b", "x-0-ab", "x-0", "x-1-a", "x-0-b"])
    }

    fn some_parents() -> impl Strategy<Value = Vec<(&'static str, u32)>> {
        prop::collection::vec((clique(), 1_u32..4), 1..4)
    }

    fn made(parents: &[(&str, u32)]) -> Parents {
        let texts: Vec<String> =
            parents.iter().map(|(name, minimum)| format!("{name}:{minimum}")).collect();
        texts.iter().map(|text| text.parse::<Parent>().unwrap()).collect()
    }

    proptest! {
        #[test]
        fn done_means_that_every_parent_has_its_minimum(
            wanted in some_parents(),
            counted in prop::collection::vec(clique(), 0..12),
        ) {
            let lacking = wanted.iter().any(|(name, minimum)| {
                let ready = counted.iter().filter(|clique| *clique == name).count();
                ready < usize::try_from(*minimum).unwrap()
            });
            let progress = Progress::of(&made(&wanted), counted.iter().copied());
            prop_assert_eq!(progress.done(), !lacking);
            prop_assert_eq!(progress.done(), !progress.to_string().contains(" ready"));
        }

        #[test]
        fn the_order_of_pods_and_pods_of_other_cliques_do_not_matter(
            wanted in some_parents(),
            counted in prop::collection::vec(clique(), 0..12),
        ) {
            let parents = made(&wanted);
            let all = Progress::of(&parents, counted.iter().copied());
            let own = counted.iter().rev().copied()
                .filter(|clique| wanted.iter().any(|(name, _)| name == clique));
            prop_assert_eq!(all, Progress::of(&parents, own));
        }

        #[test]
        fn one_more_ready_pod_never_makes_a_parent_incomplete(
            wanted in some_parents(),
            mut counted in prop::collection::vec(clique(), 0..12),
            one_more in clique(),
        ) {
            let parents = made(&wanted);
            let before = Progress::of(&parents, counted.iter().copied()).done();
            counted.push(one_more);
            let after = Progress::of(&parents, counted.iter().copied()).done();
            prop_assert!(!before || after);
        }
    }
}
