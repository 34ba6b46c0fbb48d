//! The maximum write rate of the API server on this machine, for comparison.
//!
//! Clients that do nothing else create pods, bind them to a node that does not exist and delete them. No
//! controller takes part, so this is the cost of storing alone.

use std::thread;

use anyhow::{Result, anyhow};
use serde::Serialize;
use serde_json::json;
use xtask::cluster::{Connection, Connector};
use xtask::poll::Stopwatch;

/// Pods and clients of one measurement.
pub(crate) const PODS: u32 = 2000;
pub(super) const CLIENTS: usize = 32;

/// Rates per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) created: f64,
    pub(crate) bound: f64,
    pub(crate) deleted: f64,
    /// All three kinds of writes over the total time.
    pub(crate) writes: f64,
}

impl Rates {
    fn from_seconds(pods: u32, [create, bind, delete]: [f64; 3]) -> Self {
        let rate = |count: f64, seconds: f64| count / seconds.max(0.001);
        let pods = f64::from(pods);
        Self {
            created: rate(pods, create),
            bound: rate(pods, bind),
            deleted: rate(pods, delete),
            writes: rate(3.0 * pods, create + bind + delete),
        }
    }
}

/// Measures in a namespace that has its service account.
pub(crate) fn measure(connector: &Connector, namespace: &str) -> Result<Rates> {
    let connect = |_| connector.connect();
    let mut clients: Vec<Connection> = (0..CLIENTS).map(connect).collect::<Result<_>>()?;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let container = json!({ "name": "main", "image": "image" });
    let numbers: Vec<u32> = (0..PODS).collect();
    let create = timed(&mut clients, &numbers, |client, number| {
        let pod = json!({
            "metadata": { "name": format!("pod-{number}"), "labels": { "app": "ceiling" } },
            // No scheduler has this name.
            "spec": { "schedulerName": "nobody", "containers": [container] },
        });
        client.expect("POST", &pods, Some(&pod.to_string())).map(drop)
    })?;
    let bind = timed(&mut clients, &numbers, |client, number| {
        let target = json!({ "kind": "Node", "name": "nowhere" });
        let name = format!("pod-{number}");
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name }, "target": target,
        });
        client
            .expect("POST", &format!("{pods}/{name}/binding"), Some(&binding.to_string()))
            .map(drop)
    })?;
    let delete = timed(&mut clients, &numbers, |client, number| {
        let path = format!("{pods}/pod-{number}?gracePeriodSeconds=0");
        client.expect("DELETE", &path, None).map(drop)
    })?;
    Ok(Rates::from_seconds(PODS, [create, bind, delete]))
}

/// Seconds until the clients have processed all items.
fn timed<T: Sync>(
    clients: &mut [Connection],
    all: &[T],
    act: impl Fn(&mut Connection, &T) -> Result<()> + Sync,
) -> Result<f64> {
    let watch = Stopwatch::start();
    each(clients, all, act)?;
    Ok(watch.elapsed().as_secs_f64())
}

/// Distributes the items among the clients, which work concurrently.
pub(super) fn each<T: Sync>(
    clients: &mut [Connection],
    all: &[T],
    act: impl Fn(&mut Connection, &T) -> Result<()> + Sync,
) -> Result<()> {
    let (act, count) = (&act, clients.len());
    thread::scope(|scope| {
        let workers: Vec<_> = clients
            .iter_mut()
            .enumerate()
            .map(|(first, client)| {
                scope.spawn(move || {
                    all.iter().skip(first).step_by(count).try_for_each(|one| act(client, one))
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().map_err(|_| anyhow!("a client of the benchmark panicked"))?
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_stage_and_in_total() {
        let rates = Rates::from_seconds(2000, [4.0, 2.0, 2.0]);
        let total = Rates { created: 500.0, bound: 1000.0, deleted: 1000.0, writes: 750.0 };
        assert_eq!(rates, total);
    }
}
