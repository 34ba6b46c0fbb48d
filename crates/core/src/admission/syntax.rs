//! Syntax of names in Kubernetes, checked as by the API server.
//!
//! Each function returns the faults in the words of the API server, none for valid text. The forms are simple
//! enough to be matched by hand; the regular expressions only appear in the messages.

const SUBDOMAIN_LIMIT: usize = 253;
const LABEL_LIMIT: usize = 63;

/// DNS-1123 subdomain: labels joined by dots.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > SUBDOMAIN_LIMIT {
        faults.push(format!("must be no more than {SUBDOMAIN_LIMIT} characters"));
    }
    if !is_subdomain(text) {
        faults.push(explained(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
             or '.', and must start and end with an alphanumeric character",
            &["example.com"],
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
        ));
    }
    faults
}

/// DNS-1123 label.
pub(super) fn dns_label(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_LIMIT {
        faults.push(format!("must be no more than {LABEL_LIMIT} characters"));
    }
    if !is_label(text) {
        faults.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            explained(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                 '-', and must start and end with an alphanumeric character",
                &["my-name", "123-abc"],
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
            )
        });
    }
    faults
}

/// Key of a label or annotation: a name, optionally with a DNS subdomain and a slash before it.
pub(super) fn qualified_name(text: &str) -> Vec<String> {
    let form = || {
        explained(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
             an alphanumeric character",
            &["MyName", "my.name", "123-abc"],
            "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
        )
    };
    let mut faults = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            let hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {hint}", form())];
        }
        Some(("", name)) => {
            faults.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            faults.extend(
                dns_subdomain(prefix).into_iter().map(|fault| format!("prefix part {fault}")),
            );
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LIMIT {
        faults.push(format!("name part must be no more than {LABEL_LIMIT} bytes"));
    }
    if !is_label_text(name) {
        faults.push(format!("name part {}", form()));
    }
    faults
}

/// Value of a label.
pub(super) fn label_value(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_LIMIT {
        faults.push(format!("must be no more than {LABEL_LIMIT} bytes"));
    }
    if !text.is_empty() && !is_label_text(text) {
        faults.push(explained(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
             or '.', and must start and end with an alphanumeric character",
            &["MyValue", "my_value", "12345"],
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
        ));
    }
    faults
}

/// Name of an environment variable.
pub(super) fn env_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !text.starts_with(|c: char| !c.is_ascii_digit()) || !text.chars().all(allowed) {
        faults.push(explained(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', \
             '-', or '.', and must not start with a digit",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
        ));
    }
    match text {
        "." | ".." => faults.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// Key of a config map or secret.
pub(super) fn config_key(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > SUBDOMAIN_LIMIT {
        faults.push(format!("must be no more than {SUBDOMAIN_LIMIT} characters"));
    }
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
        faults.push(explained(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            &["key.name", "KEY_NAME", "key-name"],
            "[-._a-zA-Z0-9]+",
        ));
    }
    match text {
        "." | ".." => faults.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// Name of a port (IANA service name).
pub(super) fn port_name(text: &str) -> Vec<String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    [
        (text.len() > 15, "must be no more than 15 characters"),
        (
            text.is_empty() || !text.chars().all(allowed),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !text.contains(|c: char| c.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (text.contains("--"), "must not contain consecutive hyphens"),
        (text.starts_with('-') || text.ends_with('-'), "must not begin or end with a hyphen"),
    ]
    .into_iter()
    .filter(|(broken, _)| *broken)
    .map(|(_, fault)| fault.to_owned())
    .collect()
}

fn explained(rule: &str, examples: &[&str], expression: &str) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{expression}')", examples.join(" or "))
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_label(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(|c| edge(c) || c == '-')
}

fn is_label_text(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| edge(c) || "-_.".contains(c);
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 12] =
        ["", "a", "1a", "a.b", "a-b", "-a", "a-", "A", "a_b", "a..b", "ä", "a b"];

    fn accepted(form: fn(&str) -> Vec<String>) -> Vec<&'static str> {
        TEXTS.into_iter().filter(|text| form(text).is_empty()).collect()
    }

    #[test]
    fn each_form_accepts_the_same_names_as_the_api_server() {
        assert_eq!(accepted(dns_subdomain), ["a", "1a", "a.b", "a-b"]);
        assert_eq!(accepted(dns_label), ["a", "1a", "a-b"]);
        assert_eq!(accepted(qualified_name), ["a", "1a", "a.b", "a-b", "A", "a_b", "a..b"]);
        assert_eq!(accepted(label_value), ["", "a", "1a", "a.b", "a-b", "A", "a_b", "a..b"]);
        assert_eq!(accepted(port_name), ["a", "1a", "a-b"]);
        assert_eq!(accepted(config_key), ["a", "1a", "a.b", "a-b", "-a", "a-", "A", "a_b", "a..b"]);
        assert_eq!(accepted(env_name), ["a", "a.b", "a-b", "-a", "a-", "A", "a_b", "a..b"]);
    }

    #[test]
    fn lengths_are_limited() {
        for (form, limit, fault) in [
            (dns_subdomain as fn(&str) -> Vec<String>, 253, "must be no more than 253 characters"),
            (dns_label, 63, "must be no more than 63 characters"),
            (label_value, 63, "must be no more than 63 bytes"),
            (port_name, 15, "must be no more than 15 characters"),
            (config_key, 253, "must be no more than 253 characters"),
            (qualified_name, 63, "name part must be no more than 63 bytes"),
        ] {
            assert!(form(&"a".repeat(limit)).is_empty());
            assert_eq!(form(&"a".repeat(limit + 1)), [fault]);
        }
    }

    #[test]
    fn keys_may_have_a_prefix() {
        assert!(qualified_name("example.com/Name").is_empty());
        for (key, fault) in [
            ("/name", "prefix part must be non-empty"),
            ("Example/name", "prefix part a lowercase RFC 1123 subdomain must consist of"),
            ("a/", "name part must be non-empty"),
            ("a/b/c", "a valid label key must consist of"),
        ] {
            assert!(qualified_name(key)[0].starts_with(fault), "{key}");
        }
    }

    #[test]
    fn dots_and_slashes_have_their_own_messages() {
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(env_name("."), ["must not be '.'"]);
        assert_eq!(env_name(".."), ["must not be '..'"]);
        assert_eq!(env_name("..a"), ["must not start with '..'"]);
        assert_eq!(
            env_name("1a"),
            [
                "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or \
              '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or \
              'MyEnvName1', regex used for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')"
            ]
        );
    }
}
