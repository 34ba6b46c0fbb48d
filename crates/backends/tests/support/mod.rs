//! Programs on the other side of the wire.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses a part of it")]

pub mod program;
pub mod stand_in;
