//! How `cargo xtask test` and tests that run a table of rows agree on the rows to run.
//!
//! Such tests are in modules named `table`. They print a line for each row when [`LIST`] is set, and run only
//! the rows whose names contain [`SELECT`].

/// Environment variable: print the names of the rows and run none.
pub const LIST: &str = "GROVE_LIST_ROWS";
/// Environment variable: a part of the names of the rows to run.
pub const SELECT: &str = "GROVE_ROWS";
/// What the line of a row begins with.
pub const PREFIX: &str = "row: ";
