//! Free ports on loopback.
//!
//! Ports are below the kernel's range for outgoing connections, so that a server that is killed and restarted
//! finds its port free. A random first candidate separates instances that start at the same time; a start
//! that still loses a race is repeated.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Result, ensure};

const FIRST_PORT: u16 = 20_000;
const PORT_COUNT: u16 = 12_000;

/// Returns `N` different free ports.
pub(crate) fn free<const N: usize>() -> Result<[u16; N]> {
    let start = RandomState::new().build_hasher().finish();
    let offset = u16::try_from(start % u64::from(PORT_COUNT)).unwrap_or_default();
    // All are held until the last is found, so that none is found twice.
    let held: Vec<(u16, TcpListener)> = (0..PORT_COUNT)
        .map(|step| FIRST_PORT + (offset + step) % PORT_COUNT)
        .filter_map(|port| Some((port, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?)))
        .take(N)
        .collect();
    ensure!(held.len() == N, "no free port between {FIRST_PORT} and {}", FIRST_PORT + PORT_COUNT);
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
            // A process that another test starts at this moment may still hold an inherited port.
            let bind = || Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
            poll::until(Duration::from_secs(10), "the port is free", bind).unwrap();
        }
    }
}
