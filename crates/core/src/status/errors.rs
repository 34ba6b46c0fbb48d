//! `status.lastErrors` of a set: its own errors and those of its children, with a limited size.

use std::collections::BTreeMap;

use grove_api::condition::bounded_text;
use grove_api::error_code::LastError;

/// Maximum length of a description, which keeps the status readable and storable.
const MAX_DESCRIPTION: usize = 1024;
/// Entries of one status.
const MAX_ENTRIES: usize = 16;

/// The errors of several objects of one kind, one for each code: the first by name, and how many other objects
/// have it.
pub fn aggregate<'a>(
    kind: &str,
    objects: impl IntoIterator<Item = (&'a str, &'a [LastError])>,
) -> Vec<LastError> {
    let mut by_code = BTreeMap::<&str, (LastError, usize)>::new();
    for (name, errors) in objects {
        for error in errors {
            let entry = by_code.entry(error.code.as_str());
            entry.and_modify(|(_, more)| *more += 1).or_insert_with(|| {
                let description = format!("{kind} {name}: {}", error.description);
                (LastError { description, ..error.clone() }, 0)
            });
        }
    }
    let with_count = |(mut error, more): (LastError, usize)| {
        if more > 0 {
            let first = bounded_text(&error.description, MAX_DESCRIPTION - 64);
            error.description = format!("{first} (and {more} more {kind}s)");
        }
        error
    };
    by_code.into_values().map(with_count).collect()
}

/// Limits the number of entries and the length of their descriptions.
pub(super) fn bounded(errors: &[LastError]) -> Vec<LastError> {
    let short = |error: &LastError| LastError {
        description: bounded_text(&error.description, MAX_DESCRIPTION).into_owned(),
        ..error.clone()
    };
    errors.iter().take(MAX_ENTRIES).map(short).collect()
}

#[cfg(test)]
mod tests {
    use grove_api::error_code::ErrorCode;

    use super::*;

    fn error(code: ErrorCode, description: &str) -> LastError {
        LastError { code, description: description.to_owned(), ..LastError::default() }
    }

    #[test]
    fn errors_of_many_children_are_aggregated_by_code() {
        let refused = [error(ErrorCode::CreatePod, "no image")];
        let both = [refused[0].clone(), error(ErrorCode::SyncPclqResourceClaim, "no template")];
        let parts = [("a", &refused[..]), ("b", &both[..]), ("c", &refused[..]), ("d", &[][..])];
        let texts: Vec<_> =
            aggregate("PodClique", parts).into_iter().map(|one| one.description).collect();
        assert_eq!(
            texts,
            ["PodClique a: no image (and 2 more PodCliques)", "PodClique b: no template"]
        );
    }

    #[test]
    fn errors_never_exceed_the_limits_of_a_status() {
        let long = error(ErrorCode::CreatePod, &"ä".repeat(100_000));
        let many = vec![long; 1_000];
        let stored = bounded(&many);
        assert_eq!(stored.len(), MAX_ENTRIES);
        assert!(stored[0].description.len() <= MAX_DESCRIPTION);
        assert!(stored[0].description.ends_with("… (cut, 200000 bytes in all)"));
        let parts = many.iter().map(|one| ("a", std::slice::from_ref(one)));
        let all = aggregate("PodClique", parts);
        assert_eq!(all.len(), 1);
        assert!(all[0].description.len() <= MAX_DESCRIPTION);
        assert!(all[0].description.ends_with("(and 999 more PodCliques)"));
    }
}
