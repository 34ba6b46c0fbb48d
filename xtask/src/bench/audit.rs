//! Counts writes in the API server's audit log, by user, resource and verb.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize, Serializer};

/// The fields of a log line that are needed here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    user: LineUser,
    verb: String,
    object_ref: Option<LineObject>,
    response_status: Option<LineStatus>,
}

#[derive(Debug, Deserialize)]
struct LineUser {
    username: String,
}

#[derive(Debug, Deserialize)]
struct LineObject {
    resource: String,
    subresource: Option<String>,
}

#[derive(Debug, Deserialize)]
struct LineStatus {
    code: Option<u16>,
}

/// The kind of a write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    /// The last part of the user's name: `grove-operator`, `kube-scheduler`, `kwok`.
    pub(crate) user: String,
    /// Resource and, if there is one, subresource: `pods`, `pods/binding`.
    pub(crate) resource: String,
    /// Verb of the API.
    pub(crate) verb: String,
}

/// Number of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    /// Answered with success.
    pub(crate) accepted: u32,
    /// Answered with an error.
    pub(crate) refused: u32,
}

/// Counts of writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Writes(BTreeMap<Kind, Count>);

impl Writes {
    /// Counts the lines of a log.
    pub(crate) fn from_log(text: &str) -> Result<Self> {
        let mut writes = Self::default();
        for line in text.lines() {
            writes.add(line)?;
        }
        Ok(writes)
    }

    fn add(&mut self, line: &str) -> Result<()> {
        let line: Line = serde_json::from_str(line)
            .with_context(|| format!("cannot decode a line of the audit log: {line}"))?;
        // A request without an object is not a write of a resource.
        let Some(object) = line.object_ref else { return Ok(()) };
        let user = line.user.username.rsplit(':').next().unwrap_or_default().to_owned();
        let resource = match object.subresource {
            Some(subresource) => format!("{}/{subresource}", object.resource),
            None => object.resource,
        };
        let count = self.0.entry(Kind { user, resource, verb: line.verb }).or_default();
        let code = line.response_status.and_then(|status| status.code);
        if code.is_some_and(|code| code < 400) {
            count.accepted += 1;
        } else {
            count.refused += 1;
        }
        Ok(())
    }

    /// Adds the counts of `other`.
    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, count) in other.0 {
            let sum = self.0.entry(kind).or_default();
            sum.accepted += count.accepted;
            sum.refused += count.refused;
        }
    }

    /// Every kind with its count, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Kind, Count)> {
        self.0.iter().map(|(kind, count)| (kind, *count))
    }

    /// Accepted writes of the matching kinds.
    pub(crate) fn accepted(&self, fits: impl Fn(&Kind) -> bool) -> u32 {
        self.iter().filter(|(kind, _)| fits(kind)).map(|(_, count)| count.accepted).sum()
    }

    /// All writes of the matching kinds, including refused ones.
    pub(crate) fn sent(&self, fits: impl Fn(&Kind) -> bool) -> u32 {
        self.iter()
            .filter(|(kind, _)| fits(kind))
            .map(|(_, count)| count.accepted + count.refused)
            .sum()
    }
}

/// A list of kinds and counts.
impl Serialize for Writes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(kind, count)| {
            serde_json::json!({
                "user": kind.user,
                "resource": kind.resource,
                "verb": kind.verb,
                "accepted": count.accepted,
                "refused": count.refused,
            })
        }))
    }
}

/// The log of an API server, read while it grows.
#[derive(Debug)]
pub(crate) struct AuditLog {
    file: BufReader<File>,
    /// The beginning of an incomplete line.
    begun: String,
}

impl AuditLog {
    /// Opens the log at its beginning.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { file: BufReader::new(file), begun: String::new() })
    }

    /// Counts the lines since the last call.
    pub(crate) fn read(&mut self) -> Result<Writes> {
        let mut text = std::mem::take(&mut self.begun);
        self.file.read_to_string(&mut text).context("cannot read the audit log")?;
        let end = text.rfind('\n').map_or(0, |end| end + 1);
        self.begun = text.split_off(end);
        Writes::from_log(&text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    const OPERATOR: &str = "system:serviceaccount:grove-system:grove-operator";

    fn line(user: &str, verb: &str, resource: &str, code: u16) -> String {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let mut object = serde_json::json!({"resource": resource, "namespace": "x", "name": "y"});
        if !subresource.is_empty() {
            object["subresource"] = subresource.into();
        }
        serde_json::json!({
            "kind": "Event", "level": "Metadata", "stage": "ResponseComplete", "verb": verb,
            "user": {"username": user, "groups": ["g"]}, "objectRef": object,
            "responseStatus": {"metadata": {}, "code": code},
        })
        .to_string()
            + "\n"
    }

    #[test]
    fn writes_are_counted_by_user_resource_and_verb() {
        let log = [
            line(OPERATOR, "create", "pods", 201),
            line(OPERATOR, "create", "pods", 201),
            line(OPERATOR, "create", "pods", 409),
            line(OPERATOR, "patch", "podcliques/status", 200),
            line("system:kube-scheduler", "create", "pods/binding", 201),
        ]
        .concat();

        let writes = Writes::from_log(&log).unwrap();

        let counted: Vec<_> = writes
            .iter()
            .map(|(kind, count)| (kind.user.as_str(), kind.resource.as_str(), count))
            .collect();
        let count = |accepted, refused| Count { accepted, refused };
        assert_eq!(
            counted,
            [
                ("grove-operator", "podcliques/status", count(1, 0)),
                ("grove-operator", "pods", count(2, 1)),
                ("kube-scheduler", "pods/binding", count(1, 0)),
            ]
        );
        assert_eq!(writes.accepted(|kind| kind.user == "grove-operator"), 3);
        assert_eq!(writes.sent(|kind| kind.user == "grove-operator"), 4);
    }

    #[test]
    fn a_request_without_an_object_is_no_write() {
        let text = r#"{"verb":"create","user":{"username":"a"},"responseStatus":{"code":200}}"#;
        assert_eq!(Writes::from_log(text).unwrap(), Writes::default());
        assert!(Writes::from_log("nonsense").is_err());
    }

    #[test]
    fn counts_add_up() {
        let mut sum = Writes::from_log(&line("a", "create", "pods", 201)).unwrap();
        sum.merge(Writes::from_log(&line("a", "create", "pods", 201)).unwrap());
        sum.merge(Writes::from_log(&line("b", "create", "pods", 500)).unwrap());
        assert_eq!(sum.accepted(|_| true), 2);
        assert_eq!(sum.sent(|_| true), 3);
    }

    #[test]
    fn a_growing_log_is_read_line_by_line() {
        let path = std::env::temp_dir().join(format!("grove-audit-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        let mut log = AuditLog::open(&path).unwrap();
        let complete = line("a", "create", "pods", 201);
        let (first, second) = complete.split_at(20);

        file.write_all(format!("{complete}{first}").as_bytes()).unwrap();
        assert_eq!(log.read().unwrap().sent(|_| true), 1);
        assert_eq!(log.read().unwrap().sent(|_| true), 0);
        file.write_all(second.as_bytes()).unwrap();
        assert_eq!(log.read().unwrap().sent(|_| true), 1);
        fs::remove_file(path).unwrap();
    }
}
