//! Text on its way to standard output and standard error.
//!
//! Other programs write names, messages and annotations of a cluster. Control characters in them could move
//! the cursor, change colours or hide other lines, so they are shown as text, like `\u{1b}`.

use std::io::{self, Write as _};

use anyhow::Context as _;

/// Writes text for people.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write(&visible(text))
}

/// Writes a JSON document. Its control characters are escaped in the way of JSON.
pub(crate) fn print_json(text: &str) -> anyhow::Result<()> {
    write(&escaped(text, false, |c| format!("\\u{:04x}", u32::from(c))))
}

/// Writes text of our own as it is: control sequences, scripts.
pub(crate) fn print_raw(text: &str) -> anyhow::Result<()> {
    write(text)
}

/// Writes something beside the answer. Without a reader, nothing is left to do.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().write_all(visible(text).as_bytes());
}

/// Lines of text in which no character does anything to a terminal.
fn visible(text: &str) -> String {
    escaped(text, false, |c| c.escape_unicode().to_string())
}

/// The same for a part of a line.
pub(crate) fn visible_in_line(text: &str) -> String {
    escaped(text, true, |c| c.escape_unicode().to_string())
}

fn escaped(text: &str, in_line: bool, escape: fn(char) -> String) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        let harmless = !in_line && matches!(c, '\n' | '\t');
        if harmless || !(c.is_control() || is_directional(c)) {
            result.push(c);
        } else {
            result.push_str(&escape(c));
        }
    }
    result
}

/// Characters that make a terminal show others in another order.
fn is_directional(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A reader that went away early has what it needs.
fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_as_text() {
        for (text, shown) in [
            ("a\n\tb ä…├─", "a\n\tb ä…├─"),
            ("\x1b[2J", "\\u{1b}[2J"),
            ("a\rb\x07\x7f", "a\\u{d}b\\u{7}\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}gnp", "\\u{202e}gnp"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_in_line("a\nb"), "a\\u{a}b");
    }

    #[test]
    fn json_stays_json() {
        let document = serde_json::json!({ "a": "\x1b\u{9b}\u{202e}\n" }).to_string();
        let shown = escaped(&document, false, |c| format!("\\u{:04x}", u32::from(c)));
        assert!(!shown.contains(|c: char| c.is_control()), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read["a"], "\x1b\u{9b}\u{202e}\n");
    }
}
