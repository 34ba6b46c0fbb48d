//! Profiles, their default and their options.

use super::{super::validate, parse, problems};
use crate::config::Scheduler;

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
        // Nothing said.
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
