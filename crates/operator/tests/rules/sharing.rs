//! Claims that pods share.

use serde_json::json;

use super::{Fixture, rules, scale};
use grove_testbed::devices;
use grove_testbed::kinds::{CLAIM_TEMPLATES, CLAIMS, GROUPS, SETS};
use grove_testbed::mirror::{Namespace, send};
use grove_testbed::sets::sharing;

rules! {
    claims_follow_the_replicas_of_their_owner,
}

async fn claims_follow_the_replicas_of_their_owner(fixture: Fixture, namespace: Namespace) {
    devices::install(fixture.mirror.client()).await;
    let templates = CLAIM_TEMPLATES.in_namespace(&namespace.name);
    let template = devices::template("beside");
    send(fixture.mirror.client(), http::Method::POST, &templates, &template).await.unwrap();
    fixture.deploy(&namespace, &sharing("x"), 5).await;
    let claims = [
        "x-0-beside",
        "x-0-decode-0-leader-all-own",
        "x-0-decode-0-own",
        "x-0-decode-1-leader-all-own",
        "x-0-decode-1-own",
        "x-0-router-0-own",
        "x-all-own",
    ];
    assert_eq!(namespace.names(CLAIMS), claims);

    scale(&namespace, GROUPS, "x-0-decode", 1).await;
    namespace.until_complete(3).await;
    let fewer = claims.into_iter().filter(|claim| !claim.contains("decode-1"));
    let fewer: Vec<_> = fewer.collect();
    namespace.until_is("claims go with their copy", |state| state.names(CLAIMS) == fewer).await;

    let writes = fixture.writes_after(&namespace, async {
        let note = json!({ "metadata": { "annotations": { "note": "1" } } });
        namespace.patch(SETS, "x", note).await;
    });
    let writes = writes.await;
    assert!(!writes.iter().any(|write| write.contains("resourceclaims")), "{writes:?}");
}
