//! Profiles, their default and their options.

use super::{super::validate, parse, problems};
use crate::{
    config::{FailurePolicy, Scheduler},
    duration::GoDuration,
};

/// Active profiles, with `(gang)` or `(no gang)` where the option is set, and the default.
fn effective(body: &str) -> (Vec<String>, String) {
    let scheduler = parse(body).unwrap_or_else(|e| panic!("{body}: {e}")).scheduler;
    let profiles = scheduler.profiles.iter().map(|profile| match profile.gang_scheduling {
        Some(true) => format!("{}(gang)", profile.name),
        Some(false) => format!("{}(no gang)", profile.name),
        None => profile.name.clone(),
    });
    (profiles.collect(), scheduler.default_profile_name)
}

#[test]
fn styles_of_the_scheduler_block() {
    let kube = "default-scheduler";
    let gang = "default-scheduler(gang)";
    let kai = "kai-scheduler";
    for (body, active, default) in [
        // Not configured.
        ("", vec![kube], kube),
        // One profile.
        ("scheduler: {profiles: [{name: kube-scheduler, default: true}]}", vec![kube], kube),
        // One profile with an option, in both spellings.
        (
            "scheduler: {profiles: [{name: kube-scheduler, config: {GangScheduling: true}, default: true}]}",
            vec![gang],
            kube,
        ),
        (
            "scheduler: {profiles: [{name: default-scheduler, config: {gangScheduling: true}}]}",
            vec![gang],
            kube,
        ),
        // Two profiles, either of them the default.
        (
            "scheduler: {profiles: [{name: kube-scheduler, config: {gangScheduling: true}, default: true}, \
             {name: kai-scheduler}]}",
            vec![gang, kai],
            kube,
        ),
        (
            "scheduler: {profiles: [{name: kube-scheduler, config: {gangScheduling: true}}, \
             {name: kai-scheduler, default: true}]}",
            vec![gang, kai],
            kai,
        ),
        // Only the other one.
        ("scheduler: {profiles: [{name: kai-scheduler, default: true}]}", vec![kai, kube], kai),
        ("scheduler: {profiles: [{name: kai-scheduler}]}", vec![kai, kube], kube),
        ("scheduler: {profiles: [{name: kai-scheduler, default: false}]}", vec![kai, kube], kube),
        // No profiles: a default name has nothing to refer to and is overridden.
        ("scheduler: {profiles: [], defaultProfileName: kai-scheduler}", vec![kube], kube),
        ("scheduler: {defaultProfileName: kai-scheduler}", vec![kube], kube),
        // Default by name, also in the older spelling.
        (
            "scheduler: {profiles: [{name: kai-scheduler}], defaultProfileName: kai-scheduler}",
            vec![kai, kube],
            kai,
        ),
        (
            "scheduler: {profiles: [{name: kai-scheduler}], defaultProfileName: kube-scheduler}",
            vec![kai, kube],
            kube,
        ),
        // Both ways, in agreement.
        (
            "scheduler: {profiles: [{name: kai-scheduler, default: true}], defaultProfileName: kai-scheduler}",
            vec![kai, kube],
            kai,
        ),
        (
            "scheduler: {profiles: [{name: kube-scheduler, default: true}], \
             defaultProfileName: default-scheduler}",
            vec![kube],
            kube,
        ),
        // The oldest form.
        ("schedulerName: kai-scheduler", vec![kai, kube], kai),
        ("schedulerName: kube-scheduler", vec![kube], kube),
    ] {
        let expected = (active.into_iter().map(str::to_owned).collect(), default.to_owned());
        assert_eq!(effective(body), expected, "{body}");
    }
}

#[test]
fn gang_option_has_three_states() {
    let profile = |config: &str| {
        let body =
            format!("scheduler: {{profiles: [{{name: default-scheduler, config: {config}}}]}}");
        effective(&body).0.remove(0)
    };
    assert_eq!(profile("{}"), "default-scheduler");
    assert_eq!(profile("{gangScheduling: true}"), "default-scheduler(gang)");
    assert_eq!(profile("{GangScheduling: false}"), "default-scheduler(no gang)");
    assert_eq!(profile("{gangScheduling: true, GangScheduling: true}"), "default-scheduler(gang)");
}

#[test]
fn blocks_that_cannot_be_used_are_refused() {
    let supported = r#"supported values: "default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler", "grove-scheduler""#;
    for (body, expected) in [
        (
            "scheduler: {profiles: [{name: kube-scheduler, default: true}, {name: kai-scheduler, default: true}]}",
            "scheduler.profiles[1].default: Invalid value: true: only one profile can be the default: \
             \"kube-scheduler\" already is, so \"kai-scheduler\" cannot be"
                .to_owned(),
        ),
        (
            "scheduler: {profiles: [{name: kai-scheduler}], defaultProfileName: volcano}",
            "scheduler.defaultProfileName: Invalid value: \"volcano\": default profile must be one of \
             the configured profiles"
                .to_owned(),
        ),
        (
            "scheduler: {profiles: [{name: kai-scheduler, default: true}, {name: volcano}], \
             defaultProfileName: volcano}",
            "scheduler.defaultProfileName: Invalid value: \"volcano\": contradicts profile \
             \"kai-scheduler\", which has default: true"
                .to_owned(),
        ),
        (
            "scheduler: {profiles: [{name: foo}]}",
            format!("scheduler.profiles[0].name: Unsupported value: \"foo\": {supported}"),
        ),
        (
            "scheduler: {profiles: [{name: ''}]}",
            "scheduler.profiles[0].name: Required value: scheduler profile name is required".to_owned(),
        ),
        (
            "scheduler: {profiles: [{config: {}}]}",
            "scheduler.profiles[0].name: Required value: scheduler profile name is required".to_owned(),
        ),
        (
            "scheduler: {profiles: [{name: volcano}, {name: volcano}]}",
            "scheduler.profiles[1].name: Duplicate value: \"volcano\"".to_owned(),
        ),
        (
            "scheduler: {profiles: [{name: kube-scheduler}, {name: default-scheduler}]}",
            "scheduler.profiles[1].name: Duplicate value: \"default-scheduler\"".to_owned(),
        ),
        (
            "scheduler: {profiles: [{name: default-scheduler, config: {gangScheduling: true, GangScheduling: false}}]}",
            "scheduler.profiles[0].config.GangScheduling: Invalid value: false: contradicts the other \
             spelling of the same option"
                .to_owned(),
        ),
        (
            "scheduler: {profiles: [{name: volcano, config: {gangScheduling: true}}]}",
            "scheduler.profiles[0].config.gangScheduling: Forbidden: only \"default-scheduler\" has this \
             option"
                .to_owned(),
        ),
        (
            "scheduler: {profiles: [{name: volcano, config: {defaultQueue: q}}]}",
            "scheduler.profiles[0].config.defaultQueue: Forbidden: only \"kai-scheduler\" has this option"
                .to_owned(),
        ),
        (
            "schedulerName: foo",
            format!("scheduler.profiles[0].name: Unsupported value: \"foo\": {supported}"),
        ),
        (
            "schedulerName: volcano\nscheduler: {profiles: [{name: volcano}]}",
            "schedulerName: Forbidden: superseded by scheduler, which is also set".to_owned(),
        ),
    ] {
        assert_eq!(problems(body), [expected], "{body}");
    }
}

#[test]
fn effective_block_needs_profiles_the_kubernetes_scheduler_and_a_default() {
    let mut configuration = parse("").unwrap();
    let mut problems = |scheduler: Scheduler| {
        configuration.scheduler = scheduler;
        let errors = validate::validate(&configuration);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };

    assert_eq!(
        problems(Scheduler { profiles: Vec::new(), default_profile_name: String::new() }),
        [
            "scheduler.profiles: Required value: at least one scheduler profile is required",
            "scheduler.defaultProfileName: Required value: default scheduler profile name is required",
        ]
    );
    assert_eq!(
        problems(Scheduler {
            profiles: vec![crate::config::SchedulerProfile::named("volcano")],
            default_profile_name: "volcano".to_owned(),
        }),
        [
            "scheduler.profiles: Required value: the \"default-scheduler\" scheduler profile is required"
        ]
    );
}

/// A profile of another program, with these lines of its endpoint changed.
fn out_of_process(name: &str, endpoint: &str) -> String {
    format!("scheduler: {{profiles: [{{name: {name}, config: {{endpoint: {{{endpoint}}}}}}}]}}")
}

const GOOD: &str = "url: 'https://crew.example.com:8443/review', caFile: /ca, tokenFile: /token";

#[test]
fn another_program_is_a_profile_of_any_name_with_an_endpoint() {
    let parse = |endpoint: &str| {
        let body = out_of_process("crew-scheduler", endpoint);
        let scheduler = parse(&body).unwrap_or_else(|error| panic!("{body}: {error}")).scheduler;
        let profile = scheduler.profiles.into_iter().find(|one| one.name == "crew-scheduler");
        profile.and_then(|profile| profile.endpoint).unwrap()
    };

    let plain = parse(GOOD);
    assert_eq!(plain.url, "https://crew.example.com:8443/review");
    assert_eq!((plain.ca_file.as_str(), plain.token_file.as_deref()), ("/ca", Some("/token")));
    assert_eq!(plain.timeout, GoDuration::from_secs(5));
    assert_eq!(plain.failure_policy, FailurePolicy::Fail);
    assert_eq!(plain.kinds, []);

    let full = parse(
        "url: 'https://10.0.0.1', caFile: /ca, certFile: /crt, keyFile: /key, timeout: 1500ms, \
         failurePolicy: Ignore, \
         kinds: [{group: crew.example.com, version: v1, plural: crews, kind: Crew}]",
    );
    assert_eq!((full.cert_file.as_deref(), full.key_file.as_deref()), (Some("/crt"), Some("/key")));
    assert_eq!(full.timeout.to_string(), "1.5s");
    assert_eq!(full.failure_policy, FailurePolicy::Ignore);
    assert_eq!(full.kinds[0].plural, "crews");
}

#[test]
fn endpoints_that_cannot_be_used_are_refused_by_field() {
    let at = "scheduler.profiles[0].config.endpoint";
    let crew = "group: crew.example.com, version: v1, plural: crews, kind: Crew";
    let cases = [
        ("", format!("{at}.url: Required value: where the scheduler backend answers")),
        (
            "url: 'http://crew'",
            format!(
                "{at}.url: Invalid value: \"http://crew\": must begin with https://: both sides have \
                 to know whom they talk to"
            ),
        ),
        (
            "url: 'https://me:secret@crew'",
            format!(
                "{at}.url: Invalid value: \"https://me:secret@crew\": must not have a user in it; use \
                 tokenFile or certFile"
            ),
        ),
        (
            "url: 'https://'",
            format!("{at}.url: Invalid value: \"https://\": is no URL: empty string"),
        ),
        (
            "caFile: ''",
            format!(
                "{at}.caFile: Required value: a PEM file with the authority that signed the certificate \
                 of the endpoint"
            ),
        ),
        ("certFile: /crt", format!("{at}.keyFile: Required value: the key of certFile")),
        ("keyFile: /key", format!("{at}.certFile: Required value: the certificate of keyFile")),
        (
            "tokenFile: ''",
            format!(
                "{at}: Required value: certFile with keyFile, or tokenFile: the endpoint has to know \
                 who asks"
            ),
        ),
        (
            "timeout: 0s",
            format!("{at}.timeout: Invalid value: \"0s\": must be greater than 0 and at most 30s"),
        ),
        (
            "timeout: 31s",
            format!("{at}.timeout: Invalid value: \"31s\": must be greater than 0 and at most 30s"),
        ),
        (
            "failurePolicy: Maybe",
            format!(
                "{at}.failurePolicy: Unsupported value: \"Maybe\": supported values: \"Fail\", \
                 \"Ignore\""
            ),
        ),
        (
            "kinds: [{group: crew.example.com, version: v1, plural: crews}]",
            format!("{at}.kinds[0].kind: Required value: as in the CRD"),
        ),
        (
            "kinds: [{version: v1, plural: pods, kind: Pod}]",
            format!(
                "{at}.kinds[0].group: Invalid value: \"\": must be a group of the scheduler's own, as \
                 in its CRD"
            ),
        ),
    ];
    for (change, expected) in cases {
        let key = change.split(':').next().unwrap();
        let kept: Vec<&str> =
            GOOD.split(", ").filter(|line| !line.starts_with(&format!("{key}:"))).collect();
        let kept = if change.is_empty() { vec!["caFile: /ca", "tokenFile: /token"] } else { kept };
        let endpoint = [kept.join(", "), change.to_owned()].join(", ");
        let body = out_of_process("crew-scheduler", endpoint.trim_end_matches(", "));
        assert_eq!(problems(&body), [expected], "{body}");
    }
    let twice = format!("{GOOD}, kinds: [{{{crew}}}, {{{crew}}}]");
    let expected = format!("{at}.kinds[1]: Duplicate value: \"crew.example.com/v1 Crew\"");
    assert_eq!(problems(&out_of_process("crew-scheduler", &twice)), [expected]);

    let unknown = parse(&out_of_process("crew-scheduler", "ulr: x")).unwrap_err().to_string();
    assert!(unknown.contains("config.endpoint.ulr: unknown field"), "{unknown}");
    let ours = problems(&out_of_process("volcano", GOOD));
    assert_eq!(
        ours,
        [format!(
            "{at}: Forbidden: \"volcano\" is a part of Grove and has no endpoint; use another name"
        )]
    );
    let named = problems(&out_of_process("Crew", GOOD));
    assert!(
        named[0].starts_with("scheduler.profiles[0].name: Invalid value: \"Crew\""),
        "{named:?}"
    );
}
