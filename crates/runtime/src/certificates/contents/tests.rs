use std::time::Duration;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

fn who() -> AuthorityName {
    AuthorityName { common_name: "Example-CA".into(), organization: "Example".into() }
}

fn names() -> Vec<String> {
    ["webhook.ns.svc", "webhook", "127.0.0.1", "::1"].map(str::to_owned).into()
}

fn step(contents: &Contents, step: &Step, at: Timestamp) -> Contents {
    contents.after(step, &who(), &names(), &Schedule::default(), at).unwrap()
}

/// Stores the contents and reads them again.
fn stored(contents: &Contents) -> Contents {
    let data = contents.data();
    let data = data.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    Contents::read(&data, &names())
}

#[test]
fn a_rotation_survives_being_stored_at_every_step() {
    let found = step(&Contents::default(), &Step::Found, now());
    assert!(stored(&found) == found);
    let (a, facts) = (found.facts.signer.clone().unwrap(), &found.facts);
    assert_eq!(facts.trusted.len(), 1);
    let leaf = facts.leaf.as_ref().unwrap();
    assert!(leaf.names_complete && leaf.issuer.as_ref() == Some(&a));
    assert_eq!(leaf.validity.not_after, now() + 24 * HOUR);
    assert_eq!(leaf.validity.not_before, now() - HOUR);

    let announced = step(&found, &Step::Announce, now());
    assert!(stored(&announced) == announced);
    let b = announced.facts.next.clone().unwrap();
    assert_eq!(announced.leaf(), found.leaf());
    assert_eq!(announced.facts.signer, Some(a.clone()));

    let switched = step(&announced, &Step::Switch, now());
    assert!(stored(&switched) == switched);
    assert_eq!((&switched.facts.signer, &switched.facts.next), (&Some(b.clone()), &None));
    assert_eq!(switched.facts.leaf.as_ref().unwrap().issuer, Some(b.clone()));
    let order: Vec<&CaId> = switched.facts.trusted.iter().map(|(id, _)| id).collect();
    assert_eq!(order, [&b, &a], "the signer comes first");

    let retired = step(&switched, &Step::Retire(vec![a]), now());
    assert!(stored(&retired) == retired);
    assert_eq!(retired.facts.trusted.len(), 1);
}

#[test]
fn a_leaf_expires_no_later_than_its_ca() {
    let found = step(&Contents::default(), &Step::Found, now());
    let late = now() + Schedule::default().ca_valid_for - 2 * HOUR;

    let renewed = step(&found, &Step::IssueLeaf, late);

    assert_eq!(renewed.facts.leaf.unwrap().validity.not_after, late + 2 * HOUR);
}

#[test]
fn unreadable_values_count_as_missing() {
    let valid = step(&Contents::default(), &Step::Found, now());
    let other = step(&Contents::default(), &Step::Found, now());
    let with = |key: &str, value: &[u8]| {
        let mut data: Data = valid
            .data()
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect();
        data.insert(key.to_owned(), ByteString(value.to_vec()));
        Contents::read(&data, &names()).facts
    };
    let foreign_key = &other.leaf.as_ref().unwrap().key;

    for garbage in [&b""[..], b"garbage", b"\xff\xfe"] {
        assert_eq!(with(LEAF, garbage).leaf, None);
        assert_eq!(with(LEAF_KEY, garbage).leaf, None);
        assert_eq!(with(SIGNER_KEY, garbage).signer, None);
        let facts = with(BUNDLE, garbage);
        assert!(facts.trusted.is_empty() && facts.signer.is_none());
        assert_eq!(facts.leaf.unwrap().issuer, None);
    }
    assert_eq!(with(LEAF_KEY, foreign_key.as_bytes()).leaf, None, "a key of another leaf");
    assert_eq!(with(SIGNER_KEY, foreign_key.as_bytes()).signer, None, "a key of no CA");
    let leaf_as_ca = valid.leaf.as_ref().unwrap().certificate.as_bytes();
    assert!(with(BUNDLE, leaf_as_ca).trusted.is_empty(), "a leaf is no CA");
    assert_eq!(Contents::read(&Data::new(), &names()).facts, Facts::default());
}

#[test]
fn a_leaf_must_be_valid_for_every_name() {
    let found = step(&Contents::default(), &Step::Found, now());
    let data: Data =
        found.data().into_iter().filter_map(|(key, v)| Some((key.to_owned(), v?))).collect();
    let complete = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Contents::read(&data, &names).facts.leaf.unwrap().names_complete
    };

    assert!(complete(&["Webhook.NS.svc", "::1", "127.0.0.1"]));
    assert!(!complete(&["webhook", "other"]));
    assert!(!complete(&["10.0.0.1"]));
}

#[test]
fn a_deleted_secret_keeps_the_leaf_and_drops_the_keys() {
    let found = step(&Contents::default(), &Step::Found, now());

    let kept = found.without_keys();

    assert_eq!(kept.leaf(), found.leaf());
    assert_eq!(kept.bundle(), found.bundle());
    assert_eq!((kept.facts.signer.clone(), kept.facts.next.clone()), (None, None));
    let data = step(&kept, &Step::Announce, now()).data();
    assert_eq!(data[SIGNER_KEY], Some(ByteString(Vec::new())));
    assert!(data[NEXT_KEY].is_some());
}

#[test]
fn repeated_deletion_of_the_secret_does_not_grow_the_bundle() {
    let mut contents = step(&Contents::default(), &Step::Found, now());
    for _ in 0..20 {
        contents = step(&contents.without_keys(), &Step::Announce, now());
        contents = step(&contents, &Step::Switch, now());
    }
    assert!(contents.facts.trusted.len() <= MAX_FORMER_CAS + 2, "{}", contents.facts.trusted.len());
}

#[test]
fn the_published_bundle_is_plain_pem() {
    let found = step(&Contents::default(), &Step::Found, now());
    let announced = step(&found, &Step::Announce, now());

    let bundle = announced.bundle();

    assert_eq!(pair::chain(bundle.as_bytes()).unwrap().len(), 2);
    assert!(bundle.lines().all(|line| line.len() <= 64), "{bundle}");
}
