//! What an error means for the work queue. Only the class decides about retries; nobody matches on
//! error texts.

use crate::clock::Instant;

/// The six kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The object changed under us: look again, and decide again.
    Conflict,
    /// The server or the way to it is unwell: try again later.
    Transient,
    /// The server will never accept this: report it where the user looks and wait for a change.
    Invalid,
    /// We may not (permissions, quota, another admission webhook): report it, try again slowly.
    Denied,
    /// We are not the leader: keep the key for whoever leads next.
    Fenced,
    /// Our own fault: count it, log it, try again at the slowest pace.
    Bug,
}

impl Class {
    /// The word used in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Transient => "transient",
            Self::Invalid => "invalid",
            Self::Denied => "denied",
            Self::Fenced => "fenced",
            Self::Bug => "bug",
        }
    }
}

/// An error that knows its [`Class`].
pub trait Classed: std::error::Error {
    /// What the error means for the queue.
    fn class(&self) -> Class;

    /// How long the server asked us to stay away, if it did.
    fn retry_after(&self) -> Option<std::time::Duration> {
        None
    }

    /// When to run the key again at the latest, whatever the class says: a deadline that goes on in spite
    /// of the error, or a status that is held back.
    fn due(&self) -> Option<Instant> {
        None
    }
}
