//! `docs/configuration.md`: every field and flag, written from the tables that the program uses.

mod source;

use std::fmt::Write as _;

use expect_test::expect_file;
use rubelet_core::config::{ACTED_FIELDS, ACTED_GATES, Given, KubeletConfiguration, MISSING, WITHOUT_EFFECT_UPSTREAM};
use serde_json::Value;

use super::flag::{Flag, Group, Standing};
use super::settings::Settings;
use super::{ACTED_FLAGS, table, value};
use source::{Declared, Field};

const INTRODUCTION: &str = "\
# Configuration reference

<!-- Written by a test of crates/rubelet/src/flags/reference.rs from the tables that the program uses. Do not edit: run
     `UPDATE_EXPECT=1 cargo test -p rubelet --lib reference` after a change of a field or a flag. -->

rubelet reads the file of upstream's kubelet, `KubeletConfiguration` of `kubelet.config.k8s.io/v1beta1`, named by `--config`,
and then every `*.conf` below `--config-dir`, in lexical order. Flags win over both. It accepts every field and flag of
v1.36.4. In the tables below, the column *effect* says whether a setting changes what rubelet does:

- **yes**: it does;
- **no**: it is accepted, and a warning at start names it if it is set; what is missing is written beside it;
- **none**: it has no effect on a node with upstream's kubelet either.

`rubelet check` shows what a configuration leads to on this machine, without starting anything.

";

/// A field with the path that leads to it, such as `authentication.webhook.enabled`.
struct Row {
    path: String,
    field: Field,
}

/// Every field that holds a value. Objects are taken apart; a list of objects is one row, and so are their fields.
fn rows(declared: &Declared, of: &str, path: &str, found: &mut Vec<Row>) {
    for field in declared.fields(of).unwrap_or_default() {
        let path = if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
        let optional = field.rust_type.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>'));
        let inner = optional.unwrap_or(&field.rust_type);
        let item = inner.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>'));
        if item.is_some() || declared.fields(inner).is_none() {
            found.push(Row { path: path.clone(), field: field.clone() });
        }
        match item {
            Some(item) => rows(declared, item, &format!("{path}[]"), found),
            None => rows(declared, inner, &path, found),
        }
    }
}

/// The value at a dotted path, in a file's notation; empty for nothing.
fn default_of(config: &KubeletConfiguration, path: &str) -> String {
    let whole = serde_json::to_value(config).expect("a configuration can be written");
    let value = path.split('.').try_fold(&whole, |value, key| value.get(key));
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) if list.is_empty() => String::new(),
        Some(Value::Object(map)) if map.is_empty() => String::new(),
        Some(other) => other.to_string().replace("\":\"", "\": \"").replace("\",\"", "\", \""),
    }
}

/// The default with a file, and the one without if it is another.
fn defaults(path: &str, rust_type: &str) -> String {
    let mut with_file = KubeletConfiguration::default();
    with_file.fill_eviction_hard(&Given::default());
    let (with, without) = (default_of(&with_file, path), default_of(&KubeletConfiguration::legacy_defaults(), path));
    let code = |text: &str| match text {
        "" => "empty".to_owned(),
        text => format!("`{text}`"),
    };
    match (with.as_str(), without.as_str()) {
        // What serde leaves out is the zero of its type.
        ("", "") => match rust_type {
            "bool" => code("false"),
            "i32" | "i64" => code("0"),
            _ => String::new(),
        },
        (with, without) if with == without => code(with),
        (with, without) => format!("{}; without a file {}", code(with), code(without)),
    }
}

/// Whether a field of this path has an effect.
fn effect(path: &str) -> String {
    let covers =
        |name: &str| path.strip_prefix(name).is_some_and(|rest| matches!(rest.get(..1), None | Some("." | "[")));
    if ACTED_FIELDS.iter().any(|name| covers(name)) {
        return "yes".to_owned();
    }
    if WITHOUT_EFFECT_UPSTREAM.iter().any(|name| covers(name)) {
        return "none".to_owned();
    }
    let missing = MISSING.iter().find(|missing| missing.fields.iter().any(|name| covers(name)));
    let missing = missing.unwrap_or_else(|| panic!("{path} is neither acted on nor missing"));
    format!("no: {}", missing.what)
}

/// The description of a field, with the names that a file uses, and without what only readers of the code need.
fn about(field: &Field, siblings: &[Row]) -> String {
    let mut text = field.about.clone();
    for other in siblings {
        text = text.replace(&format!("`{}`", other.field.rust_name), &format!("`{}`", other.path));
    }
    let ids = |word: &str| {
        word.starts_with('(') && word.trim_end_matches(['.', ';', ',']).ends_with(')') && word.contains('-')
    };
    let mut kept: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match kept.last_mut() {
            Some(last) if ids(word) => *last += word.split_once(')').map_or("", |(_, after)| after),
            Some(_) | None => kept.push(word.to_owned()),
        }
    }
    kept.join(" ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn field_table(page: &mut String) {
    let declared = Declared::read();
    let mut all = Vec::new();
    rows(&declared, "KubeletConfiguration", "", &mut all);
    all.sort_by_key(|row| row.path.to_lowercase());
    page.push_str("## Fields of the file\n\nThe flag of a field is deprecated unless it is marked with \\*, and works all the same.\n\n");
    page.push_str("| field | what | type | default | effect | flag |\n|---|---|---|---|---|---|\n");
    for row in &all {
        let flags: Vec<String> = table::run_flags()
            .filter(|flag| flag.config_field() == Some(row.path.as_str()))
            .map(|flag| match flag.standing {
                Standing::AlsoField(_) => format!("`--{}` \\*", flag.name),
                Standing::Current | Standing::UseField(_) | Standing::Old(_) => format!("`--{}`", flag.name),
            })
            .collect();
        let about = about(&row.field, &all);
        let kind = declared.type_of(&row.field.rust_type);
        let cells = [
            format!("`{}`", row.path),
            about,
            kind,
            defaults(&row.path, &row.field.rust_type),
            effect(&row.path),
            flags.join(", "),
        ];
        let _ = writeln!(page, "| {} |", cells.map(|text| cell(&text)).join(" | "));
    }
}

fn flag_effect(flag: &Flag) -> &'static str {
    match flag.group {
        Group::NoEffect => "none",
        _ if ACTED_FLAGS.contains(&flag.name) || flag.name == "help" => "yes",
        _ => "no",
    }
}

fn flag_table(page: &mut String) {
    let mut settings = Settings::over(KubeletConfiguration::legacy_defaults());
    page.push_str(
        "\n## Flags without a field\n\nThe flags of a command, such as `rubelet pods`: `--help` after the command.\n\n",
    );
    page.push_str("| flag | what | value | default | effect |\n|---|---|---|---|---|\n");
    let mut all: Vec<&Flag> =
        table::run_flags().filter(|flag| flag.config_field().is_none() && !flag.help.is_empty()).collect();
    all.sort_by_key(|flag| flag.name);
    for flag in all {
        let what = match flag.standing {
            Standing::Old(why) => format!("{} Deprecated: {why}.", flag.help),
            Standing::Current | Standing::UseField(_) | Standing::AlsoField(_) => flag.help.to_owned(),
        };
        let (kind, default) = (value::value_name(&flag.kind), value::show(&flag.kind, &mut settings));
        let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
        let cells = [format!("`--{}`", flag.name), what, code(kind), code(&default), flag_effect(flag).to_owned()];
        let _ = writeln!(page, "| {} |", cells.map(|text| cell(&text)).join(" | "));
    }
    let silent: Vec<String> =
        table::run_flags().filter(|flag| flag.help.is_empty()).map(|flag| format!("`--{}`", flag.name)).collect();
    let _ = writeln!(page, "\nAccepted, without an effect upstream either: {}.", silent.join(", "));
}

fn gate_table(page: &mut String) {
    page.push_str(
        "\n## Feature gates\n\nEvery gate of v1.36.4 is accepted (`rubelet --feature-gates=help` lists them). These change what \
         rubelet does:\n\n| gate | stage | default |\n|---|---|---|\n",
    );
    for gate in ACTED_GATES {
        let default = if gate.on_by_default() { "on" } else { "off" };
        let _ = writeln!(page, "| `{}` | {} | {default} |", gate.as_str(), gate.stage().as_str());
    }
}

#[test]
fn the_configuration_reference_is_what_the_code_says() {
    let mut page = INTRODUCTION.to_owned();
    field_table(&mut page);
    flag_table(&mut page);
    gate_table(&mut page);
    expect_file!["../../../../docs/configuration.md"].assert_eq(&page);
}

#[test]
fn every_flag_of_a_field_leads_to_one() {
    let mut all = Vec::new();
    rows(&Declared::read(), "KubeletConfiguration", "", &mut all);
    for field in table::run_flags().filter_map(Flag::config_field) {
        assert!(all.iter().any(|row| row.path == field), "no field is called {field}");
    }
}
