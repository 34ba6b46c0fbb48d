//! What the test harness said, added up.

use std::fmt;

/// Numbers of tests over any number of test programs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Test programs that reported a result.
    pub(crate) runs: usize,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// Tests that the harness left out because they are for the real control plane.
    pub(crate) ignored: usize,
    pub(crate) skipped: usize,
}

impl Summary {
    /// Adds up every `test result:` line.
    pub(crate) fn parse(output: &str) -> Self {
        let mut sum = Self::default();
        // A test that writes without a line end may stand before the result on its line.
        let results = output.lines().filter_map(|line| line.split_once("test result: "));
        for (_, result) in results {
            sum.runs += 1;
            sum.passed += number(result, "passed");
            sum.failed += number(result, "failed");
            sum.ignored += number(result, "ignored");
        }
        sum
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.skipped += other.skipped;
    }

    /// Whether there was no test at all, not even one that was left out.
    pub(crate) fn is_empty(&self) -> bool {
        self.passed + self.failed + self.ignored + self.skipped == 0
    }

    /// The tests left out so far will not be run by anyone.
    pub(crate) fn skip_ignored(&mut self) {
        self.skipped += std::mem::take(&mut self.ignored);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The number before a word in `ok. 3 passed; 0 failed; …`.
fn number(result: &str, word: &str) -> usize {
    let mut words = result.split([' ', ';']).filter(|word| !word.is_empty()).peekable();
    while let Some(current) = words.next() {
        if words.peek() == Some(&word) {
            return current.parse().unwrap_or(0);
        }
    }
    0
}

/// Beginnings of lines that say nothing about a failure.
const PROGRESS: [&str; 5] = ["Blocking ", "Compiling ", "Downloaded ", "Downloading ", "Finished "];

/// The output without what went well.
pub(crate) fn without_passes(output: &str) -> String {
    let boring = |line: &str| {
        let line = line.trim();
        let passed = line.ends_with("... ok") || line.contains("... ignored");
        (line.starts_with("test ") && passed)
            || PROGRESS.iter().any(|progress| line.starts_with(progress))
    };
    output.lines().filter(|line| !boring(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
   Compiling a v0.1.0
running 3 tests
test a::b ... ok
test a::c ... ignored, needs the real control plane
test a::d ... FAILED

failures:
boom

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

running 2 tests
..
test result: ok. 12 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out; finished in 1.20s
";

    #[test]
    fn results_of_all_test_programs_are_added_up() {
        let expected = Summary { runs: 2, passed: 13, failed: 1, ignored: 3, skipped: 0 };
        assert_eq!(Summary::parse(OUTPUT), expected);
        assert_eq!(Summary::parse("error: could not compile"), Summary::default());
    }

    #[test]
    fn the_closing_line_counts_ignored_tests_only_once_they_are_skipped() {
        let mut summary = Summary::parse(OUTPUT);
        assert_eq!(summary.to_string(), "13 passed, 1 failed, 0 skipped");
        summary.skip_ignored();
        assert_eq!(summary.to_string(), "13 passed, 1 failed, 3 skipped");
        summary.skip_ignored();
        assert_eq!(summary.to_string(), "13 passed, 1 failed, 3 skipped");
    }

    #[test]
    fn a_run_without_any_test_is_told_from_one_that_left_tests_out() {
        let result = |ignored: u32| {
            Summary::parse(&format!(
                "test result: ok. 0 passed; 0 failed; {ignored} ignored; 3 filtered"
            ))
        };
        assert!(result(0).is_empty());
        assert!(!result(1).is_empty());
        let mut skipped = result(1);
        skipped.skip_ignored();
        assert!(!skipped.is_empty());
    }

    #[test]
    fn failures_are_shown_without_what_went_well() {
        let shown = without_passes(OUTPUT);
        assert!(shown.contains("test a::d ... FAILED"));
        assert!(shown.contains("boom"));
        assert!(!shown.contains("Compiling"));
        assert!(!shown.contains("a::b"));
        assert!(!shown.contains("a::c"));
    }
}
