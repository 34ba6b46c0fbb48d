//! One case per rule of how sets turn into pods, each in a namespace of its own, all under one
//! operator. Afterwards: everything idle, and nothing in the operator's role that was not needed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod rules;
mod support;

use std::sync::Arc;
use std::time::Duration;

use rules::{Bench, rights};
use support::{Operator, Setup, World, cases, is_of_interest};
use xtask::cluster::Kube;

/// How long an idle operator is listened to.
const IDLE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real control plane: cargo xtask test --only real"]
async fn every_rule_holds_then_nothing_is_written_and_no_right_is_left_over() {
    let world = Arc::new(World::full(Kube::default()));
    let configuration = "leaderElection: {enabled: true}";
    let operator = world.operator(Setup { configuration, ..Setup::default() }).await;
    let bench = Bench::new(world.clone(), operator.requests.clone()).await;

    let mut failures = cases::run(rules::all(&bench)).await;
    failures.check("idle, nothing but the lease is written", idle(&world, &bench, &operator).await);
    let rights = rights::no_right_is_left_over(&operator.requests.since(0));
    failures.check("the role grants what is needed and no more", rights);
    failures.assert_none();
    operator.stop().await;
}

/// Listens to an operator that has nothing to do.
async fn idle(world: &World, bench: &Bench, operator: &Operator) -> Result<(), String> {
    world.quiet(&bench.mirror, &operator.requests, is_of_interest).await;
    let mark = operator.requests.mark();
    operator.env.clock.sleep(IDLE).await;
    let sent = operator.requests.since(mark);
    let sent = sent.iter().filter(|sent| is_of_interest(sent));
    let (lease, others): (Vec<_>, Vec<_>) = sent.partition(|sent| sent.path.contains("/leases/"));
    if lease.is_empty() {
        return Err("the lease is not kept".to_owned());
    }
    if others.is_empty() { Ok(()) } else { Err(format!("{others:#?}")) }
}
