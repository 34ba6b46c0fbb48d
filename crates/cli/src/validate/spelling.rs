//! Suggestions for a field that does not exist.

/// Fewer changes than this turn a misspelt name into the right one.
const LIKELY: usize = 3;

/// The message about an unknown field, with the name that was probably meant.
pub(super) fn unknown_field(path: &str, known: &[&str]) -> String {
    let name = path.rsplit_once('.').map_or(path, |(_, name)| name);
    let nearest = known.iter().map(|known| (distance(name, known), *known)).min();
    match nearest.filter(|(distance, known)| *distance < LIKELY && *distance < known.len()) {
        Some((_, known)) => format!("unknown field {name:?}: did you mean {known:?}?"),
        None => format!("unknown field {name:?}: remove it"),
    }
}

/// Letters to insert, delete or replace; upper and lower case count as equal.
fn distance(one: &str, other: &str) -> usize {
    let [one, other] = [one, other].map(|text| text.to_lowercase().chars().collect::<Vec<_>>());
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, candidate) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != candidate);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_was_probably_meant_is_shown() {
        let known = ["containers", "initContainers", "name", "image", "imagePullPolicy"];
        for (path, expected) in [
            ("spec.contianers", "unknown field \"contianers\": did you mean \"containers\"?"),
            ("Name", "unknown field \"Name\": did you mean \"name\"?"),
            ("spec.schedulingPolicy", "unknown field \"schedulingPolicy\": remove it"),
        ] {
            assert_eq!(unknown_field(path, &known), expected);
        }
        assert_eq!(unknown_field("a", &[]), "unknown field \"a\": remove it");
    }
}
