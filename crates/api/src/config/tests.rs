//! Decoding, defaults, older spellings and rules of the operator configuration, one row per rule.

use super::*;

mod scheduler;
mod topology;

const HEADER: &str = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";

fn parse(body: &str) -> Result<OperatorConfiguration, ConfigError> {
    OperatorConfiguration::from_yaml(&format!("{HEADER}{body}"))
}

/// The rendered field errors of a body that decodes but is not valid.
fn problems(body: &str) -> Vec<String> {
    match parse(body) {
        Err(ConfigError::Invalid(errors)) => errors.iter().map(ToString::to_string).collect(),
        other => panic!("expected field errors for\n{body}\ngot {other:?}"),
    }
}

#[test]
fn empty_configuration_has_the_documented_defaults() {
    let configuration = parse("").unwrap();

    assert_eq!(
        configuration,
        OperatorConfiguration {
            client_connection: ClientConnection {
                qps: 100.0,
                burst: 120,
                content_type: String::new(),
                accept_content_types: String::new(),
            },
            leader_election: LeaderElection {
                enabled: false,
                lease_duration: GoDuration::from_secs(15),
                renew_deadline: GoDuration::from_secs(10),
                retry_period: GoDuration::from_secs(2),
                resource_lock: "leases".to_owned(),
                resource_name: "grove-operator-leader-election".to_owned(),
                resource_namespace: String::new(),
            },
            server: Server {
                webhooks: WebhookServer {
                    endpoint: Endpoint { bind_address: String::new(), port: 2750 },
                    server_cert_dir: "/etc/grove-operator/webhook-certs".to_owned(),
                    secret_name: "grove-webhook-server-cert".to_owned(),
                    cert_provision_mode: CertProvisionMode::Auto,
                },
                health_probes: Endpoint { bind_address: String::new(), port: 2751 },
                metrics: Endpoint { bind_address: String::new(), port: 2752 },
            },
            debugging: Debugging {
                enable_profiling: false,
                pprof_bind_host: "127.0.0.1".to_owned(),
                pprof_bind_port: 2753,
            },
            controllers: Controllers {
                pod_clique_set: 10,
                pod_clique: 10,
                pod_clique_scaling_group: 5,
                pod_gang: 5,
            },
            log_level: LogLevel::Info,
            log_format: LogFormat::Json,
            authorizer: Authorizer {
                enabled: false,
                exempt_service_account_user_names: Vec::new(),
            },
            topology: Topology { enabled: false, levels: Vec::new() },
            network: Network { auto_mnnvl_enabled: false },
            scheduler: Scheduler {
                profiles: vec![SchedulerProfile::named(DEFAULT_SCHEDULER)],
                default_profile_name: DEFAULT_SCHEDULER.to_owned(),
            },
        }
    );
}

#[test]
fn every_documented_key_is_accepted_and_used() {
    let configuration = parse(
        r"
runtimeClientConnection: {qps: 7.5, burst: 9, contentType: a/b, acceptContentTypes: c/d}
leaderElection:
  {enabled: true, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 5s, resourceLock: leases,
   resourceName: lock, resourceNamespace: elsewhere}
server:
  webhooks: {bindAddress: 10.0.0.1, port: 1, serverCertDir: /c, secretName: s, certProvisionMode: manual}
  healthProbes: {bindAddress: 10.0.0.2, port: 2}
  metrics: {bindAddress: 10.0.0.3, port: 3}
debugging: {enableProfiling: true, pprofBindHost: 10.0.0.4, pprofBindPort: 4}
controllers:
  podCliqueSet: {concurrentSyncs: 1}
  podClique: {concurrentSyncs: 2}
  podCliqueScalingGroup: {concurrentSyncs: 3}
  podGang: {concurrentSyncs: 4}
logLevel: debug
logFormat: text
authorizer:
  enabled: true
  exemptServiceAccountUserNames: ['system:serviceaccount:a:b']
  reconcilerServiceAccountUserName: ignored
topologyAwareScheduling: {enabled: true, levels: [{domain: rack, key: topology/rack}]}
network: {autoMNNVLEnabled: true}
scheduler:
  profiles:
    - {name: default-scheduler, config: {gangScheduling: false}}
    - {name: kai-scheduler, config: {defaultQueue: q}}
    - {name: volcano}
    - {name: lpx-scheduler}
    - {name: grove-scheduler}
    - name: crew-scheduler
      config:
        endpoint:
          url: https://crew.example.com/review
          caFile: /ca.crt
          certFile: /tls.crt
          keyFile: /tls.key
          tokenFile: /token
          timeout: 2s
          failurePolicy: Ignore
          kinds: [{group: crew.example.com, version: v1, plural: crews, kind: Crew}]
  defaultProfileName: volcano
",
    )
    .unwrap();

    insta::assert_debug_snapshot!(configuration);
}

#[test]
fn json_is_accepted() {
    let text =
        format!(r#"{{"apiVersion": "{API_VERSION}", "kind": "{KIND}", "logLevel": "error"}}"#);

    assert_eq!(OperatorConfiguration::from_yaml(&text).unwrap().log_level, LogLevel::Error);
}

#[test]
fn key_without_value_counts_as_absent() {
    let body =
        "server:\ndebugging:\nscheduler:\n  profiles:\nlogLevel:\ncontrollers:\n  podClique:\n";

    assert_eq!(parse(body).unwrap(), parse("").unwrap());
}

#[test]
fn typo_is_an_error_with_line_path_and_key() {
    for (body, expected) in [
        ("logLevle: info\n", "configuration line 3, column 1: logLevle: unknown field `logLevle`"),
        (
            "server:\n  webhooks:\n    prot: 1\n",
            "configuration line 5, column 5: server.webhooks.prot: unknown field `prot`",
        ),
        (
            "scheduler:\n  profiles:\n  - name: default-scheduler\n    config:\n      gangSheduling: true\n",
            "configuration line 7, column 7: scheduler.profiles[0].config.gangSheduling: unknown field \
             `gangSheduling`",
        ),
        (
            "topology:\n  levels:\n  - {domain: rack, kye: a}\n",
            "configuration line 5, column 20: topology.levels[0].kye: unknown field `kye`",
        ),
    ] {
        let text = parse(body).unwrap_err().to_string();
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("expected one of"), "{text}");
    }
}

#[test]
fn value_of_the_wrong_type_is_an_error_with_line_and_path() {
    for (body, expected) in [
        (
            "authorizer:\n  enabled: perhaps\n",
            "line 4, column 12: authorizer.enabled: must be true or false",
        ),
        (
            "server:\n  metrics:\n    port: 70000\n",
            "line 5, column 11: server.metrics.port: must be a whole number from 0 to 65535",
        ),
        (
            "controllers: {podGang: {concurrentSyncs: many}}\n",
            "line 3, column 42: controllers.podGang.concurrentSyncs: must be a whole number",
        ),
        (
            "runtimeClientConnection: {qps: fast}\n",
            "line 3, column 32: runtimeClientConnection.qps: must be a number",
        ),
        (
            "leaderElection:\n  leaseDuration: abc\n",
            "line 4, column 18: leaderElection.leaseDuration: time: invalid duration \"abc\"",
        ),
        ("scheduler: []\n", "line 3, column 12: scheduler: expected mapping start"),
        ("logLevel: info\nlogLevel: debug\n", "line 4, column 1: `logLevel` occurs twice"),
    ] {
        let text = parse(body).unwrap_err().to_string();
        assert_eq!(text, format!("configuration {expected}"), "{body}");
    }
    let text = OperatorConfiguration::from_yaml("hello").unwrap_err().to_string();
    assert_eq!(text, "configuration line 1, column 1: expected mapping start");
}

#[test]
fn file_has_to_say_what_it_is() {
    let invalid = |text: &str| OperatorConfiguration::from_yaml(text).unwrap_err().to_string();

    assert_eq!(
        invalid("logLevel: info\n"),
        "configuration is invalid: apiVersion: Required value: must be \
         \"operator.config.grove.io/v1alpha1\"; kind: Required value: must be \
         \"OperatorConfiguration\""
    );
    assert_eq!(
        invalid("apiVersion: operator.config.grove.io/v1\nkind: OperatorConfiguration\n"),
        "configuration is invalid: apiVersion: Unsupported value: \"operator.config.grove.io/v1\": \
         supported values: \"operator.config.grove.io/v1alpha1\""
    );
}

#[test]
fn values_that_break_a_rule_are_reported_with_their_path() {
    for (body, expected) in [
        (
            "runtimeClientConnection: {burst: -1}",
            "clientConnection.burst: Invalid value: -1: must not be negative",
        ),
        (
            "logLevel: warn",
            "logLevel: Unsupported value: \"warn\": supported values: \"debug\", \"info\", \"error\"",
        ),
        (
            "logFormat: xml",
            "logFormat: Unsupported value: \"xml\": supported values: \"json\", \"text\"",
        ),
        (
            "controllers: {podCliqueSet: {concurrentSyncs: 0}}",
            "controllers.podCliqueSet.concurrentSyncs: Invalid value: 0: must be greater than 0",
        ),
        (
            "controllers: {podClique: {concurrentSyncs: -1}}",
            "controllers.podClique.concurrentSyncs: Invalid value: -1: must be greater than 0",
        ),
        (
            "controllers: {podCliqueScalingGroup: {concurrentSyncs: 0}}",
            "controllers.podCliqueScalingGroup.concurrentSyncs: Invalid value: 0: must be greater than 0",
        ),
        (
            "controllers: {podGang: {concurrentSyncs: 0}}",
            "controllers.podGang.concurrentSyncs: Invalid value: 0: must be greater than 0",
        ),
        (
            "leaderElection: {enabled: true, retryPeriod: -1s}",
            "leaderElection.retryPeriod: Invalid value: \"-1s\": must be greater than 0",
        ),
        (
            "leaderElection: {enabled: true, renewDeadline: -1s}",
            "leaderElection.renewDeadline: Invalid value: \"-1s\": must be greater than 0",
        ),
        (
            "leaderElection: {enabled: true, leaseDuration: 10s}",
            "leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than \
             leaderElection.renewDeadline",
        ),
    ] {
        assert_eq!(problems(body), [expected]);
    }
}

#[test]
fn leader_election_rules_hold_only_when_enabled() {
    let body = "leaderElection: {retryPeriod: -1s, leaseDuration: 1s}";

    assert!(!parse(body).unwrap().leader_election.enabled);
}

#[test]
fn names_that_leader_election_needs_cannot_be_empty() {
    let mut configuration = parse("leaderElection: {enabled: true}").unwrap();
    configuration.leader_election.resource_lock = String::new();
    configuration.leader_election.resource_name = String::new();
    configuration.leader_election.lease_duration = GoDuration::default();

    let errors: Vec<_> =
        validate::validate(&configuration).iter().map(ToString::to_string).collect();

    assert_eq!(
        errors,
        [
            "leaderElection.leaseDuration: Invalid value: \"0s\": must be greater than 0",
            "leaderElection.leaseDuration: Invalid value: \"0s\": must be greater than \
             leaderElection.renewDeadline",
            "leaderElection.resourceLock: Required value: needed when leader election is enabled",
            "leaderElection.resourceName: Required value: needed when leader election is enabled",
        ]
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let errors = problems("logLevel: warn\nlogFormat: xml\nscheduler: {profiles: [{name: foo}]}\n");

    assert_eq!(errors.len(), 3, "{errors:?}");
}

#[test]
fn unknown_certificate_mode_is_left_to_the_certificate_set_up() {
    let configuration = parse("server: {webhooks: {certProvisionMode: magic}}").unwrap();

    let mode = configuration.server.webhooks.cert_provision_mode;
    assert_eq!(mode, CertProvisionMode::Unknown("magic".to_owned()));
}
