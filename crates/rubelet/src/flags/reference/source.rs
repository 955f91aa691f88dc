//! Reads the fields of `core::config` from its source: names, types, descriptions, allowed words.

use std::collections::BTreeMap;
use std::path::Path;

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// As a file spells it.
    pub(super) name: String,
    /// As Rust spells it.
    pub(super) rust_name: String,
    pub(super) rust_type: String,
    pub(super) about: String,
}

/// Everything that `core::config` declares.
#[derive(Debug, Default)]
pub(super) struct Declared {
    /// The fields of each struct.
    structs: BTreeMap<String, Vec<Field>>,
    /// The words that each `choice!` allows.
    words: BTreeMap<String, Vec<String>>,
}

impl Declared {
    pub(super) fn read() -> Self {
        let mut declared = Self::default();
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src/config");
        for name in ["kubelet.rs", "parts.rs", "logging.rs", "choices.rs"] {
            let path = dir.join(name);
            let text = std::fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
            declared.take(&text);
        }
        declared
    }

    pub(super) fn fields(&self, of: &str) -> Option<&[Field]> {
        self.structs.get(of).map(Vec::as_slice)
    }

    /// The type of a field in the words of a file, such as `duration` or `cgroupfs or systemd`.
    pub(super) fn type_of(&self, rust: &str) -> String {
        if let Some(words) = self.words.get(rust) {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            return match words.split_last() {
                Some((last, [])) => last.clone(),
                Some((last, others)) => format!("{} or {last}", others.join(", ")),
                None => String::new(),
            };
        }
        for (wrapper, word) in [("Option<", ""), ("Vec<", "list of "), ("BTreeMap<String, ", "map of text to ")] {
            if let Some(inner) = rust.strip_prefix(wrapper).and_then(|rest| rest.strip_suffix('>')) {
                let inner = self.type_of(inner);
                let plural = if inner == "object" && !word.is_empty() { "s" } else { "" };
                return format!("{word}{inner}{plural}");
            }
        }
        let word = match rust {
            "String" => "text",
            "bool" => "bool",
            "i32" | "i64" | "u32" => "integer",
            "f64" => "number",
            "GoDuration" | "FlushFrequency" => "duration",
            "Quantity" => "quantity",
            other if self.structs.contains_key(other) => "object",
            other => panic!("{other}: the reference has no word for this type"),
        };
        word.to_owned()
    }

    fn take(&mut self, text: &str) {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let opened = line.strip_prefix("pub struct ").and_then(|rest| rest.strip_suffix(" {"));
            if let Some(name) = opened {
                let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").collect();
                self.structs.insert(name.to_owned(), fields(&body));
            } else if line == "choice! {" {
                let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").collect();
                let name = body.iter().find_map(|line| line.trim().strip_suffix(" {")).expect("a choice has a name");
                let quoted = |line: &&str| Some(line.trim().strip_suffix("\",")?.split_once(" = \"")?.1.to_owned());
                self.words.insert(name.to_owned(), body.iter().filter_map(quoted).collect());
            }
        }
    }
}

/// The fields of a struct's body.
fn fields(body: &[&str]) -> Vec<Field> {
    let mut found = Vec::new();
    let (mut about, mut renamed) = (String::new(), None);
    for line in body.iter().map(|line| line.trim()) {
        if let Some(text) = line.strip_prefix("/// ") {
            about = if about.is_empty() { text.to_owned() } else { format!("{about} {text}") };
        } else if let Some((_, rest)) = line.split_once("rename = \"") {
            renamed = rest.split('"').next().map(str::to_owned);
        } else if let Some((rust_name, rust_type)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(": ")) {
            found.push(Field {
                name: renamed.take().unwrap_or_else(|| camel_case(rust_name)),
                rust_name: rust_name.to_owned(),
                rust_type: rust_type.trim_end_matches(',').to_owned(),
                about: std::mem::take(&mut about),
            });
        }
    }
    found
}

/// As `#[serde(rename_all = "camelCase")]` does it.
fn camel_case(snake: &str) -> String {
    let mut words = snake.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        name + &head.to_uppercase() + tail
    })
}
