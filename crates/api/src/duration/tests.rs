//! Parsing and printing against values that Go's own parser was seen to produce, and the round trip.

use proptest::prelude::*;

use super::GoDuration;

#[test]
fn text_is_stored_in_canonical_form() {
    for (text, canonical) in [
        ("0", "0s"),
        ("0s", "0s"),
        ("1m", "1m0s"),
        ("4h", "4h0m0s"),
        ("4h0m0s", "4h0m0s"),
        ("90s", "1m30s"),
        ("1.5h", "1h30m0s"),
        (".5s", "500ms"),
        ("1.s", "1s"),
        ("1h15m30.918273645s", "1h15m30.918273645s"),
        ("1500us", "1.5ms"),
        ("1µs", "1µs"),
        ("1μs", "1µs"),
        ("100ns", "100ns"),
        ("-1m", "-1m0s"),
        ("+5s", "5s"),
        ("36h", "36h0m0s"),
        ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
    ] {
        let parsed: GoDuration = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(parsed.to_string(), canonical, "{text}");
    }
}

#[test]
fn text_that_is_no_duration_is_refused_in_the_words_of_go() {
    for (text, message) in [
        ("abc", r#"time: invalid duration "abc""#),
        ("", r#"time: invalid duration """#),
        ("-", r#"time: invalid duration "-""#),
        (".", r#"time: invalid duration ".""#),
        (".s", r#"time: invalid duration ".s""#),
        ("3", r#"time: missing unit in duration "3""#),
        ("1d", r#"time: unknown unit "d" in duration "1d""#),
        ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
        ("3000000h", r#"time: invalid duration "3000000h""#),
    ] {
        let error = text.parse::<GoDuration>().unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn negative_duration_has_no_unsigned_form() {
    assert_eq!(GoDuration::from_secs(-1).to_std(), None);
    assert_eq!(GoDuration::from_secs(2).to_std(), Some(std::time::Duration::from_secs(2)));
}

proptest! {
    #[test]
    fn printing_and_parsing_is_the_identity(nanoseconds in any::<i64>()) {
        let duration = GoDuration { nanoseconds };
        prop_assert_eq!(duration.to_string().parse::<GoDuration>().unwrap(), duration);
    }

    #[test]
    fn no_text_makes_the_parser_fail_otherwise(text in "\\PC{0,12}") {
        let _ = text.parse::<GoDuration>();
    }
}
