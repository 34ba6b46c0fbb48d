//! Error classes. The class of an error alone decides about retries; no code matches error texts.

use crate::clock::Instant;

/// The six kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The object has changed: observe and decide again.
    Conflict,
    /// The server or the connection failed: retry later.
    Transient,
    /// The server will never accept this: report it to the user and wait for a change.
    Invalid,
    /// Permissions, quota or another admission webhook refuse it: report it, retry slowly.
    Denied,
    /// This process is not the leader: keep the key for the next one.
    Fenced,
    /// A bug in this program: count it, log it, retry at the slowest pace.
    Bug,
}

impl Class {
    /// The name in metrics and logs.
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

/// An error with a [`Class`].
pub trait Classed: std::error::Error {
    /// Returns the class.
    fn class(&self) -> Class;

    /// Returns the delay that the server asked for, if any.
    fn retry_after(&self) -> Option<std::time::Duration> {
        None
    }

    /// Returns when to run the key again at the latest, in any class: for a deadline that the error does
    /// not stop, or a status that is held back.
    fn due(&self) -> Option<Instant> {
        None
    }
}
