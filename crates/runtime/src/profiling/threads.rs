//! Processor time of every thread of this process, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

/// Unit of the kernel's times on every supported architecture.
const TICK: Duration = Duration::from_millis(10);

/// Name and processor time by thread id.
pub(super) type Times = BTreeMap<u64, (String, Duration)>;

pub(super) fn times() -> io::Result<Times> {
    let mut times = Times::new();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        // A thread may end between the listing and the reading.
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else { continue };
        if let Some((id, name, time)) = parse(&stat) {
            times.insert(id, (name, time));
        }
    }
    Ok(times)
}

/// Returns the time that each name spent between two readings, largest first. Threads of one name count
/// together.
pub(super) fn spent(before: &Times, after: &Times) -> Vec<(String, Duration)> {
    let mut by_name: BTreeMap<&str, Duration> = BTreeMap::new();
    for (id, (name, time)) in after {
        let earlier = before.get(id).map(|(_, time)| *time).unwrap_or_default();
        *by_name.entry(name).or_default() += time.saturating_sub(earlier);
    }
    let mut spent: Vec<(String, Duration)> =
        by_name.into_iter().map(|(name, time)| (name.to_owned(), time)).collect();
    spent.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    spent
}

/// Parses `id (name) state …`. The name may contain anything, so it ends at the last parenthesis. User and
/// system time are the 14th and 15th field; the state is the third.
fn parse(stat: &str) -> Option<(u64, String, Duration)> {
    let (id, rest) = stat.split_once(" (")?;
    let (name, fields) = rest.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let time = TICK * (ticks()? + ticks()?);
    Some((id.parse().ok()?, name.to_owned(), time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_and_spaces_are_read() {
        let stat = "42 (tokio (1) x) S 1 2 3 4 5 6 7 8 9 10 7 5 0 0 20 0 9";
        assert_eq!(parse(stat), Some((42, "tokio (1) x".into(), Duration::from_millis(120))));
        assert_eq!(parse("garbage"), None);
    }

    #[test]
    fn threads_of_one_name_count_together_and_new_ones_from_zero() {
        let thread = |name: &str, ms| (name.to_owned(), Duration::from_millis(ms));
        let before = Times::from([(1, thread("main", 100)), (2, thread("worker", 50))]);
        let after = Times::from([
            (1, thread("main", 110)),
            (2, thread("worker", 80)),
            (3, thread("worker", 20)),
        ]);
        assert_eq!(spent(&before, &after), [thread("worker", 50), thread("main", 10)]);
    }
}
