//! Manifests: several YAML documents in one text, and on which line each key is.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::{Options, Spanned};

/// One YAML document of a text.
pub(super) struct Document<'a> {
    text: &'a str,
    /// Lines of the file before it.
    offset: u64,
}

/// Text that is no YAML.
pub(super) struct Fault {
    pub(super) line: u64,
    pub(super) message: String,
}

/// Splits a text at the lines that start a document.
pub(super) fn split(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut start, mut offset, mut end, mut line) = (0, 0, 0, 0);
    for content in text.split_inclusive('\n') {
        let marker = content.trim_end();
        if (marker == "---" || marker.starts_with("--- ")) && end > start {
            documents.push(Document { text: &text[start..end], offset });
            (start, offset) = (end, line);
        }
        end += content.len();
        line += 1;
    }
    documents.push(Document { text: &text[start..end], offset });
    documents
}

impl Document<'_> {
    /// The value and where its keys are; nothing for a document without content.
    pub(super) fn parse(&self) -> Result<Option<(Value, Lines)>, Fault> {
        let options = || -> Options {
            // Numbers that begin with 0 are octal for the API server, as in `defaultMode: 0644`.
            serde_saphyr::options! { with_snippet: false, legacy_octal_numbers: true }
        };
        let fault = |error: serde_saphyr::Error| {
            let line = error.location().map_or(1, |location| location.line());
            let message = match &error {
                serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
                    format!("`{key}` occurs twice")
                }
                other => {
                    // The library repeats the position in its text.
                    let text = other.to_string();
                    text.split(" at line ").next().unwrap_or(&text).to_owned()
                }
            };
            Fault { line: line + self.offset, message }
        };
        let mut value: Value =
            serde_saphyr::from_str_with_options(self.text, options()).map_err(fault)?;
        whole_numbers_as_integers(&mut value);
        let root: Node =
            serde_saphyr::from_str_with_options(self.text, options()).map_err(fault)?;
        Ok((!value.is_null()).then_some((value, Lines { root, offset: self.offset })))
    }
}

/// `1.0` is the integer 1 for the API server.
fn whole_numbers_as_integers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // Larger numbers have no exact form.
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15);
            let integer = whole.and_then(|whole| format!("{whole:.0}").parse::<i64>().ok());
            if let Some(integer) = integer.filter(|_| number.is_f64()) {
                *value = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers_as_integers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers_as_integers),
        _ => {}
    }
}

/// Lines of the keys of one object.
pub(super) struct Lines {
    root: Node,
    offset: u64,
}

impl Lines {
    /// Line of the deepest part of a path, such as `spec.cliques[0].name`, that the document has.
    pub(super) fn of(&self, path: &str) -> u64 {
        self.root.follow(path).0 + self.offset
    }

    /// The same for an object inside of this one.
    pub(super) fn below(&self, path: &str) -> Self {
        Self { root: self.root.follow(path).1.clone(), offset: self.offset }
    }
}

/// A value with its line; for an entry of a map that of the key.
#[derive(Clone, Debug)]
struct Node {
    line: u64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Map(Vec<(String, Node)>),
    List(Vec<Node>),
    Scalar,
}

impl Node {
    fn follow(&self, path: &str) -> (u64, &Self) {
        match self.step(path) {
            Some((child, rest)) => child.follow(rest),
            None => (self.line, self),
        }
    }

    /// The child that a path begins with, and the rest of the path. Keys may contain dots.
    fn step<'p>(&self, path: &'p str) -> Option<(&Self, &'p str)> {
        match &self.content {
            Content::Map(entries) => {
                // Keys of resources are written like indexes: `limits[cpu]`.
                let path = path.strip_prefix(['.', '[']).unwrap_or(path);
                let matching = entries.iter().filter_map(|(key, child)| {
                    let rest = path.strip_prefix(key.as_str())?;
                    let rest = rest.strip_prefix(']').unwrap_or(rest);
                    (rest.is_empty() || rest.starts_with(['.', '['])).then_some((child, rest))
                });
                matching.min_by_key(|(_, rest)| rest.len())
            }
            Content::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                Some((items.get(index.parse::<usize>().ok()?)?, rest))
            }
            Content::Scalar => None,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), content: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let child: Node = map.next_value()?;
            entries.push((key.value, Node { line: key.referenced.line(), ..child }));
        }
        Ok(Content::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }
}
