//! The history of templates.

use serde_json::{Value, json};

use super::{Fixture, rules};
use grove_testbed::kinds::{REVISIONS, SETS};
use grove_testbed::mirror::{Namespace, State};
use grove_testbed::sets::small;

rules! {
    each_template_is_kept_once_with_its_latest_number,
    the_change_cause_is_kept_with_its_template,
}

const CAUSE: &str = "kubernetes.io/change-cause";

/// Changes the image of the first clique.
fn image(image: &str) -> Value {
    json!([{
        "op": "replace", "path": "/spec/template/cliques/0/spec/podSpec/containers/0/image",
        "value": image,
    }])
}

/// Image of the first clique, number and reason of each revision, by number.
fn history(state: &State) -> Vec<(i64, String, Value)> {
    let of = |revision: &Value| {
        let container = "/data/spec/template/cliques/0/spec/podSpec/containers/0/image";
        let image = revision.pointer(container).unwrap().as_str().unwrap().to_owned();
        let cause = revision["metadata"]["annotations"][CAUSE].clone();
        (revision["revision"].as_i64().unwrap(), image, cause)
    };
    let all = state.of(REVISIONS).into_iter();
    let mut history: Vec<_> = all.map(|revision| of(revision)).collect();
    history.sort_by_key(|(number, ..)| *number);
    history
}

fn numbers(namespace: &Namespace) -> Vec<(i64, String)> {
    let history = namespace.look(history);
    history.into_iter().map(|(number, image, _)| (number, image)).collect()
}

/// Waits until the revisions, by number, have these reasons.
async fn until_reasons(namespace: &Namespace, causes: &[&str]) {
    let what = format!("the reasons are {causes:?}");
    let reported = |state: &State| history(state).into_iter().map(|(_, _, cause)| cause);
    namespace.until_is(&what, |state| reported(state).eq(causes.iter().copied())).await;
}

async fn each_template_is_kept_once_with_its_latest_number(fixture: Fixture, namespace: Namespace) {
    fixture.deploy(&namespace, &small("x"), 5).await;
    fixture.until_no_writes(&namespace).await;
    assert_eq!(numbers(&namespace), [(1, "busybox".to_owned())]);

    let of_revisions = |writes: Vec<String>| {
        writes.into_iter().filter(|write| write.contains("controllerrevisions")).count()
    };
    let act = async { drop(namespace.patch(SETS, "x", image("busybox:2")).await) };
    assert_eq!(of_revisions(fixture.writes_after(&namespace, act).await), 1);
    assert_eq!(numbers(&namespace), [(1, "busybox".to_owned()), (2, "busybox:2".to_owned())]);

    let act = async { drop(namespace.patch(SETS, "x", image("busybox")).await) };
    assert_eq!(of_revisions(fixture.writes_after(&namespace, act).await), 1);
    assert_eq!(numbers(&namespace), [(2, "busybox:2".to_owned()), (3, "busybox".to_owned())]);

    let more = json!({ "spec": { "template": { "terminationDelay": "1h" } } });
    let act = async { drop(namespace.patch(SETS, "x", more).await) };
    assert_eq!(of_revisions(fixture.writes_after(&namespace, act).await), 0, "no other template");
}

async fn the_change_cause_is_kept_with_its_template(fixture: Fixture, namespace: Namespace) {
    let mut set = small("x");
    set["metadata"]["annotations"] = json!({ CAUSE: "first try" });
    fixture.deploy(&namespace, &set, 5).await;
    let because = |why: &str| json!({ "metadata": { "annotations": { CAUSE: why } } });
    until_reasons(&namespace, &["first try"]).await;

    namespace.patch(SETS, "x", image("busybox:2")).await;
    until_reasons(&namespace, &["first try", "first try"]).await;
    // As users do who change the image first and add the cause afterwards.
    namespace.patch(SETS, "x", because("newer")).await;
    until_reasons(&namespace, &["first try", "newer"]).await;
}
