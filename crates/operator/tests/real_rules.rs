//! One case per rule of how sets turn into pods, each in a namespace of its own, all under one
//! operator. Afterwards: everything idle, and nothing in the operator's role that was not needed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail, and owns its tasks"
)]

mod rules;

use std::sync::Arc;
use std::time::Duration;

use grove_testbed::cluster::TestCluster;
use grove_testbed::fixture::{Fixture, select};
use grove_testbed::operator::{OPERATOR, Operator, Setup, is_not_for_probe};
use rules::rights;
use xtask::cluster::Kube;

/// How long an idle operator is observed.
const IDLE: Duration = Duration::from_secs(10);

mod table {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs the real control plane: cargo xtask test --only real"]
    async fn every_rule_holds_then_the_operator_writes_nothing_and_has_used_every_right() {
        let Some(rules) = select(&rules::TABLES) else { return };
        let cluster = Arc::new(TestCluster::full(&OPERATOR, Kube::default()));
        let configuration = "leaderElection: {enabled: true}";
        let operator = cluster.operator(Setup { configuration, ..Setup::default() }).await;
        let fixture = Fixture::new(cluster, operator.requests.clone()).await;

        let mut failures = grove_testbed::table::run(fixture.rows(&rules.rows)).await;
        if rules.is_all {
            let idle = idle(&fixture, &operator).await;
            failures.check("an idle operator writes nothing but the lease", idle);
            let rights = rights::no_right_is_left_over(&operator.requests.since(0));
            failures.check("the role grants what is needed and no more", rights);
        }
        failures.assert_none();
        operator.stop().await;
    }
}

/// Records the requests of an operator that has nothing to do.
async fn idle(fixture: &Fixture, operator: &Operator) -> Result<(), String> {
    let Fixture { cluster, mirror, requests } = fixture;
    cluster.until_no_writes(mirror, requests, is_not_for_probe).await;
    let mark = requests.mark();
    operator.env.clock.sleep(IDLE).await;
    let sent = requests.since(mark);
    let sent = sent.iter().filter(|sent| is_not_for_probe(sent));
    let (lease, others): (Vec<_>, Vec<_>) = sent.partition(|sent| sent.path.contains("/leases/"));
    if lease.is_empty() {
        return Err("the lease is not renewed".to_owned());
    }
    if others.is_empty() { Ok(()) } else { Err(format!("{others:#?}")) }
}
