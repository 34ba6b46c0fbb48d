//! `grove backend check`: whether a scheduler backend that is a program of its own keeps the contract.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use grove_api::duration::GoDuration;
use grove_backends::conformance::{self, Broken, Check, Report};
use grove_runtime::endpoint::{EndpointConfig, IdentityFiles};
use grove_runtime::process::Env;
use serde_json::{Value, json};

use crate::args::Output;
use crate::exit::Exit;

/// What to check, and how to get there.
#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Where the backend answers: an https:// URL
    #[arg(value_name = "URL")]
    url: String,
    /// Authorities that may have signed its certificate (PEM); without it, those of this machine
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Certificate to show to it (PEM)
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// Key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// Bearer token to show to it
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long a call may take, at most 30s
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    timeout: String,
    /// Format of the output
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Runs the check and prints its results. Wrong usage has its own exit code, because 1 means that the
/// backend is at fault.
pub(crate) fn run(arguments: &CheckArguments) -> anyhow::Result<Exit> {
    let (config, timeout) = match usable(arguments) {
        Ok(usable) => usable,
        Err(error) => {
            crate::note(&format!("error: {error:#}\n"));
            return Ok(Exit::BadConfiguration);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    let report = runtime.block_on(conformance::check(&config, timeout, &Env::system()));
    match arguments.output {
        Output::Text => crate::print(&text(&report))?,
        Output::Json => crate::print_json(&format!("{:#}\n", json(&report)))?,
    }
    Ok(if report.passed() { Exit::Success } else { Exit::Refused })
}

fn usable(arguments: &CheckArguments) -> anyhow::Result<(EndpointConfig, Duration)> {
    let url = &arguments.url;
    let parsed: http::Uri = url.parse().with_context(|| format!("{url:?} is no URL"))?;
    ensure!(parsed.scheme_str() == Some("https"), "{url:?} does not begin with https://");
    let timeout: GoDuration = arguments.timeout.parse().context("--timeout")?;
    let timeout = timeout.to_std().unwrap_or_default();
    let text = &arguments.timeout;
    ensure!(
        !timeout.is_zero() && timeout <= Duration::from_secs(30),
        "--timeout: {text} is not greater than 0 and at most 30s"
    );
    let identity = arguments.cert_file.clone().zip(arguments.key_file.clone());
    let given =
        [&arguments.ca_file, &arguments.cert_file, &arguments.key_file, &arguments.token_file];
    for file in given.into_iter().flatten() {
        std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let config = EndpointConfig {
        url: parsed,
        ca_file: arguments.ca_file.clone(),
        identity: identity.map(|(certificate, key)| IdentityFiles { certificate, key }),
        token_file: arguments.token_file.clone(),
        in_flight: 64,
    };
    Ok((config, timeout))
}

fn text(report: &Report) -> String {
    let mut lines: Vec<String> = report.checks.iter().map(line).collect();
    let kinds = report.kinds.iter();
    lines.extend(kinds.map(|kind| format!("wants {kind}: list it in config.endpoint.kinds")));
    let failed = report.checks.iter().filter(|check| check.broken.is_some()).count();
    lines.push(format!("{} ok, {failed} FAILED", report.checks.len() - failed));
    lines.join("\n") + "\n"
}

fn line(check: &Check) -> String {
    match &check.broken {
        None => format!("ok      {}", check.name),
        Some(Broken { sent, came, wants }) => {
            format!("FAILED  {}: sent {sent}; came {came}; wanted {wants}", check.name)
        }
    }
}

fn json(report: &Report) -> Value {
    let check = |check: &Check| {
        let broken = check.broken.as_ref();
        let broken = broken.map(
            |Broken { sent, came, wants }| json!({ "sent": sent, "came": came, "wants": wants }),
        );
        json!({ "name": check.name, "ok": check.broken.is_none(), "broken": broken })
    };
    json!({
        "passed": report.passed(),
        "checks": report.checks.iter().map(check).collect::<Value>(),
        "kinds": report.kinds,
    })
}
