//! Rules about the values of an effective configuration. All problems are reported, not only the first.

use std::collections::BTreeSet;

use super::{
    Controllers, DEFAULT_SCHEDULER, LeaderElection, LogFormat, LogLevel, OperatorConfiguration,
    SCHEDULER_PROFILES, Scheduler, endpoint,
};
use crate::{duration::GoDuration, field_error::FieldError};

pub(super) fn validate(configuration: &OperatorConfiguration) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let burst = configuration.client_connection.burst;
    if burst < 0 {
        errors.push(FieldError::invalid("clientConnection.burst", burst, "must not be negative"));
    }
    if let LogLevel::Unknown(level) = &configuration.log_level {
        errors.push(FieldError::not_supported("logLevel", level.clone(), LogLevel::KNOWN));
    }
    if let LogFormat::Unknown(format) = &configuration.log_format {
        errors.push(FieldError::not_supported("logFormat", format.clone(), LogFormat::KNOWN));
    }
    if configuration.leader_election.enabled {
        leader_election(&configuration.leader_election, &mut errors);
    }
    controllers(&configuration.controllers, &mut errors);
    scheduler(&configuration.scheduler, &mut errors);
    errors
}

fn leader_election(election: &LeaderElection, errors: &mut Vec<FieldError>) {
    for (field, duration) in [
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ] {
        if duration <= GoDuration::default() {
            let path = format!("leaderElection.{field}");
            errors.push(FieldError::invalid(path, duration.to_string(), "must be greater than 0"));
        }
    }
    if election.lease_duration <= election.renew_deadline {
        errors.push(FieldError::invalid(
            "leaderElection.leaseDuration",
            election.lease_duration.to_string(),
            "must be greater than leaderElection.renewDeadline",
        ));
    }
    for (field, text) in
        [("resourceLock", &election.resource_lock), ("resourceName", &election.resource_name)]
    {
        if text.is_empty() {
            let path = format!("leaderElection.{field}");
            errors.push(FieldError::required(path, "needed when leader election is enabled"));
        }
    }
}

fn controllers(controllers: &Controllers, errors: &mut Vec<FieldError>) {
    for (name, syncs) in [
        ("podCliqueSet", controllers.pod_clique_set),
        ("podClique", controllers.pod_clique),
        ("podCliqueScalingGroup", controllers.pod_clique_scaling_group),
        ("podGang", controllers.pod_gang),
    ] {
        if syncs <= 0 {
            let path = format!("controllers.{name}.concurrentSyncs");
            errors.push(FieldError::invalid(path, syncs, "must be greater than 0"));
        }
    }
}

fn scheduler(scheduler: &Scheduler, errors: &mut Vec<FieldError>) {
    let profiles = &scheduler.profiles;
    if profiles.is_empty() {
        let detail = "at least one scheduler profile is required";
        errors.push(FieldError::required("scheduler.profiles", detail));
    }
    let mut seen = BTreeSet::new();
    for (index, profile) in profiles.iter().enumerate() {
        let path = format!("scheduler.profiles[{index}].name");
        let name = profile.name.as_str();
        if name.is_empty() {
            errors.push(FieldError::required(path, "scheduler profile name is required"));
        } else if profile.endpoint.is_none() && !SCHEDULER_PROFILES.contains(&name) {
            errors.push(FieldError::not_supported(path, name, &SCHEDULER_PROFILES));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(path, name));
        } else if let Some(given) = &profile.endpoint {
            errors.extend(endpoint::name(&path, name));
            let path = format!("scheduler.profiles[{index}].config.endpoint");
            endpoint::endpoint(&path, given, errors);
        }
    }
    if !profiles.is_empty() && !profiles.iter().any(|profile| profile.name == DEFAULT_SCHEDULER) {
        let detail = format!("the {DEFAULT_SCHEDULER:?} scheduler profile is required");
        errors.push(FieldError::required("scheduler.profiles", detail));
    }
    let default = scheduler.default_profile_name.as_str();
    if default.is_empty() {
        let detail = "default scheduler profile name is required";
        errors.push(FieldError::required("scheduler.defaultProfileName", detail));
    } else if !profiles.iter().any(|profile| profile.name == default) {
        let detail = "default profile must be one of the configured profiles";
        errors.push(FieldError::invalid("scheduler.defaultProfileName", default, detail));
    }
}
