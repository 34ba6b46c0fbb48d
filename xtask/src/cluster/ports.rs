//! Free ports on loopback.
//!
//! Ports are taken below the range from which the kernel serves outgoing connections, so that a
//! server which is killed and started again finds its port free. A random first candidate keeps
//! instances that start at the same moment apart; a start that still loses a race is repeated.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Result, ensure};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// `N` different ports on which nobody listens.
pub(crate) fn free<const N: usize>() -> Result<[u16; N]> {
    let start = RandomState::new().build_hasher().finish();
    let offset = u16::try_from(start % u64::from(COUNT)).unwrap_or_default();
    // All are held until the last is found, so that none is found twice.
    let held: Vec<(u16, TcpListener)> = (0..COUNT)
        .map(|step| FIRST + (offset + step) % COUNT)
        .filter_map(|port| Some((port, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?)))
        .take(N)
        .collect();
    ensure!(held.len() == N, "no free port between {FIRST} and {}", FIRST + COUNT);
    let mut ports = [0; N];
    for (slot, (port, _)) in ports.iter_mut().zip(&held) {
        *slot = *port;
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::poll;

    #[test]
    fn ports_are_different_and_free() {
        let ports = free::<5>().unwrap();
        assert_eq!(BTreeSet::from(ports).len(), 5);
        for port in ports {
            // A process that another test starts right now may still hold what it inherited.
            let bind = || Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
            poll::until(Duration::from_secs(10), "the port is free", bind).unwrap();
        }
    }
}
