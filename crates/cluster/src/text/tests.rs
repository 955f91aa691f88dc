use expect_test::{Expect, expect};

use super::parse;

fn check(text: &str, want: Expect) {
    let shown = match parse(text.as_bytes()) {
        Ok(text) if text.ignored == 0 => text.value.to_string(),
        Ok(text) => format!("{} and {} more", text.value, text.ignored),
        Err(error) => error.to_string(),
    };
    want.assert_eq(&shown);
}

/// Each row was put to upstream's reader too: util/yaml ToJSON of apimachinery v0.36.4, which answers the same.
#[test]
fn what_upstream_reads_is_read() {
    check("{\"a\":\t[1, true, null, \"x\"]}", expect![[r#"{"a":[1,true,null,"x"]}"#]]);
    check("a: 1\nb: [x, y]\n", expect![[r#"{"a":1,"b":["x",true]}"#]]);
    check("---\na: 1\n", expect![[r#"{"a":1}"#]]);
    check("mode: 0644\nother: 0o644\n", expect![[r#"{"mode":420,"other":420}"#]]);
    check("a: yes\nb: no\nc: on\nd: off\ne: true\n", expect![[r#"{"a":true,"b":false,"c":true,"d":false,"e":true}"#]]);
    check("f: Y\ng: N\nh: True\ni: TRUE\nj: ON\n", expect![[r#"{"f":true,"g":false,"h":true,"i":true,"j":true}"#]]);
    check("a: 'yes'\nb: \"1\"\n", expect![[r#"{"a":"yes","b":"1"}"#]]);
    check("cpu: 1.5\nmem: 1Gi\nbig: 1e3\n", expect![[r#"{"big":1000,"cpu":1.5,"mem":"1Gi"}"#]]);
    check("hex: 0x1F\nbin: 0b11\nund: 1_000\n", expect![[r#"{"bin":3,"hex":31,"und":1000}"#]]);
    check("a: 1\na: 2\n", expect![[r#"{"a":2}"#]]);
    check("1: x\n1.5: q\ntrue: z\n", expect![[r#"{"1":"x","1.5":"q","true":"z"}"#]]);
    check("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n", expect![[r#"{"a":{"b":1},"c":{"b":1},"d":{"b":1,"e":2}}"#]]);
    check("a: ~\nb:\nc: Null\n", expect![[r#"{"a":null,"b":null,"c":null}"#]]);
    check("\u{feff}a: 1\n", expect![[r#"{"a":1}"#]]);
    check("a: 2001-01-01\nb: 12:30:45\nc: 1:20\n", expect![[r#"{"a":"2001-01-01","b":"12:30:45","c":"1:20"}"#]]);
    check(
        "a: 9223372036854775808\nb: 18446744073709551615\n",
        expect![[r#"{"a":9223372036854775808,"b":18446744073709551615}"#]],
    );
    check("a: 1.0\nd: -0\ne: +5\ng: 1.\nh: .5\ni: 007\n", expect![[r#"{"a":1,"d":0,"e":5,"g":1,"h":0.5,"i":7}"#]]);
    check("a: !!binary aGVsbG8=\nb: !!str 5\nc: =\nd: !foo x\n", expect![[r#"{"a":"hello","b":"5","c":"=","d":"x"}"#]]);
    check("a: |\n  line\n  line\n", expect![[r#"{"a":"line\nline\n"}"#]]);
    check("a: 08\n", expect![[r#"{"a":8}"#]]);
}

#[test]
fn only_the_first_document_is_used_and_the_others_are_counted() {
    check("a: 1\n---\na: 2\n", expect![[r#"{"a":1} and 1 more"#]]);
    // Upstream uses the empty document and fails.
    check("---\n---\na: 1\n", expect![[r#"{"a":1}"#]]);
}

#[test]
fn errors_name_line_and_column() {
    check("", expect!["it is empty"]);
    check("# nothing\n", expect!["it is empty"]);
    check(
        "a: b: c\n",
        expect!["it is neither YAML nor JSON: line 1, column 5: mapping values are not allowed in this context"],
    );
    check(
        "a: [1, 2\nb: 3\n",
        expect!["it is neither YAML nor JSON: line 2, column 2: illegal placement of ':' indicator"],
    );
    check(
        "a:\n\t- b\n",
        expect![
            "it is neither YAML nor JSON: line 2, column 2: tabs disallowed within this context (block indentation)"
        ],
    );
    check("a: *nobody\n", expect!["it is neither YAML nor JSON: line 1, column 4: alias references unknown anchor"]);
    // Upstream makes this one a string.
    check(
        "a: 1e400\n",
        expect![
            "it is neither YAML nor JSON: line 1, column 4: non-finite float `1e400` rejected by the configured policy"
        ],
    );
    check(
        "a: .inf\n",
        expect![
            "it is neither YAML nor JSON: line 1, column 4: non-finite float `.inf` rejected by the configured policy"
        ],
    );
    check("? [a, b]\n: c\n", expect!["it is neither YAML nor JSON: line 1, column 3: expected string scalar"]);
    check("{\"a\":\n }", expect!["it is neither YAML nor JSON: line 2, column 2: expected value"]);
}

#[test]
fn bytes_that_are_not_utf_8_are_rejected() {
    expect!["it is not text: byte 4 is not UTF-8"].assert_eq(&parse(b"a: \xff\n").unwrap_err().to_string());
}
