//! Pods for tests.

use jiff::Timestamp;
use proptest::prelude::*;

use super::{ObservedPod, Phase};

/// A gated pod that was just created.
pub(crate) fn pod(name: &str, index: u32) -> ObservedPod {
    ObservedPod {
        name: name.into(),
        created: Timestamp::from_second(1_000).ok(),
        schedule_gated: true,
        has_gate: true,
        index: Some(index),
        template_hash: Some("hash".into()),
        gang: Some("gang".into()),
        ..ObservedPod::default()
    }
}

/// A pod that runs and is ready.
pub(crate) fn running(name: &str, index: u32) -> ObservedPod {
    ObservedPod {
        on_node: true,
        phase: Phase::Running,
        ready: true,
        scheduled: true,
        schedule_gated: false,
        has_gate: false,
        ..pod(name, index)
    }
}

/// Pods in any state, with distinct names and indices, in any order.
pub(crate) fn any_pods() -> impl Strategy<Value = Vec<ObservedPod>> {
    let phases =
        vec![Phase::Pending, Phase::Running, Phase::Succeeded, Phase::Failed, Phase::Unknown];
    let state = (any::<[bool; 8]>(), prop::sample::select(phases), 0_i64..3);
    let index = 0_u32..12;
    prop::collection::btree_map(index, state, 0..9)
        .prop_map(|pods| {
            let build =
                |(index, (flags, phase, age)): (u32, ([bool; 8], Phase, i64))| ObservedPod {
                    deleting: flags[0],
                    on_node: flags[1],
                    ready: flags[2],
                    scheduled: flags[3],
                    schedule_gated: flags[4] && !flags[3],
                    has_gate: flags[4],
                    erroneous: flags[5],
                    started_not_ready: flags[6],
                    phase,
                    template_hash: Some(if flags[7] { "hash" } else { "old" }.into()),
                    created: (age > 0).then(|| Timestamp::from_second(age).unwrap()),
                    ..pod(&format!("p{index}"), index)
                };
            pods.into_iter().map(build).collect::<Vec<_>>()
        })
        .prop_shuffle()
}
