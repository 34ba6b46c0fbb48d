//! Tables of cases: each runs in a task of its own, a few at a time, and all failures are told.

use std::fmt::Write as _;
use std::sync::Arc;

use futures::future::BoxFuture;
use grove_runtime::clock::{Clock, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// A case: what must be so, and what shows it.
pub type Case = (&'static str, BoxFuture<'static, ()>);

/// More at once would not be faster, only later one by one.
const AT_ONCE: usize = 12;

/// What became of the cases.
#[derive(Default)]
pub struct Failures(Vec<(&'static str, String)>);

impl Failures {
    /// One more check.
    pub fn check(&mut self, what: &'static str, result: Result<(), String>) {
        self.0.extend(result.err().map(|message| (what, message)));
    }

    /// Fails with the names and messages of the cases that failed.
    pub fn assert_none(self) {
        let mut text = String::new();
        for (name, message) in &self.0 {
            writeln!(text, "--- {name}\n{message}").unwrap();
        }
        assert!(self.0.is_empty(), "{} cases failed:\n{text}", self.0.len());
    }
}

/// Runs all cases.
pub async fn run(cases: Vec<Case>) -> Failures {
    run_at_once(AT_ONCE, cases).await
}

/// Runs all cases, this many at a time.
pub async fn run_at_once(number: usize, cases: Vec<Case>) -> Failures {
    let room = Arc::new(Semaphore::new(number));
    let mut running = JoinSet::new();
    for (name, case) in cases {
        let room = room.clone();
        running.spawn(async move {
            let _place = room.acquire_owned().await.unwrap();
            let clock = Clock::system();
            let result = tokio::task::spawn(case).await;
            let elapsed = clock.now().since(Instant::START);
            println!("{:6.1} s  {name}", elapsed.as_secs_f64());
            (name, result)
        });
    }
    let mut failures = Failures::default();
    for (name, result) in running.join_all().await {
        let result = result.map_err(|error| {
            let panic = error.into_panic();
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            text.unwrap_or("panicked").to_owned()
        });
        failures.check(name, result);
    }
    failures
}
