use grove_runtime::class::{Class, Classed as _};
use grove_runtime::view::MetaView;
use grove_runtime::write::Verb;
use serde_json::json;

use super::*;

fn set(startup_type: &str) -> Set {
    let clique = |name: &str| json!({ "name": name, "spec": { "podSpec": {} } });
    let set = json!({
        "metadata": { "name": "x", "namespace": "n", "uid": "set", "resourceVersion": "1" },
        "spec": { "template": {
            "cliqueStartupType": startup_type, "cliques": [clique("a"), clique("b")],
        } },
    });
    serde_json::from_value(set).unwrap()
}

fn in_order() -> Set {
    set("CliqueStartupTypeInOrder")
}

/// An object that is controlled by the owner, if any, and labelled as the operator's.
fn object(name: &str, owner: Option<(&str, &str, &str)>) -> Value {
    let owners: Vec<Value> = owner
        .into_iter()
        .map(|(kind, name, uid)| {
            json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": true })
        })
        .collect();
    json!({ "metadata": {
        "name": name, "namespace": "n", "uid": "u", "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": owners,
        "labels": { labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::PART_OF: "x" },
    }})
}

const OURS: Option<(&str, &str, &str)> = Some(("PodCliqueSet", "x", "set"));

fn secret(name: &str, owner: Option<(&str, &str, &str)>, data: Value) -> Arc<TokenSecret> {
    let mut secret = object(name, owner);
    secret["data"] = data;
    Arc::new(serde_json::from_value(secret).unwrap())
}

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

#[test]
fn the_token_is_awaited_only_by_sets_with_start_order_and_only_in_the_secret_of_the_set() {
    let with = |secret| ObservedAccess { secret, ..ObservedAccess::default() };
    let filled = || json!({ "token": "dG9rZW4=", "ca.crt": "YQ==" });
    let until = Some(at("00:00:30"));
    let cases = [
        ("no secret", with(None), Token::Awaited { until: None }),
        ("filled", with(Some(secret("x-ic-sat", OURS, filled()))), Token::Settled),
        ("no data", with(Some(secret("x-ic-sat", OURS, json!(null)))), Token::Awaited { until }),
        (
            "empty",
            with(Some(secret("x-ic-sat", OURS, json!({ "token": "" })))),
            Token::Awaited { until },
        ),
        ("foreign", with(Some(secret("x-ic-sat", None, filled()))), Token::Awaited { until: None }),
    ];
    for (name, observed, expected) in cases {
        assert_eq!(token(&in_order(), &observed, at("00:00:29")), expected, "{name}");
        let any_order = set("CliqueStartupTypeAnyOrder");
        assert_eq!(token(&any_order, &observed, at("00:00:29")), Token::Settled, "{name}");
    }
    let empty = with(Some(secret("x-ic-sat", OURS, json!(null))));
    assert_eq!(token(&in_order(), &empty, at("00:00:30")), Token::Late);
    assert!(late(&in_order()).to_string().starts_with("Secret n/x-ic-sat has no token 30 s after"));
}

#[test]
fn a_missing_image_is_reported_by_sets_with_start_order() {
    assert!(no_image(&in_order(), Some("grove-initc:1")).is_none());
    assert!(no_image(&set("CliqueStartupTypeAnyOrder"), None).is_none());
    let error = no_image(&in_order(), None).unwrap().to_string();
    assert!(error.contains("--init-image"), "{error}");
}

#[test]
fn the_legacy_secret_is_deleted_when_it_is_ours_unused_and_replaced() {
    let (filled, legacy) = (json!({ "token": "dG9rZW4=" }), "x-initc-sa-token-secret");
    let observed = || ObservedAccess {
        secret: Some(secret("x-ic-sat", OURS, filled.clone())),
        legacy_secret: Some(secret(legacy, OURS, json!(null))),
        ..ObservedAccess::default()
    };
    let removal = |observed: ObservedAccess| legacy_removal(&in_order(), &observed);

    let write = removal(observed()).unwrap();
    assert_eq!(&*write.key.name, legacy);
    let Verb::Delete { only_if, .. } = write.verb else { panic!("{write:?}") };
    assert_eq!(only_if.uid, "u".into());
    let foreign = Some(secret(legacy, Some(("Job", "j", "j")), json!(null)));
    let no_token = Some(secret("x-ic-sat", OURS, json!(null)));
    assert_eq!(removal(ObservedAccess { legacy_is_mounted: true, ..observed() }), None);
    assert_eq!(removal(ObservedAccess { legacy_secret: foreign, ..observed() }), None);
    assert_eq!(removal(ObservedAccess { secret: no_token, ..observed() }), None);
    assert_eq!(removal(ObservedAccess { secret: None, ..observed() }), None);
}

#[test]
fn ownership_depends_on_the_controller_and_then_on_labels() {
    let of = |kind: &Resource, object: Value| {
        let view: MetaView = serde_json::from_value(object).unwrap();
        standing(&in_order(), kind, &view.metadata)
    };
    let mut leaving = object("x", OURS);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut unlabelled = object("x", None);
    unlabelled["metadata"]["labels"] = json!(null);
    let former = || object("x", Some(("PodCliqueSet", "x", "former")));
    let cases = [
        ("controlled by the set", ROLES, object("x", OURS), Standing::Ours),
        ("left by a set of this name", ROLES, object("x", None), Standing::Ours),
        ("a secret without owner", SECRETS, object("x", None), Standing::Foreign),
        ("of a user", ROLES, unlabelled, Standing::Foreign),
        ("of another set", ROLES, object("x", Some(("PodCliqueSet", "y", "y"))), Standing::Foreign),
        ("of another kind", SECRETS, object("x", Some(("Job", "x", "j"))), Standing::Foreign),
        ("of a former set", SECRETS, former(), Standing::Leaving),
        ("being deleted", ROLES, leaving, Standing::Leaving),
    ];
    for (name, kind, object, expected) in cases {
        assert_eq!(of(&kind, object), expected, "{name}");
    }
}

#[test]
fn objects_of_other_owners_are_used_when_they_grant_what_is_needed_and_reported_otherwise() {
    let set = in_order();
    let layout = Layout::of(&set.object);
    assert!(usable(&set, &ROLES, &children::role(&layout)).is_ok());
    assert!(usable(&set, &ROLE_BINDINGS, &children::role_binding(&layout)).is_ok());
    let cases = [
        (
            ROLES,
            "ERR_SYNC_ROLE",
            "Role n/o already exists and belongs to Job j, and does not grant",
        ),
        (ROLE_BINDINGS, "ERR_SYNC_ROLEBINDING", "does not bind the Role"),
        (SERVICE_ACCOUNTS, "ERR_SYNC_SERVICEACCOUNT", "gets no token and no role"),
        (SECRETS, "ERR_SECRET_CONFLICT", "is not controlled by PodCliqueSet n/x"),
    ];
    for (kind, code, text) in cases {
        let error = usable(&set, &kind, &object("o", Some(("Job", "j", "j")))).unwrap_err();
        assert_eq!(json!(error.code()), code);
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.class(), Class::Conflict, "{kind}");

        let report = error.report(at("00:00:00")).unwrap();
        let errors = [error];
        assert_eq!(refusals(&set, &errors, &[]).len(), 1);
        assert_eq!(refusals(&set, &errors, &[report]), []);
    }
}
