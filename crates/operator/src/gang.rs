//! The controller of PodGangs: hands each gang to the backend of its scheduler. Gangs themselves,
//! their references and their state are decided with the replica of the set that they belong to.

use grove_api::PodGang;
use grove_api::error_code::ErrorCode;
use grove_backends::Cluster;
use grove_runtime::controller::{Attempt, Due};
use grove_runtime::process::Env;
use grove_runtime::queue::{Priority, Queue};
use grove_runtime::resource::ObjectKey;

use crate::objects::Object;
use crate::reconcile::{Context, ReconcileError};
use crate::world::World;

/// Gangs that a backend may have to look at: new ones, changed ones and those that go.
pub(crate) fn queue(world: &World, env: &Env) -> Queue<ObjectKey> {
    let queue = Queue::new(env.clock.clone());
    let itself = |gang: &Object<PodGang>| vec![gang.meta.key.clone()];
    queue.follow(&world.gangs.store, Priority::UserChange, what_backends_read, itself);
    queue
}

/// Everything but the status. Labels and annotations count: backends copy them.
fn what_backends_read(gang: &Object<PodGang>) -> impl PartialEq + use<> {
    let Object { meta, object } = gang;
    let annotations = object.metadata.annotations.clone();
    (meta.uid.clone(), meta.generation, meta.deleting, meta.labels.clone(), annotations)
}

/// Has the backend bring the scheduler's objects in line with one gang.
pub(crate) async fn reconcile(
    context: &Context,
    attempt: Attempt<ObjectKey>,
) -> Result<Due, ReconcileError> {
    let Some(gang) = context.world.gangs.store.get(&attempt.key) else { return Ok(None) };
    let backend = context.backends.for_gang(&gang.object);
    let cluster = Cluster { writer: &context.writer, fence: &attempt.fence };
    let done = if gang.meta.deleting {
        backend.pod_gang_deleted(&gang.object, cluster).await
    } else {
        backend.sync_pod_gang(&gang.object, cluster).await
    };
    done.map_err(|error| ReconcileError::failed(ErrorCode::CreateOrPatchPodGang, &error))?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn backends_see_new_specs_labels_and_annotations_but_no_status() {
        type Change = fn(&mut Value);
        let gang = |change: fn(&mut Value)| -> Object<PodGang> {
            let mut object = json!({
                "metadata": { "name": "a", "namespace": "n", "generation": 1,
                    "resourceVersion": "1" },
                "spec": { "podgroups": [] },
            });
            change(&mut object);
            serde_json::from_value(object).unwrap()
        };
        let cases: [(&str, Change, bool); 5] = [
            ("status", |it| it["status"] = json!({ "phase": "Running" }), false),
            ("version", |it| it["metadata"]["resourceVersion"] = json!("2"), false),
            ("spec", |it| it["metadata"]["generation"] = json!(2), true),
            ("label", |it| it["metadata"]["labels"] = json!({ "a": "b" }), true),
            ("annotation", |it| it["metadata"]["annotations"] = json!({ "a": "b" }), true),
        ];
        let before = gang(|_| {});
        for (what, change, seen) in cases {
            let after = gang(change);
            assert_eq!(what_backends_read(&before) != what_backends_read(&after), seen, "{what}");
        }
    }
}
