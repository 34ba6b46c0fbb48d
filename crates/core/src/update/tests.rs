//! Runs complete updates of each kind with a small simulated cluster that follows the statuses.

mod clique;
mod group;
mod set;

use jiff::Timestamp;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}
