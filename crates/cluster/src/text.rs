//! Parses a manifest, YAML or JSON, into JSON.
//!
//! Accepts what upstream's parser accepts: YAML 1.1 booleans and octal numbers, duplicate keys (the last one counts), and
//! several documents (the first one counts).
//! upstream: apimachinery/pkg/util/yaml ToJSON, by way of sigs.k8s.io/yaml (v1.36).

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Options};

/// Why a text is neither JSON nor YAML.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum TextError {
    #[error("it is empty")]
    Empty,
    #[error("it is not text: byte {position} is not UTF-8")]
    NotText { position: usize },
    #[error("it is neither YAML nor JSON: line {line}, column {column}: {problem}")]
    Malformed { line: u64, column: u64, problem: String },
    #[error("it is neither YAML nor JSON: {problem}")]
    Unreadable { problem: String },
}

/// A parsed text.
#[derive(Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) value: Value,
    /// Number of documents after the first, which are not used.
    pub(crate) ignored: usize,
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Text, TextError> {
    let not_text = |error: std::str::Utf8Error| TextError::NotText { position: error.valid_up_to().saturating_add(1) };
    let text = std::str::from_utf8(bytes).map_err(not_text)?;
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        // As upstream, a text that begins like JSON is parsed as JSON only.
        let value = serde_json::from_str(text).map_err(|error| not_json(&error))?;
        return Ok(Text { value, ignored: 0 });
    }
    let read = serde_saphyr::from_multiple_with_options(text, options());
    let documents: Vec<Value> = read.map_err(|error| malformed(&error))?;
    let ignored = documents.len().saturating_sub(1);
    let mut value = documents.into_iter().next().ok_or(TextError::Empty)?;
    whole_numbers(&mut value);
    Ok(Text { value, ignored })
}

/// Turns whole floats into integers: `1e3` is allowed where an integer is expected.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            // The shortest digits that mean this float, then zeros: so upstream's reader prints it.
            if float.fract() == 0.0
                && let Ok(whole) = format!("{float}").parse::<i64>()
            {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    options.legacy_octal_numbers = true;
    options.with_snippet = false;
    options
}

fn malformed(error: &serde_saphyr::Error) -> TextError {
    let problem = error.to_string();
    match error.location() {
        Some(at) => {
            // The parser's message ends with the position, which our message puts first.
            let place = format!(" at line {}, column {}", at.line(), at.column());
            let problem = problem.replace(&place, "");
            TextError::Malformed { line: at.line(), column: at.column(), problem }
        }
        None => TextError::Unreadable { problem },
    }
}

fn not_json(error: &serde_json::Error) -> TextError {
    let (line, column) = (error.line(), error.column());
    let problem = error.to_string().replace(&format!(" at line {line} column {column}"), "");
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    TextError::Malformed { line: count(line), column: count(column), problem }
}

// The path is said for the oracle (tests/oracle), which reads manifests with this file, too.
#[cfg(test)]
#[path = "text/tests.rs"]
mod tests;
