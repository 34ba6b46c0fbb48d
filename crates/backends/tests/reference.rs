//! The reference implementation in `examples/backend`, and the check that it passes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test is a failed test")]

mod stand_in;

use std::time::Duration;

use axum::http::StatusCode;
use grove_backends::conformance::{self, Report};
use grove_runtime::endpoint::{EndpointConfig, IdentityFiles};
use grove_runtime::process::Env;
use grove_testbed::reference_backend::{Credential, Pki, ReferenceBackend};
use serde_json::json;
use stand_in::{Behaviour, StandIn};

async fn check(pki: &Pki, shown: Credential, url: &str) -> Report {
    let identity = IdentityFiles {
        certificate: pki.path("client.crt").into(),
        key: pki.path("client.key").into(),
    };
    let (identity, token_file) = match shown {
        Credential::Certificate => (Some(identity), None),
        Credential::Token => (None, Some(pki.path("token").into())),
    };
    let config = EndpointConfig {
        url: url.parse().unwrap(),
        ca_file: Some(pki.path("ca.crt").into()),
        identity,
        token_file,
        in_flight: 64,
    };
    conformance::check(&config, Duration::from_secs(10), &Env::system()).await
}

/// The names of the checks that failed, with all they say.
fn broken(report: &Report) -> Vec<(&'static str, String)> {
    let broken = report.checks.iter();
    broken.filter_map(|one| Some((one.name, format!("{:?}", one.broken.as_ref()?)))).collect()
}

#[tokio::test]
async fn the_reference_keeps_the_contract() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/reference"));
    for shown in [Credential::Certificate, Credential::Token] {
        let program = ReferenceBackend::start(&pki, shown, 0);
        let report = check(&pki, shown, &program.url()).await;
        assert_eq!(broken(&report), [], "{shown:?}");
        assert_eq!(report.checks.len(), 23);
        assert_eq!(report.kinds, ["crew.example.com/v1 Crew"]);
    }
}

#[tokio::test]
async fn an_unreachable_program_fails_the_first_check() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/unasked"));
    let program = ReferenceBackend::start(&pki, Credential::Token, 0);
    let url = program.url();
    pki.renew();
    let wrong_certificate = broken(&check(&pki, Credential::Token, &url).await);
    drop(program);
    let down = broken(&check(&pki, Credential::Token, &url).await);
    for (found, came) in [
        (wrong_certificate, "its certificate is not signed by the authority in"),
        (down, "refused"),
    ] {
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "Describe says what the scheduler is");
        assert!(found[0].1.contains(came), "{found:?}");
    }
}

#[tokio::test]
async fn every_way_to_break_the_contract_is_found() {
    let pki = Pki::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/broken"));
    let program = StandIn::start(&pki).await;
    let cases: [(Behaviour, &[&str]); 7] = [
        (
            Behaviour::Changed(|answer| answer["response"]["uid"] = json!("other")),
            &["Describe says what the scheduler is"],
        ),
        (
            Behaviour::Changed(|answer| answer["response"]["description"] = json!(null)),
            &["Describe says what the scheduler is"],
        ),
        (
            Behaviour::Text(StatusCode::INTERNAL_SERVER_ERROR, "boom".to_owned()),
            &["Describe says what the scheduler is"],
        ),
        (
            Behaviour::Changed(|answer| {
                let said = &mut answer["response"]["description"];
                if said.is_object() {
                    said["capabilities"]["topology"] = json!("refused");
                }
            }),
            &[
                "a set that has to be packed is refused, or its gang is synced",
                "an unknown operation is refused with an error",
            ],
        ),
        // It does not look at what it is asked.
        (
            Behaviour::Good,
            &[
                "an unknown operation is refused with an error",
                "another apiVersion is refused",
                "a body that is no JSON is refused",
            ],
        ),
        (
            Behaviour::Changed(|answer| {
                let response = &mut answer["response"];
                if response["objects"].is_array() {
                    response["objects"] = json!([{ "kind": "Crew" }]);
                }
                if response["patch"].is_object() {
                    response["patch"] = json!({ "metadata": { "name": "mine" } });
                }
            }),
            &["SyncPodGang answers for a gang without pods", "PreparePods says what pods need"],
        ),
        (
            Behaviour::Changed(|answer| {
                if answer["response"]["allowed"] == true {
                    answer["response"]["allowed"] = json!(false);
                }
            }),
            &["a new set is decided on", "a changed set is decided on"],
        ),
    ];
    for (behaviour, expected) in cases {
        program.behave(behaviour);
        let found = broken(&check(&pki, Credential::Token, &program.url).await);
        for name in expected {
            assert!(found.iter().any(|(found, _)| found == name), "{name}: {found:#?}");
        }
        if expected.len() == 1 {
            assert_eq!(found.len(), 1, "nothing else can be asked: {found:#?}");
        }
    }
}
