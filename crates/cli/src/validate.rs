//! `grove validate`: the rules of admission for manifests, without a cluster.
//!
//! A set takes the way it would take in the cluster: strict decoding, defaults of the schema, defaults of the
//! webhook, check against the schema, rules of the webhook. Unlike there, one error does not hide the next:
//! all findings of a set are reported, unless it cannot be decoded at all. Other kinds of Grove are checked
//! against their schemas. Findings of a file are in the order of its lines.

mod kinds;
mod manifest;
mod spelling;
#[cfg(test)]
mod tests;

use std::{
    fmt::{Display, Write as _},
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use grove_api::{
    ClusterTopology, ClusterTopologyBinding, OperatorConfiguration, PodCliqueSet, config,
    field_error::{FieldError, Kind},
    schema::Structural,
};
use grove_core::admission;
use serde_json::Value;

use crate::exit::Exit;
use kinds::{Kinds, Lookup};
use manifest::Lines;
use spelling::unknown_field;

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

/// Checks all manifests that `paths` name.
pub(crate) fn run(paths: &[PathBuf], config: Option<&Path>) -> anyhow::Result<Report> {
    let context = match load_context(config) {
        Ok(context) => context,
        Err(error) => {
            let notes = format!("error: {error:#}\n");
            return Ok(Report { findings: String::new(), notes, exit: Exit::BadConfiguration });
        }
    };
    let mut checker = Checker::new(context);
    for path in paths {
        for (name, text) in read(path)? {
            checker.check_file(&name, &text);
        }
    }
    Ok(checker.report())
}

fn load_context(path: Option<&Path>) -> anyhow::Result<admission::Context> {
    let defaults = || format!("apiVersion: {}\nkind: {}\n", config::API_VERSION, config::KIND);
    let text = path.map_or_else(|| Ok(defaults()), fs::read_to_string);
    let name = path.map_or_else(|| "default configuration".into(), Path::to_string_lossy);
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let configuration =
        OperatorConfiguration::from_yaml(&text).with_context(|| format!("cannot use {name}"))?;
    Ok((&configuration).into())
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
    context: admission::Context,
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
    fn new(context: admission::Context) -> Self {
        Self {
            context,
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
                Subject { name: title(&object), checker: self, lines }.check(&object, &schema);
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
        } else {
            self.find_field_errors(&schema.check(&object));
        }
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
        let validation = admission::validate_create(&decoded, &self.checker.context);
        self.find_field_errors(&faults);
        // A finding of the schema is not repeated in other words.
        let known = |path: &str| {
            faults
                .iter()
                .any(|fault| fault.path == path || path.starts_with(&format!("{}.", fault.path)))
        };
        let errors = validation.errors.into_iter().filter(|error| !known(&error.path));
        self.find_field_errors(&errors.collect::<Vec<_>>());
        self.warn(raw, &validation.warnings);
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
            // Some rules about pod templates have a `spec` in their paths that manifests do not have.
            let line = self.lines.of(&error.path.replace(".podSpec.spec.", ".podSpec."));
            self.checker.find(Severity::Error, line, &message);
        }
    }

    /// The warnings of admission. The one about restart policies gets the field it is about.
    fn warn(&mut self, raw: &Value, warnings: &[String]) {
        for warning in warnings {
            if let Some((path, message)) = warning.split_once(": ") {
                self.find(Severity::Warning, path, message);
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
