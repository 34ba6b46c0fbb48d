//! From the file to the effective configuration: older spellings folded, defaults filled in.
//!
//! Only contradictions between spellings are reported here; rules about values are in `validate`.

use super::{
    API_VERSION, Authorizer, CertProvisionMode, ClientConnection, Controllers, Debugging, Endpoint,
    KIND, LeaderElection, LogFormat, LogLevel, Network, OperatorConfiguration, Server,
    WebhookServer,
    file::{self, File},
    scheduler, topology,
};
use crate::{duration::GoDuration, field_error::FieldError};

/// The effective configuration, and what cannot be resolved.
pub(super) fn resolve(file: &File) -> (OperatorConfiguration, Vec<FieldError>) {
    let mut errors = Vec::new();
    check_type("apiVersion", file.api_version.as_deref(), API_VERSION, &mut errors);
    check_type("kind", file.kind.as_deref(), KIND, &mut errors);
    let configuration = OperatorConfiguration {
        client_connection: client_connection(file.runtime_client_connection.as_ref()),
        leader_election: leader_election(file.leader_election.as_ref()),
        server: server(file.server.as_ref()),
        debugging: debugging(file.debugging.as_ref()),
        controllers: controllers(file.controllers.as_ref()),
        log_level: LogLevel::from(non_empty(file.log_level.as_ref()).unwrap_or("info")),
        log_format: LogFormat::from(non_empty(file.log_format.as_ref()).unwrap_or("json")),
        authorizer: authorizer(file.authorizer.as_ref()),
        topology: topology::resolve(file, &mut errors),
        network: Network {
            auto_mnnvl_enabled: file
                .network
                .as_ref()
                .and_then(|network| network.auto_mnnvl_enabled)
                .unwrap_or(false),
        },
        scheduler: scheduler::resolve(file, &mut errors),
    };
    (configuration, errors)
}

fn check_type(path: &str, found: Option<&str>, expected: &str, errors: &mut Vec<FieldError>) {
    match found {
        None | Some("") => errors.push(FieldError::required(path, format!("must be {expected:?}"))),
        Some(text) if text != expected => {
            errors.push(FieldError::not_supported(path, text, &[expected]));
        }
        Some(_) => {}
    }
}

/// An empty string counts as not given, as in Go.
pub(super) fn non_empty(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

fn text_or(text: Option<&String>, default: &str) -> String {
    non_empty(text).unwrap_or(default).to_owned()
}

fn port_or(port: Option<u16>, default: u16) -> u16 {
    port.filter(|port| *port != 0).unwrap_or(default)
}

fn client_connection(file: Option<&file::ClientConnection>) -> ClientConnection {
    let get =
        |field: fn(&file::ClientConnection) -> Option<&String>| text_or(file.and_then(field), "");
    ClientConnection {
        qps: file.and_then(|c| c.qps).filter(|qps| *qps != 0.0).unwrap_or(100.0),
        burst: file.and_then(|c| c.burst).filter(|burst| *burst != 0).unwrap_or(120),
        content_type: get(|c| c.content_type.as_ref()),
        accept_content_types: get(|c| c.accept_content_types.as_ref()),
    }
}

fn leader_election(file: Option<&file::LeaderElection>) -> LeaderElection {
    let duration = |given: Option<GoDuration>, seconds: i64| {
        given.filter(|d| d.as_nanos() != 0).unwrap_or_else(|| GoDuration::from_secs(seconds))
    };
    LeaderElection {
        enabled: file.and_then(|l| l.enabled).unwrap_or(false),
        lease_duration: duration(file.and_then(|l| l.lease_duration), 15),
        renew_deadline: duration(file.and_then(|l| l.renew_deadline), 10),
        retry_period: duration(file.and_then(|l| l.retry_period), 2),
        resource_lock: text_or(file.and_then(|l| l.resource_lock.as_ref()), "leases"),
        resource_name: text_or(
            file.and_then(|l| l.resource_name.as_ref()),
            "grove-operator-leader-election",
        ),
        resource_namespace: text_or(file.and_then(|l| l.resource_namespace.as_ref()), ""),
    }
}

fn server(file: Option<&file::Server>) -> Server {
    Server {
        webhooks: webhooks(file.and_then(|s| s.webhooks.as_ref())),
        health_probes: endpoint(file.and_then(|s| s.health_probes.as_ref()), 2751),
        metrics: endpoint(file.and_then(|s| s.metrics.as_ref()), 2752),
    }
}

fn endpoint(file: Option<&file::Endpoint>, port: u16) -> Endpoint {
    Endpoint {
        bind_address: text_or(file.and_then(|e| e.bind_address.as_ref()), ""),
        port: port_or(file.and_then(|e| e.port), port),
    }
}

fn webhooks(file: Option<&file::WebhookServer>) -> WebhookServer {
    let mode = file.and_then(|w| non_empty(w.cert_provision_mode.as_ref()));
    WebhookServer {
        endpoint: Endpoint {
            bind_address: text_or(file.and_then(|w| w.bind_address.as_ref()), ""),
            port: port_or(file.and_then(|w| w.port), 2750),
        },
        server_cert_dir: text_or(
            file.and_then(|w| w.server_cert_dir.as_ref()),
            "/etc/grove-operator/webhook-certs",
        ),
        secret_name: text_or(
            file.and_then(|w| w.secret_name.as_ref()),
            "grove-webhook-server-cert",
        ),
        cert_provision_mode: CertProvisionMode::from(mode.unwrap_or("auto")),
    }
}

fn debugging(file: Option<&file::Debugging>) -> Debugging {
    Debugging {
        enable_profiling: file.and_then(|d| d.enable_profiling).unwrap_or(false),
        pprof_bind_host: text_or(file.and_then(|d| d.pprof_bind_host.as_ref()), "127.0.0.1"),
        pprof_bind_port: port_or(file.and_then(|d| d.pprof_bind_port), 2753),
    }
}

fn controllers(file: Option<&file::Controllers>) -> Controllers {
    let syncs = |pick: fn(&file::Controllers) -> Option<&file::Controller>, default: i32| {
        file.and_then(pick).and_then(|controller| controller.concurrent_syncs).unwrap_or(default)
    };
    Controllers {
        pod_clique_set: syncs(|c| c.pod_clique_set.as_ref(), 10),
        pod_clique: syncs(|c| c.pod_clique.as_ref(), 10),
        pod_clique_scaling_group: syncs(|c| c.pod_clique_scaling_group.as_ref(), 5),
        pod_gang: syncs(|c| c.pod_gang.as_ref(), 5),
    }
}

fn authorizer(file: Option<&file::Authorizer>) -> Authorizer {
    Authorizer {
        enabled: file.and_then(|a| a.enabled).unwrap_or(false),
        exempt_service_account_user_names: file
            .and_then(|a| a.exempt_service_account_user_names.clone())
            .unwrap_or_default(),
    }
}
