//! The scheduler block: which backends are active and which one is the default.
//!
//! The backend of the scheduler that Kubernetes ships is always active. The default is the profile
//! marked `default: true` or the one named by `defaultProfileName`; both at once have to agree.

use super::{
    BackendEndpoint, BackendKind, DEFAULT_SCHEDULER, FailurePolicy, KAI_SCHEDULER, KUBE_SCHEDULER,
    SCHEDULER_PROFILES, Scheduler, SchedulerProfile,
    file::{self, File},
    resolve::non_empty,
};
use crate::{duration::GoDuration, field_error::FieldError};

pub(super) fn resolve(file: &File, errors: &mut Vec<FieldError>) -> Scheduler {
    let Some(block) = &file.scheduler else {
        return match non_empty(file.scheduler_name.as_ref()) {
            Some(name) => with_default_backend(
                vec![SchedulerProfile::named(canonical(name))],
                Some(canonical(name)),
            ),
            None => with_default_backend(Vec::new(), None),
        };
    };
    if file.scheduler_name.is_some() {
        let detail = "superseded by scheduler, which is also set";
        errors.push(FieldError::forbidden("schedulerName", detail));
    }
    let given = block.profiles.as_deref().unwrap_or_default();
    let profiles: Vec<_> =
        given.iter().enumerate().map(|(index, p)| profile(index, p, errors)).collect();
    let default = default_name(block, given, errors);
    with_default_backend(profiles, default.as_deref())
}

/// Without profiles the Kubernetes scheduler is alone and the default, whatever name was given.
fn with_default_backend(mut profiles: Vec<SchedulerProfile>, default: Option<&str>) -> Scheduler {
    let default = if profiles.is_empty() { None } else { default };
    if !profiles.iter().any(|profile| profile.name == DEFAULT_SCHEDULER) {
        profiles.push(SchedulerProfile::named(DEFAULT_SCHEDULER));
    }
    Scheduler { profiles, default_profile_name: default.unwrap_or(DEFAULT_SCHEDULER).to_owned() }
}

fn canonical(name: &str) -> &str {
    if name == KUBE_SCHEDULER { DEFAULT_SCHEDULER } else { name }
}

/// The default as far as the user named one.
fn default_name(
    block: &file::Scheduler,
    profiles: &[file::SchedulerProfile],
    errors: &mut Vec<FieldError>,
) -> Option<String> {
    let named = non_empty(block.default_profile_name.as_ref()).map(canonical);
    let mut flagged =
        profiles.iter().enumerate().filter(|(_, profile)| profile.default == Some(true));
    let Some((_, first)) = flagged.next() else {
        return named.map(str::to_owned);
    };
    for (index, profile) in flagged {
        let path = format!("scheduler.profiles[{index}].default");
        let detail = format!(
            "only one profile can be the default: {:?} already is, so {:?} cannot be",
            first.name, profile.name
        );
        errors.push(FieldError::invalid(path, true, detail));
    }
    let flagged = canonical(&first.name);
    if let Some(named) = named
        && named != flagged
    {
        let detail = format!("contradicts profile {:?}, which has default: true", first.name);
        errors.push(FieldError::invalid("scheduler.defaultProfileName", named, detail));
    }
    Some(flagged.to_owned())
}

fn profile(
    index: usize,
    given: &file::SchedulerProfile,
    errors: &mut Vec<FieldError>,
) -> SchedulerProfile {
    let name = canonical(&given.name);
    let mut profile = SchedulerProfile::named(name);
    let Some(config) = &given.config else {
        return profile;
    };
    let path = format!("scheduler.profiles[{index}].config");
    let spellings = [
        ("gangScheduling", config.gang_scheduling),
        ("GangScheduling", config.gang_scheduling_capital),
    ];
    for (key, value) in spellings {
        let Some(value) = value else { continue };
        if name != DEFAULT_SCHEDULER {
            let detail = format!("only {DEFAULT_SCHEDULER:?} has this option");
            errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
        } else if profile.gang_scheduling.is_some_and(|other| other != value) {
            let detail = "contradicts the other spelling of the same option";
            errors.push(FieldError::invalid(format!("{path}.{key}"), value, detail));
        } else {
            profile.gang_scheduling = Some(value);
        }
    }
    if name == KAI_SCHEDULER {
        profile.default_queue.clone_from(&config.default_queue);
        profile.create_pod_groups = config.create_pod_groups;
    } else {
        let given = [
            ("defaultQueue", config.default_queue.is_some()),
            ("createPodGroups", config.create_pod_groups.is_some()),
        ];
        for (key, _) in given.into_iter().filter(|(_, given)| *given) {
            let detail = format!("only {KAI_SCHEDULER:?} has this option");
            errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
        }
    }
    if SCHEDULER_PROFILES.contains(&name) && config.endpoint.is_some() {
        let detail = format!("{name:?} is a part of Grove and has no endpoint; use another name");
        errors.push(FieldError::forbidden(format!("{path}.endpoint"), detail));
    } else {
        profile.endpoint = config.endpoint.as_ref().map(endpoint);
    }
    profile
}

fn endpoint(given: &file::BackendEndpoint) -> BackendEndpoint {
    let text = |text: &Option<String>| non_empty(text.as_ref()).map(str::to_owned);
    let kind = |kind: &file::BackendKind| BackendKind {
        group: kind.group.clone(),
        version: kind.version.clone(),
        plural: kind.plural.clone(),
        kind: kind.kind.clone(),
    };
    BackendEndpoint {
        url: text(&given.url).unwrap_or_default(),
        ca_file: text(&given.ca_file).unwrap_or_default(),
        cert_file: text(&given.cert_file),
        key_file: text(&given.key_file),
        token_file: text(&given.token_file),
        timeout: given.timeout.unwrap_or(GoDuration::from_secs(5)),
        failure_policy: FailurePolicy::from(
            text(&given.failure_policy).as_deref().unwrap_or("Fail"),
        ),
        kinds: given.kinds.iter().flatten().map(kind).collect(),
    }
}
