//! FNV-1a over an unambiguous byte encoding of JSON values.
//!
//! Every value starts with a letter for its type; texts and collections include their length, so no two values
//! have the same encoding. Objects are written in byte order of their keys.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;
/// Letters and digits of the hash text: no vowels, so that it never spells a word.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// 27 to the power of 14 is the first power above 64 bits.
const TEXT_LENGTH: usize = 14;

/// Whether a text has the form of a digest.
pub(super) fn is_text(text: &str) -> bool {
    text.len() == TEXT_LENGTH && text.bytes().all(|letter| ALPHABET.contains(&letter))
}

/// A running hash.
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl Digest {
    /// Adds a map of texts.
    pub(super) fn strings(&mut self, map: &BTreeMap<String, String>) {
        self.header('o', map.len());
        for (key, value) in map {
            self.string(key);
            self.string(value);
        }
    }

    /// Adds a JSON value.
    pub(super) fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes(b"n"),
            Value::Bool(false) => self.bytes(b"f"),
            Value::Bool(true) => self.bytes(b"t"),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.header('a', items.len());
                for item in items {
                    self.value(item);
                }
            }
            Value::Object(map) => {
                // The order of the JSON library's maps depends on its features.
                let sorted: BTreeMap<_, _> = map.iter().collect();
                self.header('o', sorted.len());
                for (key, child) in sorted {
                    self.string(key);
                    self.value(child);
                }
            }
        }
    }

    /// The hash as text, usable as a label value.
    pub(super) fn text(self) -> String {
        let mut rest = self.0;
        let mut text = [ALPHABET[0]; TEXT_LENGTH];
        for place in text.iter_mut().rev() {
            *place = ALPHABET[usize::try_from(rest % 27).expect("a remainder of 27 is small")];
            rest /= 27;
        }
        text.iter().map(|&byte| char::from(byte)).collect()
    }

    /// Integers in decimal, other numbers by the bits of the double.
    fn number(&mut self, number: &Number) {
        if let Some(whole) = number.as_i64() {
            self.integer(i128::from(whole));
        } else if let Some(whole) = number.as_u64() {
            self.integer(i128::from(whole));
        } else {
            let bits = number.as_f64().unwrap_or_default().to_bits();
            self.bytes(b"d");
            self.bytes(&bits.to_be_bytes());
        }
    }

    fn integer(&mut self, value: i128) {
        self.bytes(b"i");
        self.bytes(&value.to_be_bytes());
    }

    fn string(&mut self, text: &str) {
        self.header('s', text.len());
        self.bytes(text.as_bytes());
    }

    fn header(&mut self, kind: char, length: usize) {
        self.bytes(&[kind as u8]);
        self.bytes(&(length as u64).to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
}
