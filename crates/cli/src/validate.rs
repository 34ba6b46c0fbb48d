//! `grove validate`: the rules of admission for manifests, without a cluster unless the user wants to use its
//! topologies.
//!
//! A set takes the way it would take in the cluster: strict decoding, defaults of the schema, defaults of the
//! webhook, check against the schema, rules of the webhook. Unlike there, one error does not hide the next:
//! all findings of a set are reported, unless it cannot be decoded at all. Topologies have rules too; other kinds of
//! Grove are checked against their schemas. Findings of a file are in the order of its lines.

mod kinds;
mod manifest;
mod spelling;
#[cfg(test)]
mod tests;
mod topologies;

use std::{
    fmt::{Display, Write as _},
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use clap::Args;
use grove_api::{
    ClusterTopology, ClusterTopologyBinding, OperatorConfiguration, PodCliqueSet, config,
    field_error::{FieldError, Kind},
    schema::Structural,
};
use grove_backends::Registry;
use grove_core::admission;
use grove_core::topology::{SetTopology, constraints};
use grove_runtime::process::Env;
use serde::Deserialize as _;
use serde_json::Value;

use crate::cluster::ConnectionArguments;
use crate::exit::Exit;
use kinds::{Kinds, Lookup};
use manifest::Lines;
use spelling::unknown_field;
use topologies::Topologies;

/// What to check, and against what.
#[derive(Debug, Args)]
pub(crate) struct ValidateArguments {
    /// Manifest to check, YAML or JSON; a directory for all its *.yaml, *.yml and *.json files, -
    /// for standard input. May be repeated
    #[arg(long, short, value_name = "PATH", required = true)]
    filename: Vec<PathBuf>,
    /// Operator configuration to check against, for scheduler profiles, MNNVL and topology. Without it:
    /// default-scheduler only, MNNVL off, the topologies that are known
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Manifest with the topologies of the cluster, of both kinds, which is checked as well. With
    /// ClusterTopology grove-topology, the operator manages a topology. May be repeated
    #[arg(long, value_name = "PATH")]
    topology: Vec<PathBuf>,
    /// Read the topologies from the cluster that --kubeconfig and --context name
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// One line per finding, for standard output.
    pub(crate) findings: String,
    /// What was skipped and a summary, for standard error.
    pub(crate) notes: String,
    /// How the process ends.
    pub(crate) exit: Exit,
}

/// Checks all manifests that the arguments name.
pub(crate) async fn run(arguments: &ValidateArguments) -> anyhow::Result<Report> {
    let rules = match load_rules(arguments.config.as_deref()) {
        Ok(rules) => rules,
        Err(error) => {
            let notes = format!("error: {error:#}\n");
            return Ok(Report { findings: String::new(), notes, exit: Exit::BadConfiguration });
        }
    };
    let ValidateArguments { filename, topology, .. } = arguments;
    let mut files = Vec::new();
    for path in filename.iter().chain(topology.iter().filter(|path| !filename.contains(path))) {
        files.extend(read(path)?);
    }
    let mut topologies = Topologies::default();
    for (_, text) in &files {
        topologies.add_manifests(text);
    }
    if arguments.live {
        topologies.add_live(&arguments.connection.connect().await?).await?;
    }
    topologies.is_complete = arguments.live || !topology.is_empty();
    let mut checker = Checker::new(rules, topologies);
    for (name, text) in &files {
        checker.check_file(name, text);
    }
    Ok(checker.report())
}

/// What the configuration decides.
struct Rules {
    context: admission::Context,
    backends: Registry,
    /// Whether the user named a configuration.
    is_configured: bool,
}

fn load_rules(path: Option<&Path>) -> anyhow::Result<Rules> {
    let defaults = || format!("apiVersion: {}\nkind: {}\n", config::API_VERSION, config::KIND);
    let text = path.map_or_else(|| Ok(defaults()), fs::read_to_string);
    let name = path.map_or_else(|| "default configuration".into(), Path::to_string_lossy);
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let configuration =
        OperatorConfiguration::from_yaml(&text).with_context(|| format!("cannot use {name}"))?;
    let backends = Registry::new(&configuration.scheduler, &Env::system());
    let backends = backends.with_context(|| format!("cannot use {name}"))?;
    Ok(Rules { context: (&configuration).into(), backends, is_configured: path.is_some() })
}

/// The files behind one argument, by name, with their text.
fn read(path: &Path) -> anyhow::Result<Vec<(String, String)>> {
    if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(vec![("-".to_owned(), text)]);
    }
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.with_context(|| format!("cannot list {}", path.display()))?;
        files = entries
            .into_iter()
            .map(|entry| entry.path())
            .filter(|path| is_manifest(path))
            .collect();
        files.sort();
        ensure!(!files.is_empty(), "{} has no *.yaml, *.yml or *.json files", path.display());
    }
    let text = |path: PathBuf| {
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Ok((path.display().to_string(), text))
    };
    files.into_iter().map(text).collect()
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    path.is_file() && matches!(extension, Some("yaml" | "yml" | "json"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Severity {
    Error,
    Warning,
}

impl Severity {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

struct Finding {
    line: u64,
    severity: Severity,
    message: String,
}

/// Collects the findings of one file after the other.
struct Checker {
    rules: Rules,
    topologies: Topologies,
    kinds: Kinds,
    /// Those of the current file.
    findings: Vec<Finding>,
    output: String,
    notes: String,
    /// Objects of any kind.
    objects: usize,
    sets: usize,
    errors: usize,
    warnings: usize,
}

impl Checker {
    fn new(mut rules: Rules, topologies: Topologies) -> Self {
        rules.context.topology = topologies.mode(&rules.context.topology, rules.is_configured);
        Self {
            rules,
            topologies,
            kinds: Kinds::new(),
            findings: Vec::new(),
            output: String::new(),
            notes: String::new(),
            objects: 0,
            sets: 0,
            errors: 0,
            warnings: 0,
        }
    }

    fn check_file(&mut self, file: &str, text: &str) {
        for document in manifest::split(text) {
            match document.parse() {
                Ok(Some((value, lines))) => self.check_value(file, &value, &lines),
                Ok(None) => {}
                Err(fault) => {
                    self.objects += 1;
                    self.find(Severity::Error, fault.line, &fault.message);
                }
            }
        }
        self.findings.sort_by_key(|finding| finding.line);
        for Finding { line, severity, message } in self.findings.drain(..) {
            match severity {
                Severity::Error => self.errors += 1,
                Severity::Warning => self.warnings += 1,
            }
            let _ = writeln!(self.output, "{file}:{line}: {}: {message}", severity.as_str());
        }
    }

    /// An object of any kind, or a list of such.
    fn check_value(&mut self, file: &str, object: &Value, lines: &Lines) {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version.is_empty() || kind.is_empty() {
            self.objects += 1;
            let message = "not a Kubernetes object: apiVersion and kind are needed";
            self.find(Severity::Error, lines.of(""), message);
            return;
        }
        if let Some(items) = object.get("items").and_then(Value::as_array) {
            for (index, item) in items.iter().enumerate() {
                self.check_value(file, item, &lines.below(&format!("items[{index}]")));
            }
            return;
        }
        self.objects += 1;
        match self.kinds.get(api_version, kind) {
            Lookup::Ours(kind, schema) => {
                let mut object = object.clone();
                object["kind"] = kind.into();
                let name = title(&object);
                Subject { name, file, checker: self, lines }.check(&object, &schema);
            }
            Lookup::Unknown(message) => {
                let message = format!("{}: {message}", title(object));
                self.find(Severity::Error, lines.of("kind"), &message);
            }
            Lookup::Foreign => {
                let name = object.pointer("/metadata/name").and_then(Value::as_str);
                let name = name.unwrap_or("(no name)");
                let line = lines.of("");
                let _ = writeln!(self.notes, "{file}:{line}: skipped: {kind} {name}");
            }
        }
    }

    fn find(&mut self, severity: Severity, line: u64, message: &str) {
        self.findings.push(Finding { line, severity, message: message.replace('\n', " ") });
    }

    fn report(mut self) -> Report {
        if self.objects == 0 {
            self.errors += 1;
            self.notes.push_str("error: no objects to check: the input is empty\n");
        }
        let _ = writeln!(
            self.notes,
            "PodCliqueSets: {}, errors: {}, warnings: {}",
            self.sets, self.errors, self.warnings
        );
        let exit = if self.errors == 0 { Exit::Success } else { Exit::Refused };
        Report { findings: self.output, notes: self.notes, exit }
    }
}

/// The object that is being checked.
struct Subject<'a> {
    checker: &'a mut Checker,
    lines: &'a Lines,
    file: &'a str,
    name: String,
}

impl Subject<'_> {
    fn check(mut self, raw: &Value, schema: &Structural) {
        for path in schema.unknown_fields(raw) {
            let message = unknown_field(&path, &schema.known_fields(&path));
            self.find(Severity::Error, &path, message);
        }
        let mut object = raw.clone();
        schema.complete(&mut object);
        if raw["kind"] == PodCliqueSet::KIND {
            self.checker.sets += 1;
            self.check_set(object, raw, schema);
            return;
        }
        let faults = schema.check(&object);
        self.find_field_errors(&faults);
        self.find_unless_known(self.topology_errors(&object), &faults);
    }

    /// What the webhook about topologies refuses.
    fn topology_errors(&self, object: &Value) -> Vec<FieldError> {
        let Rules { context, backends, .. } = &self.checker.rules;
        let is_topology_aware =
            |name: &str| backends.get(name).is_some_and(|backend| backend.topology().is_some());
        // What cannot be decoded breaks the schema.
        match object["kind"].as_str() {
            Some(ClusterTopology::KIND) => ClusterTopology::deserialize(object)
                .map(|topology| admission::validate_cluster_topology(&topology)),
            Some(ClusterTopologyBinding::KIND) => {
                ClusterTopologyBinding::deserialize(object).map(|binding| {
                    admission::validate_topology_binding(&binding, context, is_topology_aware)
                })
            }
            _ => Ok(Vec::new()),
        }
        .unwrap_or_default()
    }

    /// A set goes through the webhooks; the schema is checked between them.
    fn check_set(&mut self, mut object: Value, raw: &Value, schema: &Structural) {
        let decoded = admission::default_patch(&object).and_then(|patch| {
            json_patch::patch(&mut object, &patch).expect("the patch was made from this object");
            schema.complete(&mut object);
            admission::decode(&object)
        });
        let faults = schema.check(&object);
        let decoded = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                // Fields that are missing would have been filled in.
                let faults = faults.into_iter().filter(|fault| fault.kind != Kind::Required);
                let faults: Vec<_> = faults.collect();
                if faults.is_empty() {
                    self.find(Severity::Error, &error.path, &error.message);
                }
                return self.find_field_errors(&faults);
            }
        };
        let Rules { context, is_configured, .. } = &self.checker.rules;
        let topology = self.checker.topologies.of(&decoded, &context.topology, *is_configured);
        let validation = admission::validate_create(&decoded, context, &topology);
        if topology == SetTopology::Unknown && constraints(&decoded).next().is_some() {
            self.note_unknown_topology();
        }
        self.find_field_errors(&faults);
        self.find_unless_known(validation.errors, &faults);
        self.warn(raw, &validation.warnings);
    }

    fn note_unknown_topology(&mut self) {
        let (file, line) = (self.file, self.lines.of("spec.template"));
        let _ = writeln!(
            self.checker.notes,
            "{file}:{line}: not checked: the topology of {}; name its manifest with --topology, or use --live",
            self.name
        );
    }

    /// Reports errors, but for those that the schema has reported in other words.
    fn find_unless_known(&mut self, errors: Vec<FieldError>, faults: &[FieldError]) {
        let known = |path: &str| {
            faults
                .iter()
                .any(|fault| fault.path == path || path.starts_with(&format!("{}.", fault.path)))
        };
        let errors = errors.into_iter().filter(|error| !known(&error.path));
        self.find_field_errors(&errors.collect::<Vec<_>>());
    }

    fn find(&mut self, severity: Severity, path: &str, message: impl Display) {
        let separator = if path.is_empty() { "" } else { ": " };
        let message = format!("{}: {path}{separator}{message}", self.name);
        self.checker.find(severity, self.lines.of(path), &message);
    }

    /// Their texts start with the path.
    fn find_field_errors(&mut self, errors: &[FieldError]) {
        for error in errors {
            let message = format!("{}: {error}", self.name);
            // The paths of some rules are not those of manifests.
            let path = error.path.replace(".podSpec.spec.", ".podSpec.");
            let path = path.replace("schedulerTopologyReferences", "schedulerTopologyBindings");
            let line = self.lines.of(&path);
            self.checker.find(Severity::Error, line, &message);
        }
    }

    /// The warnings of admission. The one about restart policies gets the field it is about.
    fn warn(&mut self, raw: &Value, warnings: &[String]) {
        for warning in warnings.iter().filter(|one| *one != admission::RESTART_POLICY_IGNORED) {
            if let Some((path, message)) = warning.split_once(": ") {
                self.find(Severity::Warning, path, message);
            } else {
                // Those about topologies begin with the path too.
                let path = warning.split(' ').next().unwrap_or_default();
                let message = format!("{}: {warning}", self.name);
                self.checker.find(Severity::Warning, self.lines.of(path), &message);
            }
        }
        let cliques = raw.pointer("/spec/template/cliques").and_then(Value::as_array);
        for (index, clique) in cliques.into_iter().flatten().enumerate() {
            let policy = clique.pointer("/spec/podSpec/restartPolicy");
            if policy.is_some_and(|policy| !policy.is_null() && policy != "Always") {
                let path = format!("spec.template.cliques[{index}].spec.podSpec.restartPolicy");
                self.find(Severity::Warning, &path, admission::RESTART_POLICY_IGNORED);
            }
        }
    }
}

/// Kind, namespace and name for people.
fn title(object: &Value) -> String {
    let part = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let name =
        part("/metadata/name").or_else(|| part("/metadata/generateName")).unwrap_or("(no name)");
    let kind = part("/kind").unwrap_or("object");
    if [ClusterTopology::KIND, ClusterTopologyBinding::KIND].contains(&kind) {
        return format!("{kind} {name}");
    }
    let namespace = part("/metadata/namespace").unwrap_or("default");
    format!("{kind} {namespace}/{name}")
}
