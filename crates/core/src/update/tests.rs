//! Each kind is driven through whole updates by a small cluster that does what the statuses say.

mod clique;
mod group;
mod set;

use jiff::Timestamp;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}
