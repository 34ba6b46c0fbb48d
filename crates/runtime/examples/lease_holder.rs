//! A process that takes part in an election and tries to write all the time, whether or not it leads.
//!
//! ```text
//! lease_holder <kubeconfig> <identity> [stop-in-write]
//! ```
//!
//! It holds the Lease `default/contended` and creates config maps `<identity>-<n>` as fast as it can; the
//! writer refuses them while another process leads. It prints `leading` and `following` when that changes,
//! and `acting` at the first write that succeeds after a refused one. With `stop-in-write` it then stops
//! itself once, inside its next write: after the writer has checked the lease, before it sends. SIGTERM stops
//! it in order: writing first, the lease last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use grove_runtime::fence::Fence;
use grove_runtime::lease::{Elector, Leadership, LeaseConfig};
use grove_runtime::process::{Env, Process, signalled_twice};
use grove_runtime::resource::{ObjectKey, Resource};
use grove_runtime::tasks::Shutdown;
use grove_runtime::write::{Verb, Write, Writer};
use http::Request;
use kube::Client;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::Signal;
use serde_json::json;
use tower::BoxError;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: lease_holder <kubeconfig> <identity> [stop-in-write]";
    let kubeconfig = arguments.next().context(usage)?;
    let identity = arguments.next().context(usage)?;
    let mut stop_pending = arguments.next().is_some_and(|argument| argument == "stop-in-write");
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
    let stop_in_write = Arc::new(AtomicBool::new(false));
    let stopping = stopping_client(client, stop_in_write.clone());
    let writer = Writer::new(stopping, &env, leadership, "lease-holder");
    let acts = move || stop_in_write.store(std::mem::take(&mut stop_pending), Ordering::Relaxed);
    process
        .stage("writing")
        .spawn(|shutdown| write_on(writer, env.clone(), identity, acts, shutdown));

    tokio::select! {
        biased;
        ended = process.run() => ended?,
        signals = signalled_twice(&env.shutdown) => signals?,
    }
    Ok(())
}

/// A client that stops this process once, inside a request, on request.
fn stopping_client(client: Client, stop: Arc<AtomicBool>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, stop) = (client.clone(), stop.clone());
        async move {
            if stop.swap(false, Ordering::Relaxed) {
                rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?;
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, "default")
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
async fn write_on(
    writer: Writer,
    env: Env,
    identity: String,
    mut acts: impl FnMut(),
    shutdown: Shutdown,
) {
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
            reason: "record the writer",
        };
        let acted_before = acting;
        acting = writer.execute(&Fence::default(), &write).await.is_ok();
        if acting && !acted_before {
            println!("acting");
            acts();
        }
        if !acting {
            // The writer refused without a round trip: yield to other tasks.
            env.clock.sleep(Duration::from_millis(1)).await;
        }
    }
}
