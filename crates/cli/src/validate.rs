//! `grove validate`: the rules of admission for manifests, without a cluster.
//!
//! A set goes the way it would go in the cluster: defaults of the schema, defaults of the webhook, check
//! against the schema, rules of the webhook. Unlike there, one wrong thing does not hide the next: all
//! findings of a set are reported, unless it cannot be decoded at all. Findings of a file are in the order
//! of its lines.

mod manifest;
mod schema;
#[cfg(test)]
mod tests;

use std::{
    fmt::{Display, Write as _},
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use grove_api::{OperatorConfiguration, PodCliqueSet, config, crd, field_error::FieldError};
use grove_core::admission;
use serde_json::Value;

use crate::exit::Exit;
use manifest::Lines;

const UNKNOWN_FIELD: &str = "unknown field, it will be dropped";

/// What a run has to say.
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

/// Collects what is found in one file after the other.
struct Checker {
    context: admission::Context,
    schema: Value,
    /// Those of the current file.
    findings: Vec<Finding>,
    output: String,
    notes: String,
    sets: usize,
    errors: usize,
    warnings: usize,
}

impl Checker {
    fn new(context: admission::Context) -> Self {
        Self {
            context,
            schema: set_schema(),
            findings: Vec::new(),
            output: String::new(),
            notes: String::new(),
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
                Err(fault) => self.find(Severity::Error, fault.line, &fault.message),
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
            let message = "not a Kubernetes object: apiVersion and kind are needed";
            self.find(Severity::Error, lines.of(""), message);
        } else if let Some(items) = object.get("items").and_then(Value::as_array) {
            for (index, item) in items.iter().enumerate() {
                self.check_value(file, item, &lines.below(&format!("items[{index}]")));
            }
        } else if kind == PodCliqueSet::KIND && api_version.starts_with("grove.io/") {
            self.sets += 1;
            self.check_set(object, lines);
        } else {
            let name = object.pointer("/metadata/name").and_then(Value::as_str);
            let name = name.unwrap_or("(no name)");
            let line = lines.of("");
            let _ = writeln!(self.notes, "{file}:{line}: skipped: {kind} {name}");
        }
    }

    fn check_set(&mut self, raw: &Value, lines: &Lines) {
        let mut set = Subject { name: title(raw), checker: self, lines };
        for path in schema::unknown_keys(&set.checker.schema, raw) {
            set.find(Severity::Warning, &path, UNKNOWN_FIELD);
        }
        let mut object = raw.clone();
        schema::apply_defaults(&set.checker.schema, &mut object);
        let decoded = admission::default_patch(&object).and_then(|patch| {
            json_patch::patch(&mut object, &patch).expect("the patch was made from this object");
            admission::decode(&object)
        });
        let decoded = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return set.find(Severity::Error, &error.path, error.message),
        };
        for path in unknown_metadata(raw, &decoded) {
            set.find(Severity::Warning, &path, UNKNOWN_FIELD);
        }
        let faults = schema::check(&set.checker.schema, &object);
        let verdict = admission::validate_create(&decoded, &set.checker.context);
        for fault in &faults {
            set.find_field_error(fault);
        }
        // What the schema refuses is not said again in other words.
        let known = |path: &str| faults.iter().any(|fault| fault.path == path);
        for error in verdict.errors.iter().filter(|error| !known(&error.path)) {
            set.find_field_error(error);
        }
        set.warn(raw, &verdict.warnings);
    }

    fn find(&mut self, severity: Severity, line: u64, message: &str) {
        self.findings.push(Finding { line, severity, message: message.replace('\n', " ") });
    }

    fn report(mut self) -> Report {
        let _ = writeln!(
            self.notes,
            "PodCliqueSets: {}, errors: {}, warnings: {}",
            self.sets, self.errors, self.warnings
        );
        let exit = if self.errors == 0 { Exit::Success } else { Exit::Refused };
        Report { findings: self.output, notes: self.notes, exit }
    }
}

/// The set that is being checked.
struct Subject<'a> {
    checker: &'a mut Checker,
    lines: &'a Lines,
    name: String,
}

impl Subject<'_> {
    fn find(&mut self, severity: Severity, path: &str, message: impl Display) {
        let separator = if path.is_empty() { "" } else { ": " };
        let message = format!("{}: {path}{separator}{message}", self.name);
        self.checker.find(severity, self.lines.of(path), &message);
    }

    /// Its text starts with the path.
    fn find_field_error(&mut self, error: &FieldError) {
        let message = format!("{}: {error}", self.name);
        // Rules about pod templates have a `spec` in their paths that manifests do not have.
        let line = self.lines.of(&error.path.replace(".podSpec.spec.", ".podSpec."));
        self.checker.find(Severity::Error, line, &message);
    }

    /// The warnings of admission. The one about restart policies is for those who wrote one.
    fn warn(&mut self, raw: &Value, warnings: &[String]) {
        for warning in warnings {
            if let Some((path, message)) = warning.split_once(": ") {
                self.find(Severity::Warning, path, message);
            }
        }
        let cliques = raw.pointer("/spec/template/cliques").and_then(Value::as_array);
        for (index, clique) in cliques.into_iter().flatten().enumerate() {
            let policy = clique.pointer("/spec/podSpec/restartPolicy");
            if policy.is_some_and(|policy| !policy.is_null()) {
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
    let namespace = part("/metadata/namespace").unwrap_or("default");
    format!("{} {namespace}/{name}", PodCliqueSet::KIND)
}

/// Keys of the metadata that do not survive decoding. The schema says nothing about them.
fn unknown_metadata(raw: &Value, decoded: &PodCliqueSet) -> Vec<String> {
    let kept = serde_json::to_value(&decoded.metadata).unwrap_or_default();
    let given = raw.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let lost = given.filter(|(key, value)| !value.is_null() && kept.get(key).is_none());
    lost.map(|(key, _)| format!("metadata.{key}")).collect()
}

fn set_schema() -> Value {
    let definitions = crd::all();
    let kind =
        |definition: &&crd::Crd| definition.object["spec"]["names"]["kind"] == PodCliqueSet::KIND;
    let definition = definitions.iter().find(kind);
    definition.map_or(Value::Null, |definition| {
        definition.object["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    })
}
