//! `grove rollout pause` and `resume`: an annotation of the set, which the operator reads before it
//! replaces anything.

use anyhow::Context as _;
use grove_api::{PodCliqueSet, annotations};
use grove_core::update::is_paused;
use grove_runtime::fence::Fence;
use grove_runtime::lease::Leadership;
use grove_runtime::process::Env;
use grove_runtime::resource::Resource;
use grove_runtime::view::Meta;
use grove_runtime::write::{Precondition, Verb, Write, Writer};
use serde_json::json;

use super::{MANAGER, Target};
use crate::exit::Exit;

/// Pauses or resumes the updates of a set.
pub(super) async fn run(target: &Target, pause: bool) -> anyhow::Result<Exit> {
    let cluster = target.cluster.connect().await?;
    let set = super::read(&cluster, &target.set).await?;
    let done = if pause { "paused" } else { "resumed" };
    let Some(write) = decide(&set, pause) else {
        let state = if pause { "paused already" } else { "not paused" };
        crate::print(&format!("PodCliqueSet {:?} is {state}\n", target.set))?;
        return Ok(Exit::Success);
    };
    let leadership = Leadership::without_election();
    let writer = Writer::new(cluster.client, &Env::system(), leadership, MANAGER);
    writer.execute(&Fence::default(), &write).await.context("nothing was changed")?;
    crate::print(&format!("PodCliqueSet {:?} {done}\n", target.set))?;
    Ok(Exit::Success)
}

/// The write, if one is needed.
fn decide(set: &PodCliqueSet, pause: bool) -> Option<Write> {
    let value = pause.then_some("true");
    if is_paused(set) == pause {
        return None;
    }
    let meta = Meta::from(&set.metadata);
    Some(Write {
        resource: Resource::of::<PodCliqueSet>(),
        verb: Verb::Merge {
            patch: json!({ "metadata": { "annotations": { annotations::ROLLOUT_PAUSED: value } } }),
            only_if: Precondition::uid(&meta.uid),
            subresource: None,
        },
        key: meta.key,
        reason: if pause { "the user holds the update" } else { "the user lets the update go on" },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_what_changes_something_is_written() {
        let cases: [(Value, bool, Option<Value>); 6] = [
            (Value::Null, true, Some(json!("true"))),
            (Value::Null, false, None),
            (json!("true"), true, None),
            (json!("true"), false, Some(Value::Null)),
            // The operator knows one value only.
            (json!("yes"), true, Some(json!("true"))),
            (json!("yes"), false, None),
        ];
        for (stored, pause, written) in cases {
            let metadata = json!({
                "name": "demo", "namespace": "team-a", "uid": "u",
                "annotations": { annotations::ROLLOUT_PAUSED: stored, "other": "stays" },
            });
            let mut set = json!({ "metadata": metadata, "spec": { "template": {} } });
            if stored.is_null() {
                set["metadata"]["annotations"] = Value::Null;
            }
            let set: PodCliqueSet = serde_json::from_value(set).unwrap();

            let write = decide(&set, pause);

            let patch = write.map(|write| {
                let Verb::Merge { patch, only_if, .. } = write.verb else { panic!("a patch") };
                assert_eq!(only_if, Precondition::uid(&"u".into()));
                patch["metadata"]["annotations"][annotations::ROLLOUT_PAUSED].clone()
            });
            assert_eq!(patch, written, "{stored} {pause}");
        }
    }
}
