//! Tables of rows: each row runs in its own task, a few at a time, and every failure is reported.
//!
//! A row has a name, and `cargo xtask test --only real --filter TEXT` runs single rows: see [`xtask::rows`]. A test
//! of a table begins with [`select`], and ends there when it has nothing to run.

use std::fmt::Write as _;
use std::sync::Arc;

use futures::future::BoxFuture;
use grove_runtime::clock::{Clock, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use xtask::rows;

/// More rows at a time do not finish sooner, they only finish later one by one.
const MAX_IN_FLIGHT: usize = 12;

/// A row that is ready to run.
pub struct Row {
    pub name: String,
    pub run: BoxFuture<'static, ()>,
}

/// The rows of a table that are to run.
pub struct Selected<T> {
    pub rows: Vec<T>,
    /// Whether these are all rows of the table.
    pub is_all: bool,
}

/// The rows to run, or none when the test has nothing to do.
pub fn select<T>(
    rows: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> String,
) -> Option<Selected<T>> {
    let rows = rows.into_iter();
    if std::env::var_os(rows::LIST).is_some() {
        rows.for_each(|row| println!("{}{}", rows::PREFIX, name(&row)));
        return None;
    }
    let Ok(part) = std::env::var(rows::SELECT) else {
        return Some(Selected { rows: rows.collect(), is_all: true });
    };
    let rows: Vec<T> = rows.filter(|row| name(row).contains(&part)).collect();
    (!rows.is_empty()).then_some(Selected { rows, is_all: false })
}

/// The rows that failed, with their messages.
#[derive(Default)]
pub struct Failures(Vec<(String, String)>);

impl Failures {
    /// Adds the result of a check beside the rows.
    pub fn check(&mut self, name: &str, result: Result<(), String>) {
        self.0.extend(result.err().map(|message| (name.to_owned(), message)));
    }

    /// Fails with the names and messages of the rows that failed.
    pub fn assert_none(self) {
        let mut text = String::new();
        for (name, message) in &self.0 {
            writeln!(text, "--- {name}\n{message}").unwrap();
        }
        assert!(self.0.is_empty(), "{} rows failed:\n{text}", self.0.len());
    }
}

/// Runs all rows.
pub async fn run(rows: Vec<Row>) -> Failures {
    run_in_flight(MAX_IN_FLIGHT, rows).await
}

/// Runs all rows, at most so many at a time.
pub async fn run_in_flight(max: usize, rows: Vec<Row>) -> Failures {
    let permits = Arc::new(Semaphore::new(max));
    let mut running = JoinSet::new();
    for Row { name, run } in rows {
        let permits = permits.clone();
        running.spawn(async move {
            let _permit = permits.acquire_owned().await.unwrap();
            let clock = Clock::system();
            let result = tokio::task::spawn(run).await;
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
        failures.check(&name, result);
    }
    failures
}
