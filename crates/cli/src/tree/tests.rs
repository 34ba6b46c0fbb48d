use serde_json::{Value, json};

use super::render::{Room, text};
use super::*;
use crate::testkit::{CREATED, Is, MINIMAL, SetObjects, after, condition, container};

/// Five minutes after everything was created, without an end on the right.
fn shown(set: &SetObjects) -> String {
    text(&analyse(&set.objects()), after(300), Room::default())
}

/// The line of one node, without the lines of the tree around it.
fn line(set: &SetObjects, title: &str) -> String {
    let text = shown(set);
    let mut found = text.lines().filter(|line| line.contains(&format!("{title} ")));
    let line = found.next().unwrap_or_else(|| panic!("no {title} in\n{text}"));
    assert_eq!(found.next(), None, "{title} is there once");
    let words = line.trim_start_matches(['│', '├', '└', '─', ' ']);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

const WORKERS: &str = "demo-0-decode-0-worker";

/// One worker of three is scheduled, and two are needed.
const BELOW_MINIMUM: [Is; 3] = [Is::Ready, Is::Unscheduled, Is::Unscheduled];

#[test]
fn a_complete_set_waits_for_nothing() {
    insta::assert_snapshot!(shown(&SetObjects::ready(MINIMAL)));
}

#[test]
fn a_new_set_waits_for_the_operator() {
    insta::assert_snapshot!(shown(&SetObjects::new(MINIMAL)));
}

/// Only a part of the pods of the base gang exists.
#[test]
fn gated_pods_wait_for_their_gang_and_scaled_gangs_for_the_base_gang() {
    let mut set = SetObjects::ready(MINIMAL);
    let pending = json!({ "status": { "conditions": [{
        "type": "Initialized", "status": "False", "reason": "PodsPending",
        "message": "Not all constituent pods have been created yet",
    }]}});
    set.patch_gang("demo-0", &pending);
    for name in set.cliques.keys().cloned().collect::<Vec<_>>() {
        let number = set.cliques[&name].spec.replicas - i32::from(name == WORKERS);
        set.pods_are(&name, &vec![Is::Gated; usize::try_from(number).unwrap()]);
        let conditions = [
            condition("PodCliqueScheduled", "False", 1),
            condition("MinAvailableBreached", "True", 1),
        ];
        set.patch_clique(&name, &json!({ "status": { "conditions": conditions } }));
    }
    let unavailable = json!({ "status": {
        "availableReplicas": 0, "conditions": [condition("MinAvailableBreached", "True", 1)],
    }});
    set.patch_group("demo-0-decode", &unavailable);
    set.patch_set(&json!({ "status": { "availableReplicas": 0 } }));

    insta::assert_snapshot!(shown(&set));
}

/// A pod whose gate was lifted and that the scheduler has not tried since.
fn gated_before(claims: &Value) -> Value {
    let message = "Scheduling is blocked due to non-empty scheduling gates";
    json!({ "spec": { "nodeName": null, "resourceClaims": claims }, "status": { "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message,
    }]}})
}

#[test]
fn a_pod_shows_the_first_thing_it_waits_for() {
    let running = json!({ "running": { "startedAt": CREATED } });
    let waiting = |reason: &str, message: &str| json!({ "waiting": { "reason": reason, "message": message } });
    let unready = |containers: Value| {
        json!({ "status": {
            "conditions": [
                { "type": "PodScheduled", "status": "True" }, { "type": "Ready", "status": "False" },
            ],
            "containerStatuses": containers,
        }})
    };
    let init = |name: &str, state: &Value| {
        json!({ "status": {
            "conditions": [{ "type": "PodScheduled", "status": "True" }],
            "initContainerStatuses": [container(name, false, state)],
            "containerStatuses": [container("c", false, &waiting("PodInitializing", ""))],
        }})
    };
    let crashed = {
        let mut crashed = container("c", false, &waiting("CrashLoopBackOff", "back-off 10s"));
        crashed["restartCount"] = json!(2);
        crashed
    };
    let cases: [(&str, Value, &str); 17] = [
        ("nothing", json!({}), "Ready 5m"),
        (
            "scheduler",
            json!({ "spec": { "nodeName": null }, "status": { "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/4 nodes are available:\n4 Insufficient nvidia.com/gpu.",
            }]}}),
            "Unscheduled 5m scheduler default-scheduler: 0/4 nodes are available: 4 Insufficient \
             nvidia.com/gpu.",
        ),
        (
            "scheduler that never looked",
            json!({ "spec": { "schedulerName": "kai" }, "status": { "conditions": [] } }),
            "Unscheduled 5m scheduler kai, which has not looked at it yet",
        ),
        (
            "claim without its template",
            gated_before(&json!([{ "name": "gpu", "resourceClaimTemplateName": "one-gpu" }])),
            "Unscheduled 5m ResourceClaimTemplate one-gpu of claim \"gpu\" to exist",
        ),
        (
            "missing claim",
            gated_before(&json!([{ "name": "gpu", "resourceClaimName": "shared" }])),
            "Unscheduled 5m ResourceClaim shared to exist",
        ),
        (
            "condition from the time of the gate",
            gated_before(&json!([])),
            "Unscheduled 5m scheduler default-scheduler, which has not looked at it yet",
        ),
        (
            "gates of others",
            json!({ "spec": { "schedulingGates": [{ "name": "quota" }] } }),
            "Gated 5m the scheduling gates of others: quota",
        ),
        (
            "gate that may go",
            json!({ "spec": { "schedulingGates": [{ "name": "grove.io/podgang-pending-creation" }] } }),
            "Gated 5m the operator to lift its gate",
        ),
        (
            "image",
            unready(json!([container("c", false, &waiting("ImagePullBackOff", "no such image"))])),
            "NotReady 5m container c: ImagePullBackOff: no such image",
        ),
        (
            "crash",
            unready(json!([crashed])),
            "NotReady 5m container c: CrashLoopBackOff: back-off 10s",
        ),
        (
            "exit",
            unready(json!([container(
                "c",
                false,
                &json!({
                    "terminated": { "exitCode": 3, "reason": "Error" },
                })
            )])),
            "NotReady 5m container c: ended with exit code 3 (Error)",
        ),
        (
            "startup",
            unready(json!([container("c", false, &running)])),
            "Starting 5m container c: has not started",
        ),
        (
            "node",
            json!({ "status": {
                "conditions": [{ "type": "PodScheduled", "status": "True" }],
                "containerStatuses": null,
            }}),
            "Starting 5m node node-1 to start it",
        ),
        (
            "init container",
            init("fetch", &waiting("ErrImagePull", "")),
            "Starting 5m init container fetch: ErrImagePull",
        ),
        (
            "start-order container that cannot start",
            init("grove-initc", &waiting("ErrImagePull", "")),
            "Starting 5m init container grove-initc: ErrImagePull",
        ),
        (
            "deletion",
            json!({ "metadata": { "deletionTimestamp": CREATED, "finalizers": ["a/b"] } }),
            "Terminating 5m its containers to end and its finalizers: a/b",
        ),
        (
            "failure",
            json!({ "status": { "phase": "Failed", "reason": "Evicted" } }),
            "Failed 5m Evicted",
        ),
    ];
    for (what, change, expected) in cases {
        let mut set = SetObjects::ready(MINIMAL);
        set.patch_pod("demo-0-router-0", &change);
        let line = line(&set, "pod/demo-0-router-0");
        assert_eq!(line, format!("pod/demo-0-router-0 {expected}"), "{what}");
    }
}

#[test]
fn a_clique_waits_for_the_claims_of_its_pods() {
    let mut set = SetObjects::ready(MINIMAL);
    let claims = json!([{ "name": "gpu", "resourceClaimTemplateName": "one-gpu" }]);
    set.patch_pod("demo-0-router-0", &gated_before(&claims));

    assert_eq!(
        line(&set, "pclq/demo-0-router"),
        "pclq/demo-0-router 0/1 Unscheduled 5m its minimum: 0 of 1 pods scheduled; \
         ResourceClaimTemplate one-gpu of claim \"gpu\" to exist"
    );
}

#[test]
fn messages_of_the_cluster_cannot_control_the_terminal() {
    let mut set = SetObjects::ready(MINIMAL);
    let change = json!({ "spec": { "nodeName": null }, "status": { "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "\u{1b}[2J\u{1b}]0;owned\u{7}",
    }]}});
    set.patch_pod("demo-0-router-0", &change);

    let text = shown(&set);

    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
    assert!(text.contains("\\u{1b}[2J\\u{1b}]0;owned\\u{7}"), "{text}");
}

#[test]
fn a_pod_with_a_start_order_waits_for_its_parents() {
    let manifest =
        MINIMAL.replace("cliques:", "cliqueStartupType: CliqueStartupTypeInOrder\n    cliques:");
    let mut set = SetObjects::ready(&manifest);
    let init = container("grove-initc", false, &json!({ "running": { "startedAt": CREATED } }));
    let pod = format!("{WORKERS}-0");
    set.patch_pod(
        &pod,
        &json!({ "status": {
            "conditions": [{ "type": "PodScheduled", "status": "True" }],
            "initContainerStatuses": [init],
        }}),
    );

    let expected = format!("pod/{pod} Starting 5m its parents, which are ready now");
    assert_eq!(line(&set, &format!("pod/{pod}")), expected);
    set.pods_are("demo-0-decode-0-leader", &[Is::Starting]);
    let expected =
        format!("pod/{pod} Starting 5m its parents: demo-0-decode-0-leader has 0 of 1 pods ready");
    assert_eq!(line(&set, &format!("pod/{pod}")), expected);
}

#[test]
fn a_gang_shows_its_state_and_what_it_waits_for() {
    let minimum = format!("{WORKERS} has 1 of 2 pods");
    let mut set = SetObjects::ready(MINIMAL);
    set.pods_are(WORKERS, &BELOW_MINIMUM);
    assert_eq!(
        line(&set, "pg/demo-0"),
        format!("pg/demo-0 Unscheduled 5m the scheduler: {minimum} scheduled")
    );
    // Its pods have no gates any more.
    assert_eq!(line(&set, "pg/demo-0-decode-0"), "pg/demo-0-decode-0 Ready 5m");
    set.pods_are("demo-0-decode-1-leader", &[Is::Gated]);
    assert_eq!(
        line(&set, "pg/demo-0-decode-0"),
        format!(
            "pg/demo-0-decode-0 Gated 5m base gang demo-0 to be scheduled: {minimum} scheduled"
        )
    );

    // Recreated, while a pod of the former one is still terminating.
    let mut set = SetObjects::ready(MINIMAL);
    let [leader, workers] = ["demo-0-decode-1-leader", "demo-0-decode-1-worker"];
    let former = format!("{leader}-0");
    let going = set.pods[&former].clone();
    set.pods.insert("former".to_owned(), going);
    let going = json!({ "metadata": { "name": "former", "deletionTimestamp": CREATED } });
    set.patch_pod("former", &going);
    set.pods_are(leader, &[Is::Gated]);
    set.pods_are(workers, &[Is::Gated; 3]);
    let waits = "the former pods of PodGang demo-0-decode-0 to be gone";
    assert_eq!(
        line(&set, "pg/demo-0-decode-0"),
        format!("pg/demo-0-decode-0 Gated 5m {waits}: former")
    );
    assert_eq!(line(&set, &format!("pod/{former}")), format!("pod/{former} Gated 5m {waits}"));

    let mut set = SetObjects::ready(MINIMAL);
    set.pods_are(WORKERS, &[Is::Ready, Is::Starting, Is::Starting]);
    assert_eq!(
        line(&set, "pg/demo-0"),
        format!("pg/demo-0 Starting 5m its minimum: {minimum} ready")
    );
    assert_eq!(line(&set, "pg/demo-0-decode-0"), "pg/demo-0-decode-0 Ready 5m");

    let mut set = SetObjects::ready(MINIMAL);
    let unhealthy = json!({ "status": { "conditions": [
        condition("Initialized", "True", 1), condition("Unhealthy", "True", 9),
    ]}});
    set.patch_gang("demo-0", &unhealthy);
    assert_eq!(line(&set, "pg/demo-0"), "pg/demo-0 Ready 5m Unhealthy: Reason: a message");

    let mut set = SetObjects::ready(MINIMAL);
    set.patch_gang(
        "demo-0",
        &json!({ "status": { "conditions": [{
            "type": "Initialized", "status": "False", "reason": "RefsSyncing", "message": "soon",
        }]}}),
    );
    assert_eq!(line(&set, "pg/demo-0"), "pg/demo-0 Pending 5m RefsSyncing: soon");
    set.gangs.remove("demo-0");
    assert_eq!(line(&set, "pg/demo-0"), "pg/demo-0 Missing the operator to create it");
}

#[test]
fn a_clique_shows_its_state_and_what_it_waits_for() {
    use Is::{Gated, Ready, Starting, Unscheduled};
    let cases: [(&[Is], &str); 6] = [
        (&[Ready, Ready, Ready], "3/3 Ready 5m"),
        (&[Ready, Ready, Starting], "2/3 Available 5m"),
        (&[Ready, Starting, Unscheduled], "1/3 Starting 5m its minimum: 1 of 2 pods ready"),
        (&[Starting, Unscheduled, Gated], "0/3 Gated 5m its minimum: 1 of 2 pods scheduled"),
        (
            &[Starting, Unscheduled, Unscheduled],
            "0/3 Unscheduled 5m its minimum: 1 of 2 pods scheduled",
        ),
        (&[Ready], "1/3 Pending 5m its minimum: 1 of 2 pods created"),
    ];
    let title = format!("pclq/{WORKERS}");
    for (states, expected) in cases {
        let mut set = SetObjects::ready(MINIMAL);
        set.pods_are(WORKERS, states);
        assert_eq!(line(&set, &title), format!("{title} {expected}"));
    }

    let mut set = SetObjects::ready(MINIMAL);
    let crashes = container("c", false, &json!({ "waiting": { "reason": "CrashLoopBackOff" } }));
    set.pods_are(WORKERS, &[Ready, Starting, Starting]);
    set.patch_pod(
        &format!("{WORKERS}-1"),
        &json!({ "status": { "containerStatuses": [crashes] } }),
    );
    let expected = format!("{title} 1/3 NotReady 5m its minimum: 1 of 2 pods ready");
    assert_eq!(line(&set, &title), expected);

    let mut set = SetObjects::ready(MINIMAL);
    let error = json!({ "code": "ERR_CREATE_POD", "description": "quota exceeded" });
    set.patch_clique(WORKERS, &json!({ "status": { "lastErrors": [error] } }));
    assert_eq!(line(&set, &title), format!("{title} 3/3 Ready 5m quota exceeded"));
}

/// The router lost its pod 100 s after the creation; a quarter of an hour later it ends.
#[test]
fn a_lost_minimum_shows_when_it_is_terminated() {
    let mut set = SetObjects::ready(MINIMAL);
    set.patch_set(&json!({
        "spec": { "template": { "terminationDelay": "15m" } }, "status": { "availableReplicas": 0 },
    }));
    let lost = json!({ "status": {
        "conditions": [
            condition("PodCliqueScheduled", "False", 100),
            condition("MinAvailableBreached", "True", 100),
            condition("MinAvailableReached", "True", 2),
        ],
    }});
    set.pods_are("demo-0-router", &[Is::Unscheduled]);
    set.patch_clique("demo-0-router", &lost);

    insta::assert_snapshot!(shown(&set));
    insta::assert_json_snapshot!(analyse(&set.objects()));
}

#[test]
fn a_breach_ends_in_a_termination_only_after_the_minimum_was_reached() {
    let breached = |since: i64| condition("MinAvailableBreached", "True", since);
    let reached = |status: &str| condition("MinAvailableReached", status, 2);
    let router = |reached: Value, since: i64| {
        let mut set = SetObjects::ready(MINIMAL);
        set.patch_set(&json!({ "spec": { "template": { "terminationDelay": "3m" } } }));
        let conditions = json!([breached(since), reached]);
        set.patch_clique("demo-0-router", &json!({ "status": { "conditions": conditions } }));
        line(&set, "pclq/demo-0-router")
    };
    assert_eq!(router(reached("False"), 200), "pclq/demo-0-router 1/1 Ready 5m");
    assert_eq!(
        router(reached("True"), 200),
        "pclq/demo-0-router 1/1 Breached 5m its recovery: breached since 100s, terminated in 80s (at \
         2026-01-01T00:06:20Z)"
    );
    assert_eq!(
        router(reached("True"), 110),
        "pclq/demo-0-router 1/1 Breached 5m its termination: breached since 3m10s, due at \
         2026-01-01T00:04:50Z"
    );

    let group = |conditions: Value| {
        let mut set = SetObjects::ready(MINIMAL);
        set.patch_group("demo-0-decode", &json!({ "status": { "conditions": conditions } }));
        line(&set, "pcsg/demo-0-decode")
    };
    assert_eq!(group(json!([breached(60), reached("False")])), "pcsg/demo-0-decode 2/2 Ready 5m");
    assert_eq!(
        group(json!([breached(60), reached("True")])),
        "pcsg/demo-0-decode 2/2 Breached 5m its recovery: breached since 4m, terminated in 3h56m (at \
         2026-01-01T04:01:00Z)"
    );
    assert_eq!(
        group(json!([breached(60), condition("GangTerminationInProgress", "True", 90)])),
        "pcsg/demo-0-decode 2/2 Breached 5m its recovery after it was terminated as a gang"
    );
}

#[test]
fn a_succeeded_pod_counts_for_the_minimum_of_its_gang() {
    let mut set = SetObjects::ready(MINIMAL);
    let succeeded = json!({ "status": { "phase": "Succeeded", "conditions": [
        { "type": "PodScheduled", "status": "True" }, { "type": "Ready", "status": "False" },
    ]}});
    set.patch_pod("demo-0-router-0", &succeeded);

    assert_eq!(line(&set, "pg/demo-0"), "pg/demo-0 Ready 5m");
}

/// Of two replicas the second is being updated.
fn updating() -> SetObjects {
    let mut set = SetObjects::ready(&MINIMAL.replacen("replicas: 1", "replicas: 2", 1));
    let started = after(60).to_string();
    set.patch_set(&json!({ "status": { "updatedReplicas": 1, "updateProgress": {
        "updateStartedAt": started,
        "currentlyUpdating": [{ "replicaIndex": 1, "updateStartedAt": started }],
    }}}));
    set.patch_group(
        "demo-1-decode",
        &json!({ "status": { "updateProgress": {
            "updateStartedAt": started, "podCliqueSetGenerationHash": "h",
            "updatedPodCliquesCount": 2, "totalPodCliquesCount": 4,
            "readyReplicaIndicesSelectedToUpdate": { "current": 1, "completed": [0] },
        }}}),
    );
    set.patch_clique(
        "demo-1-router",
        &json!({ "status": { "updatedReplicas": 0, "updateProgress": {
            "updateStartedAt": started, "podCliqueSetGenerationHash": "h", "podTemplateHash": "h",
            "readyPodsSelectedToUpdate": { "current": "demo-1-router-0" },
        }}}),
    );
    // Updates that ended are history.
    set.patch_clique(
        "demo-0-router",
        &json!({ "status": { "updateProgress": {
            "updateStartedAt": started, "updateEndedAt": started, "podCliqueSetGenerationHash": "h",
            "podTemplateHash": "h",
        }}}),
    );
    set
}

#[test]
fn an_update_is_shown_where_it_happens() {
    let mut set = updating();
    insta::assert_snapshot!(shown(&set));

    set.patch_set(&json!({ "metadata": { "annotations": { "grove.io/rollout-paused": "true" } } }));
    assert_eq!(
        line(&set, "pcs/demo"),
        "pcs/demo 2/2 Updating 5m its update since 4m: 1 of 2 replicas, now replica 1, paused; the \
         user: the update is paused, see \"grove rollout resume demo\""
    );
}

#[test]
fn an_update_that_was_paused_before_it_began_waits_for_the_user() {
    let mut set = SetObjects::ready(MINIMAL);
    set.patch_set(&json!({
        "metadata": { "annotations": { "grove.io/rollout-paused": "true" } },
        "status": { "currentGenerationHash": grove_core::hash::generation_hash(&set.set) },
    }));
    assert_eq!(line(&set, "pcs/demo"), "pcs/demo 1/1 Ready 5m");

    set.patch_set(&json!({ "status": { "currentGenerationHash": "former" } }));
    assert_eq!(
        line(&set, "pcs/demo"),
        "pcs/demo 1/1 Ready 5m the user: the update is paused, see \"grove rollout resume demo\""
    );
}

#[test]
fn a_set_reports_errors_and_conditions_of_its_scheduler_and_topology() {
    let mut set = SetObjects::ready(MINIMAL);
    set.patch_set(&json!({
        "metadata": { "generation": 4 },
        "status": {
            "lastErrors": [{ "code": "ERR_SYNC_ROLE", "description": "roles are forbidden" }],
            "conditions": [
                condition("SchedulerBackendReady", "False", 9),
                condition("SchedulerLimits", "True", 9),
                condition("TopologyConstraints", "False", 9),
                condition("TopologyLevelsUnavailable", "False", 9),
            ],
        },
    }));

    assert_eq!(
        line(&set, "pcs/demo"),
        "pcs/demo 1/1 Ready 5m the operator to see generation 4; roles are forbidden; \
         SchedulerBackendReady: Reason: a message; SchedulerLimits: Reason: a message; \
         TopologyConstraints: Reason: a message"
    );
}

/// The set has one replica less than before, its group too; a clique outlives its group, and a pod its
/// clique.
#[test]
fn what_is_left_over_is_shown_where_it_was() {
    let mut set = SetObjects::ready(&MINIMAL.replacen("replicas: 1", "replicas: 2", 1));
    set.patch_set(&json!({ "spec": { "replicas": 1 }, "status": { "availableReplicas": 1 } }));
    set.patch_group(
        "demo-0-decode",
        &json!({
            "spec": { "replicas": 1 }, "status": { "availableReplicas": 1 },
        }),
    );
    let deleting = json!({ "metadata": {
        "deletionTimestamp": CREATED, "finalizers": ["grove.io/podclique.grove.io"],
    }});
    let leaving = [
        "demo-0-decode-1-leader",
        "demo-0-decode-1-worker",
        "demo-1-router",
        "demo-1-decode-1-leader",
    ];
    for name in leaving {
        set.patch_clique(name, &deleting);
    }
    set.gangs.retain(|name, _| name == "demo-0");
    set.groups.remove("demo-1-decode");
    let left = ["demo-1-decode-1-leader", "demo-1-decode-0-leader-0", "demo-1-decode-1-leader-0"];
    let stays = |name: &str| !name.starts_with("demo-1-decode") || left.contains(&name);
    set.cliques.retain(|name, _| stays(name));
    set.pods.retain(|name, _| stays(name));

    insta::assert_snapshot!(shown(&set));
}

#[test]
fn a_deleted_set_waits_for_its_finalizers() {
    let mut set = SetObjects::ready(MINIMAL);
    set.patch_set(&json!({ "metadata": {
        "deletionTimestamp": CREATED, "finalizers": ["grove.io/podcliqueset.grove.io"],
    }}));

    let expected = "pcs/demo 1/1 Terminating 5m its finalizers: grove.io/podcliqueset.grove.io";
    assert_eq!(line(&set, "pcs/demo"), expected);
}

#[test]
fn what_does_not_fit_is_cut_off() {
    let mut set = SetObjects::ready(MINIMAL);
    set.pods_are(WORKERS, &BELOW_MINIMUM);
    let tree = analyse(&set.objects());

    let room = Room { width: Some(60), height: Some(5) };
    insta::assert_snapshot!(text(&tree, after(300), room));
}
