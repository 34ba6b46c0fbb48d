use super::*;

fn lines(text: &str) -> Lines {
    let mut documents = manifest::split(text);
    documents.pop().unwrap().parse().ok().flatten().unwrap().1
}

#[test]
fn texts_are_split_at_document_markers() {
    for (text, documents) in [
        ("", 0),
        ("# only a comment\n---\n# and another\n---\n", 0),
        ("a: 1\n", 1),
        ("---\na: 1\n", 1),
        ("a: 1\n---\nb: 2\n--- # last\nc: 3", 3),
        ("a: |\n  ---\n  no marker\n", 1),
        ("{\"a\": 1}", 1),
    ] {
        let parsed =
            manifest::split(text).iter().filter_map(|one| one.parse().ok().unwrap()).count();
        assert_eq!(parsed, documents, "{text:?}");
    }
}

#[test]
fn what_is_no_yaml_is_named_with_its_line() {
    for (text, line, message) in [
        ("a: 1\n---\nb: 1\nb: 2\n", 4, "`b` occurs twice"),
        ("a: 1\n---\nb: [1\n", 3, "unclosed bracket '['"),
    ] {
        let fault = manifest::split(text).pop().unwrap().parse().err().unwrap();
        assert_eq!((fault.line, fault.message.as_str()), (line, message), "{text:?}");
    }
}

#[test]
fn every_kind_of_value_can_be_read() {
    let text = "a: 99999999999999999999999999\nb: 0.5\nc: 18446744073709551615\nd: ~\ne: 0x10\n\
                f: &x {y: 1}\ng: *x\nh: {<<: *x}\n1: 2\ni: 2026-01-01\nj: -1\nk: true\n";

    let lines = lines(text);

    assert_eq!(
        ["a", "b", "d", "f.y", "g.y", "h.y", "k"].map(|path| lines.of(path)),
        [1, 2, 4, 6, 7, 8, 12]
    );
}

#[test]
fn lines_are_those_of_the_nearest_key() {
    let lines = lines(
        "a: 0\n\
         ---\n\
         spec:\n\
         \x20 list:\n\
         \x20 - name: x\n\
         \x20   example.com/key: 1\n\
         \x20 - name: y\n\
         \x20   example: 2\n",
    );

    for (path, line) in [
        ("", 3),
        ("spec", 3),
        ("spec.list", 4),
        ("spec.list[0]", 5),
        ("spec.list[0].name", 5),
        ("spec.list[0].example.com/key", 6),
        ("spec.list[1].name.deeper[0]", 7),
        ("spec.list[1].example.com/key", 8),
        ("spec.list.name", 4),
        ("spec.list[7].name", 4),
        ("metadata.name", 3),
    ] {
        assert_eq!(lines.of(path), line, "{path}");
    }
    assert_eq!(lines.below("spec.list[1]").of("example"), 8);
}

#[test]
fn numbers_are_read_as_the_api_server_reads_them() {
    let documents = manifest::split("a: 0644\nb: 1.0\nc: 1.5\nd: 1e3\ne: '0644'\n");
    let (value, _) = documents[0].parse().ok().flatten().unwrap();

    assert_eq!(value, serde_json::json!({"a": 0o644, "b": 1, "c": 1.5, "d": 1000, "e": "0644"}));
}

#[test]
fn keys_in_brackets_have_lines_too() {
    let lines = lines("limits:\n  cpu: 1\n  example.com/gpu: 2\n");

    assert_eq!(["limits[cpu]", "limits[example.com/gpu]"].map(|path| lines.of(path)), [2, 3]);
}
