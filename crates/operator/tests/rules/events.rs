//! Events.

use serde_json::{Value, json};

use super::{Fixture, pod, rules, scale};
use grove_testbed::kinds::{CLIQUES, EVENTS, GROUPS, PODS, SETS};
use grove_testbed::mirror::{Namespace, State, name_of, text};
use grove_testbed::sets::{Manifest as _, small};

rules! {
    creations_and_deletions_are_reported_as_events,
    the_loss_of_all_pods_is_reported,
}

/// An event: reason, and kind and name of what it is about.
type About = (&'static str, &'static str, &'static str);

fn find(state: &State, (reason, kind, name): About) -> Option<&Value> {
    let mut events = state.of(EVENTS).into_iter();
    events
        .find(|event| {
            let about = &event["involvedObject"];
            event["reason"] == reason && about["kind"] == kind && about["name"] == name
        })
        .map(|event| &**event)
}

/// Waits for events of a controller.
async fn until_events(namespace: &Namespace, controller: &str, about: &[About]) {
    for one in about {
        let what = format!("{one:?} is reported");
        let event = namespace.until(&what, |state| find(state, *one).cloned()).await;
        assert_eq!(event["source"]["component"], controller, "{one:?}");
        assert_eq!(event["type"], "Normal", "{one:?}");
    }
}

const OF_SETS: &str = "podcliqueset-controller";
const OF_GROUPS: &str = "podcliquescalinggroup-controller";
const OF_CLIQUES: &str = "podclique-controller";

async fn creations_and_deletions_are_reported_as_events(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x").replicas(2), 10).await;
    let made: [About; 3] = [
        ("PodCliqueCreateOrUpdateSuccessful", "PodCliqueSet", "x"),
        ("PodCliqueScalingGroupCreateSuccessful", "PodCliqueSet", "x"),
        ("PodGangCreateOrUpdateSuccessful", "PodCliqueSet", "x"),
    ];
    until_events(&namespace, OF_SETS, &made).await;
    let members: [About; 1] =
        [("PodCliqueCreateSuccessful", "PodCliqueScalingGroup", "x-1-decode")];
    until_events(&namespace, OF_GROUPS, &members).await;
    // The first pods of a new clique have no events, later ones do.
    scale(&namespace, CLIQUES, "x-0-router", 2).await;
    namespace.until_complete(11).await;
    until_events(&namespace, OF_CLIQUES, &[("PodCreateSuccessful", "PodClique", "x-0-router")])
        .await;
    scale(&namespace, CLIQUES, "x-0-router", 1).await;
    until_events(&namespace, OF_CLIQUES, &[("PodDeleteSuccessful", "PodClique", "x-0-router")])
        .await;
    scale(&namespace, GROUPS, "x-0-decode", 1).await;
    let replica: About = ("PodCliqueScalingGroupReplicaDeleteSuccessful", "PodCliqueSet", "x");
    until_events(&namespace, OF_GROUPS, &[replica]).await;
    let message = namespace.look(|state| find(state, replica).unwrap()["message"].clone());
    let expected = "Deleted PodCliqueScalingGroup x-0-decode replicaIndex: 1 (not among the wanted members of its \
         scaling group)";
    assert_eq!(message, expected);
    scale(&namespace, SETS, "x", 1).await;
    let removed: [About; 3] = [
        ("PodCliqueDeleteSuccessful", "PodCliqueSet", "x"),
        ("PodCliqueScalingGroupDeleteSuccessful", "PodCliqueSet", "x"),
        ("PodGangDeleteSuccessful", "PodCliqueSet", "x"),
    ];
    until_events(&namespace, OF_SETS, &removed).await;
}

async fn the_loss_of_all_pods_is_reported(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    let pod = name_of(&pod(&namespace, "x-0-router", 0));
    let about = ("AllScheduledReplicasLost", "PodClique", "x-0-router");

    for (scheduled, count) in [("False", 1), ("True", 1), ("False", 2)] {
        let conditions = json!([{ "type": "PodScheduled", "status": scheduled }]);
        let status = json!({ "status": { "conditions": conditions } });
        namespace.patch(PODS, &format!("{pod}/status"), status).await;
        let replicas = i32::from(scheduled == "True");
        namespace
            .until_field(CLIQUES, "x-0-router", "/status/scheduledReplicas", json!(replicas))
            .await;
        let reported =
            |state: &State| find(state, about).filter(|event| event["count"] == count).cloned();
        let event = namespace.until("each loss is reported", reported).await;
        assert_eq!(event["type"], "Warning");
        assert!(text(&event["message"]).starts_with("All scheduled pods lost (was 1)"), "{event}");
    }
}
