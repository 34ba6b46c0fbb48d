//! The dependencies between the top-level modules of a crate, from paths that begin with `crate::`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The top-level modules that each top-level module uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Cycles between the top-level modules of the crate with these sources, without tests. Each module appears
/// in at most one cycle.
pub(super) fn cycles(sources: &Path) -> Result<Vec<String>> {
    let mut uses = Uses::new();
    read(sources, None, &mut uses)?;
    Ok(find_cycles(&uses))
}

fn read(folder: &Path, module: Option<&str>, uses: &mut Uses) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if ["tests", "testkit", "proptests"].contains(&stem) {
            continue;
        }
        let module = module.unwrap_or(stem);
        if path.is_dir() {
            read(&path, Some(module), uses)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") && module != "lib" {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            uses.entry(module.to_owned()).or_default().extend(used(without_tests(&text)));
        }
    }
    Ok(())
}

/// Inline test modules stand at the end of a file.
fn without_tests(text: &str) -> &str {
    let mut ends = text.match_indices("#[cfg(test)]\n").filter(|(at, attribute)| {
        let item = text[at + attribute.len()..].lines().next().unwrap_or_default();
        item.contains("mod ") && item.ends_with('{')
    });
    ends.next().map_or(text, |(at, _)| &text[..at])
}

/// The first segments of all paths after `crate::`, including those in braces.
fn used(text: &str) -> BTreeSet<String> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let paths = code.match_indices("crate::").map(|(at, crate_)| &code[at + crate_.len()..]);
    paths.flat_map(first_names).collect()
}

fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(list) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut depth, mut names, mut begin) = (1, Vec::new(), 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            names.push(name(&list[begin..at]));
            begin = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn find_cycles(uses: &Uses) -> Vec<String> {
    let mut named = BTreeSet::new();
    let mut cycles = Vec::new();
    for start in uses.keys() {
        let Some(cycle) = path_back(uses, start, &mut vec![start]) else { continue };
        if !cycle.iter().any(|module| named.contains(module)) {
            cycles.push(format!("modules use each other in a circle: {}", cycle.join(" -> ")));
        }
        named.extend(cycle);
    }
    cycles
}

/// A path from the first module back to itself.
fn path_back<'a>(uses: &'a Uses, start: &str, path: &mut Vec<&'a str>) -> Option<Vec<&'a str>> {
    let here = *path.last()?;
    for next in uses.get(here).into_iter().flatten().filter(|next| *next != here) {
        if next == start {
            let first = path.first().copied();
            return Some(path.iter().copied().chain(first).collect());
        }
        if !path.contains(&next.as_str()) {
            path.push(next);
            let found = path_back(uses, start, path);
            path.pop();
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        used(without_tests(text)).into_iter().collect()
    }

    #[test]
    fn every_way_to_write_a_path_counts() {
        assert_eq!(names("use crate::status;"), ["status"]);
        assert_eq!(names("use crate::{\n    a::{self, b},\n    c,\n};"), ["a", "c"]);
        assert_eq!(names("fn f() -> crate::gang::Phase {}"), ["gang"]);
    }

    #[test]
    fn comments_and_tests_do_not_count() {
        assert_eq!(names("//! See [`crate::status`].\nuse crate::a; // crate::b"), ["a"]);
        assert_eq!(names("use crate::a;\n#[cfg(test)]\nmod tests {\n use crate::b; }"), ["a"]);
        assert_eq!(names("#[cfg(test)]\nmod tests;\nuse crate::a;"), ["a"]);
    }

    #[test]
    fn a_cycle_is_reported_once_with_its_path() {
        let uses = [("a", vec!["b"]), ("b", vec!["c", "b"]), ("c", vec!["a"]), ("d", vec!["a"])];
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let mut uses: Uses =
            uses.into_iter().map(|(name, used)| (name.to_owned(), owned(used))).collect();
        let expected = ["modules use each other in a circle: a -> b -> c -> a"];
        assert_eq!(find_cycles(&uses), expected);
        uses.remove("c");
        assert_eq!(find_cycles(&uses), [""; 0]);
    }
}
