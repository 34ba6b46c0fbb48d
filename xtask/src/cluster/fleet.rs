//! Simulated fleets: zones of blocks of racks of hosts, as Node objects.
//!
//! Names are derived from the position (`z0-b1-r2-h3`), so the same fleet always has the same nodes. KWOK
//! reports the nodes as ready; nothing runs on them.

use std::net::Ipv4Addr;
use std::str::FromStr;
use std::thread;

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::http::Client;

/// Label with the zone of a node.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// Label with the block of a node.
pub const BLOCK_LABEL: &str = "topology.kubernetes.io/block";
/// Label with the rack of a node.
pub const RACK_LABEL: &str = "topology.kubernetes.io/rack";

/// Connections that create nodes: more would only queue in the API server.
const WRITERS: usize = 4;
/// First node address: in the shared address space, which no pod or service uses.
const FIRST_ADDRESS: u32 = Ipv4Addr::new(100, 64, 0, 1).to_bits();

/// The size of a fleet; each number counts within one unit of the level above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fleet {
    /// Zones.
    pub zones: u32,
    /// Blocks per zone.
    pub blocks: u32,
    /// Racks per block.
    pub racks: u32,
    /// Hosts per rack.
    pub hosts: u32,
    /// GPUs per host.
    pub gpus: u32,
}

impl Fleet {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        [self.zones, self.blocks, self.racks, self.hosts]
            .iter()
            .fold(1, |product, &number| product * number as usize)
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The Node objects, in order of position.
    pub fn nodes(&self) -> impl Iterator<Item = Value> {
        let Self { zones, blocks, racks, hosts, gpus } = *self;
        let positions = (0..zones).flat_map(move |zone| {
            (0..blocks).flat_map(move |block| {
                (0..racks)
                    .flat_map(move |rack| (0..hosts).map(move |host| [zone, block, rack, host]))
            })
        });
        positions.zip(FIRST_ADDRESS..).map(move |(position, ip)| node(position, ip, gpus))
    }

    /// Creates every missing node, over a few connections.
    pub(super) fn create(&self, client: &Client, port: u16) -> Result<()> {
        let nodes: Vec<String> = self.nodes().map(|node| node.to_string()).collect();
        let share = nodes.len().div_ceil(WRITERS).max(1);
        thread::scope(|scope| {
            let writers: Vec<_> = nodes
                .chunks(share)
                .map(|chunk| {
                    scope.spawn(|| chunk.iter().try_for_each(|node| post(client, port, node)))
                })
                .collect();
            writers.into_iter().try_for_each(|writer| {
                writer.join().map_err(|_| anyhow!("a thread that creates nodes panicked"))?
            })
        })
    }
}

/// `2x2x4x8`: zones, blocks, racks, hosts; eight GPUs per host.
impl FromStr for Fleet {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers: Vec<Option<u32>> =
            text.split('x').map(|number| number.parse().ok().filter(|&n| n > 0)).collect();
        match numbers[..] {
            [Some(zones), Some(blocks), Some(racks), Some(hosts)] => {
                Ok(Self { zones, blocks, racks, hosts, gpus: 8 })
            }
            _ => bail!("a fleet is ZONESxBLOCKSxRACKSxHOSTS, such as 2x2x4x8"),
        }
    }
}

fn post(client: &Client, port: u16, node: &str) -> Result<()> {
    let answer = client.post(port, "/api/v1/nodes", node)?;
    ensure!(
        matches!(answer.status, 201 | 409),
        "cannot create a node: {} {}",
        answer.status,
        answer.body
    );
    Ok(())
}

fn node([zone, block, rack, host]: [u32; 4], ip: u32, gpus: u32) -> Value {
    let zone = format!("z{zone}");
    let block = format!("{zone}-b{block}");
    let rack = format!("{block}-r{rack}");
    let name = format!("{rack}-h{host}");
    let resources = json!({
        "cpu": "128",
        "memory": "1024Gi",
        "pods": "256",
        "ephemeral-storage": "1024Gi",
        "nvidia.com/gpu": gpus.to_string(),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": { "kwok.x-k8s.io/node": "fake" },
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                ZONE_LABEL: zone,
                BLOCK_LABEL: block,
                RACK_LABEL: rack,
            },
        },
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                { "type": "InternalIP", "address": Ipv4Addr::from_bits(ip).to_string() },
                { "type": "Hostname", "address": name },
            ],
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_position_is_one_node_with_its_own_name() {
        let fleet = Fleet { zones: 2, blocks: 3, racks: 2, hosts: 4, gpus: 8 };
        let names: BTreeSet<String> =
            fleet.nodes().map(|node| node["metadata"]["name"].to_string()).collect();
        assert_eq!(names.len(), 48);
        assert_eq!(fleet.len(), 48);
    }

    #[test]
    fn labels_nest_and_capacity_counts_gpus() {
        let fleet = Fleet { zones: 1, blocks: 2, racks: 3, hosts: 4, gpus: 4 };
        let last = fleet.nodes().last().unwrap();
        let labels = &last["metadata"]["labels"];
        assert_eq!(labels[ZONE_LABEL], "z0");
        assert_eq!(labels[BLOCK_LABEL], "z0-b1");
        assert_eq!(labels[RACK_LABEL], "z0-b1-r2");
        assert_eq!(labels["kubernetes.io/hostname"], "z0-b1-r2-h3");
        assert_eq!(last["status"]["allocatable"]["nvidia.com/gpu"], "4");
        assert_eq!(last["status"]["addresses"][0]["address"], "100.64.0.24");
    }

    #[test]
    fn a_fleet_is_parsed_from_four_numbers() {
        let fleet = "2x2x4x8".parse::<Fleet>().unwrap();
        assert_eq!(fleet, Fleet { zones: 2, blocks: 2, racks: 4, hosts: 8, gpus: 8 });
        for wrong in ["2x2x4", "2x2x4x0", "axbxcxd", "1x1x1x1x1", ""] {
            assert!(wrong.parse::<Fleet>().is_err(), "{wrong}");
        }
    }
}
