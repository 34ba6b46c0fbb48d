use serde_json::json;

use super::*;
use crate::clock::Instant;

fn at(seconds: u64) -> Instant {
    Instant::START + Duration::from_secs(seconds)
}

#[test]
fn ages_count_from_the_last_change_and_restart_after_a_gap() {
    let mut since = Since::default();
    let cases = [
        (None, 0, None),
        (Some("a"), 1, Some(0)),
        (Some("a"), 5, Some(4)),
        (Some("b"), 6, Some(0)),
        (None, 7, None),
        (Some("b"), 9, Some(0)),
        (Some("b"), 10, Some(1)),
    ];
    for (value, seconds, expected) in cases {
        let age = since.update(value, at(seconds));
        assert_eq!(age, expected.map(Duration::from_secs), "{value:?} at {seconds}");
    }
}

#[test]
fn only_webhooks_that_carry_another_bundle_are_outdated() {
    let configuration = json!({
        "metadata": {"name": "hooks", "uid": "u", "resourceVersion": "3"},
        "webhooks": [
            {"name": "a", "clientConfig": {"caBundle": "YnVuZGxl", "service": {"name": "s"}}},
            {"name": "b", "clientConfig": {"caBundle": "b3RoZXI="}},
            {"name": "c", "clientConfig": {"url": "https://127.0.0.1/"}},
            {"name": "d", "clientConfig": {"caBundle": null}},
        ],
    });
    let view: ConfigurationView = serde_json::from_value(configuration).unwrap();

    assert_eq!(view.outdated("bundle"), [1, 2, 3]);
    assert_eq!(view.outdated("other"), [0, 2, 3]);
}
