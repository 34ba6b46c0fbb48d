//! The parent cliques to wait for, as on the command line.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A PodClique and how many ready pods it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(crate) pod_clique: String,
    pub(crate) minimum: NonZeroU32,
}

/// Why a text is not a [`Parent`]. The caller adds the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParentError {
    #[error("write the name of a PodClique, a colon and a number, such as web-0-leader:2")]
    NoColon,
    #[error("{0:?} cannot be the name of a PodClique")]
    Name(String),
    #[error("{0:?} is not a positive number of pods")]
    Minimum(String),
}

impl FromStr for Parent {
    type Err = ParentError;

    fn from_str(text: &str) -> Result<Self, ParentError> {
        let (name, minimum) = text.split_once(':').ok_or(ParentError::NoColon)?;
        if !can_name_an_object(name) {
            return Err(ParentError::Name(name.to_owned()));
        }
        let minimum = minimum.parse().map_err(|_| ParentError::Minimum(minimum.to_owned()))?;
        Ok(Self { pod_clique: name.to_owned(), minimum })
    }
}

impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pod_clique, self.minimum)
    }
}

/// Refuses names that no object can have: a mistyped name would be waited for without end.
fn can_name_an_object(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253 && name.starts_with(outer) && name.ends_with(outer) && name.chars().all(inner)
}

/// All parents by name, each with its minimum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parents(BTreeMap<String, u32>);

impl Parents {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(name, minimum)| (name.as_str(), *minimum))
    }
}

/// A parent that is named twice needs the larger minimum.
impl FromIterator<Parent> for Parents {
    fn from_iter<I: IntoIterator<Item = Parent>>(parents: I) -> Self {
        let mut all = BTreeMap::new();
        for parent in parents {
            let minimum = all.entry(parent.pod_clique).or_insert(0);
            *minimum = parent.minimum.get().max(*minimum);
        }
        Self(all)
    }
}

/// `a (2 ready), b (1 ready)`.
impl fmt::Display for Parents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, minimum)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{name} ({minimum} ready)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_minimum_are_parsed() {
        for (text, name, minimum) in
            [("x-0-a:1", "x-0-a", 1), ("a:10", "a", 10), ("a.b-0:4294967295", "a.b-0", u32::MAX)]
        {
            let parent: Parent = text.parse().unwrap();
            assert_eq!((parent.pod_clique.as_str(), parent.minimum.get()), (name, minimum));
        }
    }

    #[test]
    fn an_invalid_parent_is_refused_with_the_reason() {
        let name = |text: &str| ParentError::Name(text.to_owned());
        let minimum = |text: &str| ParentError::Minimum(text.to_owned());
        let cases = [
            ("", ParentError::NoColon),
            ("x-0-a", ParentError::NoColon),
            (":1", name("")),
            ("X-0-a:1", name("X-0-a")),
            ("-a:1", name("-a")),
            ("a-:1", name("a-")),
            (" a:1", name(" a")),
            ("a/b:1", name("a/b")),
            ("x-0-a:", minimum("")),
            ("x-0-a:0", minimum("0")),
            ("x-0-a:-1", minimum("-1")),
            ("x-0-a:1.5", minimum("1.5")),
            ("x-0-a:two", minimum("two")),
            ("x-0-a:1:2", minimum("1:2")),
            ("x-0-a:4294967296", minimum("4294967296")),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Parent>().unwrap_err(), expected, "{text:?}");
        }
        let long = "a".repeat(254);
        assert_eq!(format!("{long}:1").parse::<Parent>().unwrap_err(), name(&long));
    }

    #[test]
    fn a_parent_named_twice_needs_the_larger_minimum() {
        let parents: Parents =
            ["b:1", "a:3", "a:2"].map(|text| text.parse::<Parent>().unwrap()).into_iter().collect();
        assert_eq!(parents.to_string(), "a (3 ready), b (1 ready)");
    }
}
