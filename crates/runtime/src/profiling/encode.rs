//! The few messages of pprof's protobuf format that a flat profile needs.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

/// Encodes a profile with one sample per name: its processor time.
pub(super) fn profile(
    spent: &[(String, Duration)],
    started: Timestamp,
    duration: Duration,
) -> Vec<u8> {
    let mut strings = Strings::default();
    let mut out = Message::default();
    let value_type =
        Message::default().number(1, strings.id("cpu")).number(2, strings.id("nanoseconds"));
    out = out.message(1, &value_type).message(11, &value_type).number(12, 1);
    for (id, (name, time)) in (1_u64..).zip(spent) {
        let function = Message::default().number(1, id).number(2, strings.id(name));
        let line = Message::default().number(1, id);
        let location = Message::default().number(1, id).message(4, &line);
        let sample = Message::default().number(1, id).number(2, nanos(*time));
        out = out.message(2, &sample).message(4, &location).message(5, &function);
    }
    let started = u64::try_from(started.as_nanosecond()).unwrap_or_default();
    out = out.number(9, started).number(10, nanos(duration));
    for text in strings.in_order() {
        out = out.bytes(6, text.as_bytes());
    }
    out.0
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Each string is written once and referenced by its position; position 0 is the empty string.
struct Strings(BTreeMap<String, u64>);

impl Default for Strings {
    fn default() -> Self {
        Self([(String::new(), 0)].into())
    }
}

impl Strings {
    fn id(&mut self, text: &str) -> u64 {
        let next = self.0.len() as u64;
        *self.0.entry(text.to_owned()).or_insert(next)
    }

    fn in_order(&self) -> Vec<&str> {
        let mut strings: Vec<(&str, u64)> =
            self.0.iter().map(|(text, id)| (text.as_str(), *id)).collect();
        strings.sort_by_key(|(_, id)| *id);
        strings.into_iter().map(|(text, _)| text).collect()
    }
}

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or_default());
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_follow_the_protobuf_encoding() {
        // The examples of the protobuf documentation.
        assert_eq!(Message::default().number(1, 150).0, [0x08, 0x96, 0x01]);
        assert_eq!(
            Message::default().bytes(2, b"testing").0,
            [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]
        );
    }

    #[test]
    fn a_profile_refers_to_its_strings_in_order() {
        let spent = [("main".to_owned(), Duration::from_nanos(300))];

        let bytes = profile(&spent, Timestamp::UNIX_EPOCH, Duration::from_nanos(1));

        let expected: &[&[u8]] = &[
            &[0x0a, 4, 8, 1, 16, 2],          // sample type: cpu, nanoseconds
            &[0x5a, 4, 8, 1, 16, 2],          // period type
            &[0x60, 1],                       // period
            &[0x12, 5, 8, 1, 16, 0xac, 0x02], // sample: location 1, 300
            &[0x22, 6, 8, 1, 0x22, 2, 8, 1],  // location 1: line of function 1
            &[0x2a, 4, 8, 1, 16, 3],          // function 1: third string
            &[0x48, 0, 0x50, 1],              // time, duration
            b"\x32\x00\x32\x03cpu\x32\x0bnanoseconds\x32\x04main",
        ];
        assert_eq!(bytes, expected.concat());
    }
}
