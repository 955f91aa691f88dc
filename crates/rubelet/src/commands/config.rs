//! `rubelet config show` and `rubelet config validate`: the configuration of a run, without a running rubelet.

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::{Map, Value};

use super::human::{clean, hang};
use super::style::{Style, Tone};
use super::{Document, Report, json, yaml};
use crate::config_load::{Fault, Loaded, Origin, faults, load};
use crate::flags::{Format, Output, RunOptions};
use rubelet_core::config::{API_VERSION, CgroupVersion, KIND};
use rubelet_engine::chain::Chain;

/// Fields whose values may be secrets.
const SECRET: &str = "staticPodURLHeader";
/// What is shown instead of a secret.
const MASKED: &str = "<masked>";
/// Values are shown in columns up to this width.
const WIDEST: usize = 60;

/// What `config show -o json` prints.
#[derive(Serialize)]
struct ConfigDocument {
    fields: Vec<Row>,
}

/// One field or flag.
#[derive(Debug, Serialize)]
struct Row {
    /// Its dotted path, or `--flag` for a flag that is no field.
    name: String,
    value: Value,
    /// Where it was set: `default`, `flag` or `file`.
    source: &'static str,
    /// The flag, or the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

/// What `config validate -o json` prints.
#[derive(Serialize)]
struct FaultsDocument<'a> {
    valid: bool,
    faults: &'a [Fault],
}

/// `rubelet config show`.
pub(super) fn show(options: &RunOptions, all: bool, format: Format, style: Style) -> Result<Report, String> {
    let advice = |problem: String| format!("{problem}\nrubelet config validate lists all errors");
    // What this host forbids is no matter of the file.
    let loaded = load(options, CgroupVersion::V2).map_err(|err| advice(Chain(&err).to_string()))?;
    let text = match format {
        Format::Table => table(&rows(&loaded, options, all), style),
        Format::Json => json(&Document::new("Config", &ConfigDocument { fields: rows(&loaded, options, all) }))?,
        Format::Yaml => as_file(&loaded, all)?,
    };
    let notes = loaded.tolerated.iter().map(|line| format!("{line}; it is ignored")).collect();
    Ok(Report { text, notes, failed: false })
}

/// The fields, by name, and then the flags that are no fields.
fn rows(loaded: &Loaded, options: &RunOptions, all: bool) -> Vec<Row> {
    let mut leaves = Vec::new();
    flatten(String::new(), whole(loaded), &mut leaves);
    let of_every_file = |name: &str| matches!(name, "apiVersion" | "kind");
    let fields = leaves.into_iter().filter(|(name, _)| !of_every_file(name)).filter_map(|(name, value)| {
        let (source, origin, line) = match loaded.origins.of(&name) {
            None if !all => return None,
            None => ("default", None, None),
            Some(Origin::File(path, line)) => ("file", Some(path.display().to_string()), Some(*line)),
            Some(Origin::Flag(flag)) => ("flag", Some(format!("--{flag}")), None),
        };
        Some(Row { name, value, source, origin, line })
    });
    // The files are named by the fields that they set.
    let flags = options.flags_without_field().into_iter().filter(|(flag, _)| !matches!(*flag, "config" | "config-dir"));
    let flags = flags.map(|(flag, value)| Row {
        name: format!("--{flag}"),
        value: value.into(),
        source: "flag",
        origin: Some(format!("--{flag}")),
        line: None,
    });
    fields.chain(flags).collect()
}

/// The effective configuration, without secrets.
fn whole(loaded: &Loaded) -> Value {
    let mut value = serde_json::to_value(&loaded.config).unwrap_or_default();
    if let Some(headers) = value.get_mut(SECRET).and_then(Value::as_object_mut) {
        headers.values_mut().for_each(|header| *header = MASKED.into());
    }
    value
}

/// Every value that is no object, with its dotted path; an empty object is one, too.
fn flatten(path: String, value: Value, leaves: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                flatten(if path.is_empty() { name } else { format!("{path}.{name}") }, value, leaves);
            }
        }
        Value::Null => {}
        Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            leaves.push((path, value));
        }
    }
}

/// A `KubeletConfiguration` file with the fields that were set, or all of them.
fn as_file(loaded: &Loaded, all: bool) -> Result<String, String> {
    let mut value = whole(loaded);
    if !all {
        value = set_alone(String::new(), value, loaded).unwrap_or_else(|| Value::Object(Map::new()));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    let head = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
    match value.as_object().is_none_or(Map::is_empty) {
        true => Ok(head),
        false => Ok(head + &yaml(&value)?),
    }
}

/// The part of a value that was set explicitly.
fn set_alone(path: String, value: Value, loaded: &Loaded) -> Option<Value> {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            let kept: Map<String, Value> = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name.clone(), set_alone(inside(&name), value, loaded)?)))
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        other => loaded.origins.of(&path).map(|_| other),
    }
}

fn table(rows: &[Row], style: Style) -> String {
    if rows.is_empty() {
        return "Every field has its default.\n".to_owned();
    }
    let shown: Vec<[String; 3]> = rows.iter().map(cells).collect();
    let width = |column: usize, heading: &str| {
        let cells = shown.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.filter(|width| *width <= WIDEST).max().unwrap_or_default().max(heading.len())
    };
    let (name, value) = (width(0, "FIELD"), width(1, "VALUE"));
    let line = |[first, second, third]: &[String; 3]| format!("{first:name$}  {second:value$}  {third}");
    let heading = line(&["FIELD", "VALUE", "FROM"].map(str::to_owned));
    let mut text = style.paint(Tone::Faint, &heading) + "\n";
    for row in &shown {
        text += &line(row);
        text.push('\n');
    }
    text
}

fn cells(row: &Row) -> [String; 3] {
    let value = match &row.value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let line = row.line.map(|line| format!(":{line}")).unwrap_or_default();
    let from = row.origin.as_ref().map_or_else(|| row.source.to_owned(), |origin| format!("{origin}{line}"));
    [&row.name, &value, &from].map(|text| clean(text).replace('\n', " "))
}

/// `rubelet config validate`.
pub(super) fn check(options: &RunOptions, host: CgroupVersion, output: Output, style: Style) -> Result<Report, String> {
    let found = faults(options, host);
    let text = match output {
        Output::Json => {
            json(&Document::new("ConfigFaults", &FaultsDocument { valid: found.is_empty(), faults: &found }))?
        }
        Output::Table => render(&found, style),
    };
    Ok(Report { text, notes: Vec::new(), failed: !found.is_empty() })
}

fn render(found: &[Fault], style: Style) -> String {
    if found.is_empty() {
        return "The configuration is valid.\n".to_owned();
    }
    let mut text = String::new();
    for fault in found {
        let sign = style.paint(Tone::Bad, style.sign(Tone::Bad));
        let place = fault.place.as_ref().map(|place| format!("{}: ", clean(place))).unwrap_or_default();
        text += &format!("{sign} {place}{}\n", hang(&fault.problem, 5));
    }
    let count = found.len();
    text + &format!("\nThe configuration is not valid: {count} error{}.\n", if count == 1 { "" } else { "s" })
}
