use super::*;

/// A set whose template has the hash `now`.
fn set(cause: Option<&str>) -> PodCliqueSet {
    let mut set: PodCliqueSet = serde_json::from_value(json!({
        "metadata": { "name": "demo", "namespace": "team-a", "uid": "u" },
        "spec": { "replicas": 2, "template": {
            "priorityClassName": "high",
            "cliques": [
                {
                    "name": "router",
                    "labels": { "role": "router" },
                    "annotations": { "note": "a" },
                    "spec": {
                        "roleName": "router", "replicas": 3, "minAvailable": 2,
                        "podSpec": { "containers": [{ "name": "c", "image": "busybox" }] },
                    },
                },
                { "name": "worker", "spec": { "roleName": "worker", "replicas": 1, "podSpec": {} } },
            ],
        }},
    }))
    .unwrap();
    set.metadata.annotations =
        cause.map(|cause| [(annotations::CHANGE_CAUSE.to_owned(), cause.to_owned())].into());
    set
}

fn revision(hash: &str, number: i64) -> Revision {
    let name = format!("demo-{hash}");
    Revision { name, number, change_cause: None, orphaned: false }
}

/// The changes for a set whose template has the hash `now`.
fn decide(cause: Option<&str>, live: &[Revision], in_use: &[&str]) -> Vec<RevisionChange> {
    let in_use = in_use.iter().map(|&hash| hash.to_owned()).collect();
    changes(&set(cause), "now", live, &in_use)
}

fn lines(changes: &[RevisionChange]) -> Vec<String> {
    let one = |change: &RevisionChange| match change {
        RevisionChange::Create(object) => {
            format!("create {} as {}", object["metadata"]["name"], object["revision"])
        }
        RevisionChange::Patch(name, patch) => format!("patch {name} {patch}"),
        RevisionChange::Delete(name) => format!("delete {name}"),
    };
    changes.iter().map(one).collect()
}

#[test]
fn a_revision_has_the_hashed_template_and_the_change_cause() {
    let changes = decide(Some("first try"), &[], &[]);

    let [RevisionChange::Create(object)] = &changes[..] else { panic!("{changes:?}") };
    insta::assert_json_snapshot!(object);
}

/// Name, stored revisions, change cause, and expected changes.
type Case = (&'static str, Vec<Revision>, Option<&'static str>, &'static [&'static str]);

#[test]
fn the_current_template_has_the_highest_number() {
    let former = revision("old", 4);
    let current = revision("now", 5);
    let cause = |cause: &str| Some(cause.to_owned());
    let cases: [Case; 7] = [
        ("the first template", vec![], None, &[r#"create "demo-now" as 1"#]),
        ("a new template", vec![former.clone()], None, &[r#"create "demo-now" as 5"#]),
        ("nothing to do", vec![former.clone(), current.clone()], None, &[]),
        (
            "a template that comes back",
            vec![revision("now", 3), former.clone()],
            None,
            &[r#"patch demo-now {"revision":5}"#],
        ),
        (
            "a template that comes back for a reason",
            vec![revision("now", 3), former.clone()],
            Some("back"),
            &[
                r#"patch demo-now {"metadata":{"annotations":{"kubernetes.io/change-cause":"back"}},"revision":5}"#,
            ],
        ),
        (
            "a later change cause",
            vec![Revision { change_cause: cause("first"), ..current.clone() }, former.clone()],
            Some("second"),
            &[
                r#"patch demo-now {"metadata":{"annotations":{"kubernetes.io/change-cause":"second"}}}"#,
            ],
        ),
        (
            "a removed change cause",
            vec![Revision { change_cause: cause("first"), ..current }, former],
            None,
            &[],
        ),
    ];
    for (what, live, cause, expected) in cases {
        assert_eq!(lines(&decide(cause, &live, &[])), expected, "{what}");
    }
}

#[test]
fn revisions_of_a_set_that_was_deleted_without_its_children_are_adopted() {
    let orphaned = |revision| Revision { orphaned: true, ..revision };
    let live = [orphaned(revision("old", 1)), orphaned(revision("now", 2))];

    let changes = decide(None, &live, &[]);

    assert_eq!(changes.len(), 2);
    for change in changes {
        let RevisionChange::Patch(_, patch) = change else { panic!("{change:?}") };
        assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(patch["revision"], Value::Null);
    }
}

#[test]
fn the_oldest_revisions_above_the_limit_are_deleted_unless_in_use() {
    let number = |number: usize| i64::try_from(number).unwrap();
    let live = |former: usize| -> Vec<Revision> {
        let mut live: Vec<_> =
            (1..=former).rev().map(|n| revision(&format!("h{n}"), number(n))).collect();
        live.push(revision("now", number(former + 1)));
        live
    };
    assert_eq!(decide(None, &live(LIMIT), &[]), []);
    assert!(!is_long(&set(None), "now", &live(LIMIT)));
    assert!(is_long(&set(None), "now", &live(LIMIT + 1)));
    assert_eq!(lines(&decide(None, &live(LIMIT + 2), &[])), ["delete demo-h1", "delete demo-h2"]);
    let in_use = ["h1", "h3", "now"];
    assert_eq!(lines(&decide(None, &live(LIMIT + 2), &in_use)), Vec::<String>::new());
    let expected = ["delete demo-h2", "delete demo-h4"];
    assert_eq!(lines(&decide(None, &live(LIMIT + 4), &in_use)), expected);
}

#[test]
fn a_new_template_keeps_the_former_one_in_the_history() {
    let live: Vec<_> = (1..=11).map(|n| revision(&format!("h{n}"), n)).collect();

    assert_eq!(lines(&decide(None, &live, &[])), [r#"create "demo-now" as 12"#, "delete demo-h1"]);
}
