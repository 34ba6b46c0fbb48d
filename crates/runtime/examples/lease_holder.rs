//! A process that wants to lead and, whether or not it does, never stops trying to write.
//!
//! ```text
//! lease_holder <kubeconfig> <identity>
//! ```
//!
//! It holds the Lease `default/contended` and creates config maps `<identity>-<n>` as fast as it
//! can, leaving it to the writer to refuse while another process leads. It prints `leading` and
//! `following` as that changes, and `acting` at the first write that succeeds after a refused one,
//! after which it rests for a second: whoever stops it then stops it between two writes. (A process
//! that is stopped between its last look at the lease and the write is beyond what any lease can
//! prevent; preconditions are for that.) SIGTERM stops it in order: writing first, the lease last.

use std::time::Duration;

use anyhow::Context;
use grove_runtime::fence::Fence;
use grove_runtime::lease::{Elector, Leadership, LeaseConfig};
use grove_runtime::process::{Env, Process, signalled_twice};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::tasks::Shutdown;
use grove_runtime::write::{Verb, Write, Writer};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let [kubeconfig, identity] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .ok()
        .context("usage: lease_holder <kubeconfig> <identity>")?;
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = grove_runtime::client::client(config, "lease-holder")?;

    let env = Env::system();
    let mut process = Process::new(env.clone(), Duration::from_secs(5));
    let elector = Elector::new(
        client.clone(),
        &env,
        LeaseConfig {
            lease_duration: Duration::from_secs(3),
            renew_deadline: Duration::from_secs(2),
            retry_period: Duration::from_millis(500),
            ..LeaseConfig::new(ObjectKey::new("default", "contended"), identity.clone())
        },
    );
    let leadership = elector.leadership();
    process.stage("lease").spawn(|shutdown| elector.run(shutdown));
    let announcing = process.stage("announcements");
    announcing.spawn(|shutdown| announce(leadership.clone(), env.clone(), shutdown));
    let writer = Writer::new(client, &env, leadership, "lease-holder");
    process.stage("writing").spawn(|shutdown| write_on(writer, env.clone(), identity, shutdown));

    tokio::select! {
        biased;
        ended = process.run() => ended?,
        signals = signalled_twice(&env.shutdown) => signals?,
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
async fn announce(leadership: Leadership, env: Env, shutdown: Shutdown) {
    let changes = async {
        loop {
            leadership.acquired(&env.clock).await;
            println!("leading");
            leadership.lost(&env.clock).await;
            println!("following");
        }
    };
    tokio::select! {
        biased;
        () = shutdown.requested() => {}
        () = changes => {}
    }
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
async fn write_on(writer: Writer, env: Env, identity: String, shutdown: Shutdown) {
    let mut acting = false;
    for number in 0_u64.. {
        if shutdown.started() {
            return;
        }
        let write = Write {
            resource: Resource::namespaced("", "v1", "configmaps", "ConfigMap"),
            key: ObjectKey::new("default", &format!("{identity}-{number}")),
            verb: Verb::Create {
                body: json!({"metadata": {"name": format!("{identity}-{number}")}}),
            },
            reason: "to see who acts",
        };
        let acted_before = acting;
        acting = writer.execute(&Fence::default(), &write).await.is_ok();
        if acting && !acted_before {
            println!("acting");
            env.clock.sleep(Duration::from_secs(1)).await;
        }
        if !acting {
            // Refused without a round trip: let the other tasks have the thread.
            env.clock.sleep(Duration::from_millis(1)).await;
        }
    }
}
