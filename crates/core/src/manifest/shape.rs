//! From any JSON value to the JSON of a Pod: known fields only, each of the right type, zeros left out.
//!
//! Like upstream's decoder this is lenient about unknown fields, which become warnings, and strict about types.
//! upstream: kubelet/config/common.go tryDecodeSinglePod (non-strict codec), apimachinery serializer/json (v1.36)

use serde_json::{Map, Number, Value};

use super::field::{FieldError, FieldReason, Path, Warning};
use super::quantity::{MILLI, Quantity};
use super::schema::{Field, POD, RESOURCE_LIST, Schema, Struct, Type};
use crate::config::nearest;

#[cfg(test)]
mod tests;

/// What was found on the way.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<FieldError>,
    pub(super) warnings: Vec<Warning>,
}

/// How far to tidy up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tidy {
    /// Keep what shows in upstream's hash: an empty list is not a missing one, `0.1` is not `100m`.
    AsWritten,
    /// What upstream's v1 pod would be written as: no empty lists, canonical and rounded quantities.
    Canonical,
}

/// Checks and tidies a manifest; the findings say whether the result may be used.
pub(super) fn shape(schema: &Schema, raw: &Value) -> (Value, Findings) {
    let mut shaper = Shaper { schema, tidy: Tidy::AsWritten, found: Findings::default() };
    let pod = shaper.value(POD, raw, &Path::default());
    (pod, shaper.found)
}

/// Rounds and canonicalises what has been defaulted; the pod was shaped before, so nothing is found any more.
pub(super) fn canonical(schema: &Schema, pod: &Value) -> Value {
    let mut shaper = Shaper { schema, tidy: Tidy::Canonical, found: Findings::default() };
    shaper.value(POD, pod, &Path::default())
}

/// Drops empty lists that are in no manifest: the API types always hold those lists that the API requires.
pub(super) fn drop_lists_not_written(pod: &mut Value, written: &Value) {
    match pod {
        Value::Object(fields) => {
            fields.retain(|name, value| written.get(name).is_some() || !value.as_array().is_some_and(Vec::is_empty));
            for (name, value) in fields {
                drop_lists_not_written(value, written.get(name).unwrap_or(&Value::Null));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                drop_lists_not_written(item, written.get(index).unwrap_or(&Value::Null));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

struct Shaper<'a> {
    schema: &'a Schema,
    tidy: Tidy,
    found: Findings,
}

impl Shaper<'_> {
    fn value(&mut self, go: &'static str, raw: &Value, path: &Path) -> Value {
        match (self.schema.resolve(go), raw) {
            (Type::Pointer(inner), raw) => self.value(inner, raw, path),
            (Type::Raw, raw) => raw.clone(),
            (Type::Struct(_), Value::Null) => Value::Object(Map::new()),
            (Type::Struct(known), Value::Object(object)) => Value::Object(self.object(known, object, path)),
            (Type::Slice(_), Value::Null) => Value::Array(Vec::new()),
            (Type::Slice(inner), Value::Array(items)) => {
                let items = items.iter().enumerate();
                Value::Array(items.map(|(index, item)| self.value(inner, item, &path.index(index))).collect())
            }
            (Type::Map(_), Value::Null) => Value::Object(Map::new()),
            (Type::Map(inner), Value::Object(object)) => {
                let round = go == RESOURCE_LIST;
                let entry = |(key, value): (&String, &Value)| {
                    let value = self.value(inner, value, &path.key(key));
                    (key.clone(), if round { self.rounded(value) } else { value })
                };
                Value::Object(object.iter().map(entry).collect())
            }
            (Type::String, Value::Null) => Value::String(String::new()),
            (Type::String, Value::String(_)) => raw.clone(),
            (Type::Bool, Value::Null) => Value::Bool(false),
            (Type::Bool, Value::Bool(_)) => raw.clone(),
            (Type::Int32 | Type::Int64 | Type::IntOrString, Value::Null) => Value::from(0),
            (Type::Int32 | Type::IntOrString, Value::Number(number)) => {
                self.integer(number, i64::from(i32::MIN), i64::from(i32::MAX), path)
            }
            (Type::Int64, Value::Number(number)) => self.integer(number, i64::MIN, i64::MAX, path),
            (Type::IntOrString, Value::String(_)) => raw.clone(),
            (Type::Quantity, Value::Null) => Value::from("0"),
            (Type::Quantity, Value::String(text)) => self.quantity(text.trim(), path),
            (Type::Quantity, Value::Number(number)) => self.quantity(&spelt(number), path),
            (Type::Time, Value::String(text)) => self.time(text, path),
            (expected, found) => self.mismatch(&expected, found, path),
        }
    }

    fn object(&mut self, known: &Struct, object: &Map<String, Value>, path: &Path) -> Map<String, Value> {
        let known = &known.json;
        let mut shaped = Map::new();
        for (name, raw) in object {
            let at = path.child(name);
            let Some((_, field)) = known.iter().find(|(known, _)| known == name) else {
                let meant = nearest(name, known.iter().map(|(known, _)| *known)).map(str::to_owned);
                self.found.warnings.push(Warning { path: at.as_str().to_owned(), nearest: meant });
                continue;
            };
            if raw.is_null() {
                continue;
            }
            let value = self.value(field.ty, raw, &at);
            if !self.is_absent(field, &value) {
                shaped.insert(name.clone(), value);
            }
        }
        shaped
    }

    /// Whether Go would hold the same thing had the field not been there.
    fn is_absent(&self, field: &Field, value: &Value) -> bool {
        if field.keeps_zero {
            return false;
        }
        match self.schema.resolve(field.ty) {
            Type::Pointer(_) | Type::Quantity | Type::IntOrString | Type::Time | Type::Raw => false,
            Type::Struct(_) => value.as_object().is_some_and(Map::is_empty),
            Type::Slice(_) | Type::Map(_) => {
                self.tidy == Tidy::Canonical
                    && (value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty))
            }
            Type::String => value == "",
            Type::Int32 | Type::Int64 => value == 0,
            Type::Bool => value == false,
        }
    }

    /// A number with a point or an exponent is none, even if it is whole. YAML's `1.0` is JSON's `1` when it gets here.
    fn integer(&mut self, number: &Number, min: i64, max: i64, path: &Path) -> Value {
        match number.as_i64() {
            Some(whole) if (min..=max).contains(&whole) => Value::from(whole),
            Some(_) | None => {
                let detail = format!("must be a whole number between {min} and {max}");
                self.found.errors.push(path.error(FieldReason::Invalid(number.to_string()), detail));
                Value::from(0)
            }
        }
    }

    fn quantity(&mut self, text: &str, path: &Path) -> Value {
        match (text.parse::<Quantity>(), self.tidy) {
            (Ok(_), Tidy::AsWritten) => Value::from(text),
            (Ok(quantity), Tidy::Canonical) => Value::from(quantity.to_string()),
            (Err(fault), _) => {
                self.found.errors.push(path.error(FieldReason::Invalid(text.to_owned()), fault.to_string()));
                Value::from("0")
            }
        }
    }

    fn rounded(&self, value: Value) -> Value {
        match (self.tidy, value.as_str().map(str::parse::<Quantity>)) {
            (Tidy::Canonical, Some(Ok(mut quantity))) => {
                quantity.round_up(MILLI);
                Value::from(quantity.to_string())
            }
            (Tidy::Canonical | Tidy::AsWritten, _) => value,
        }
    }

    fn time(&mut self, text: &str, path: &Path) -> Value {
        if !looks_like_rfc3339(text) || text.parse::<jiff::Timestamp>().is_err() {
            let detail = "must be a time such as 2026-01-31T12:00:00Z";
            self.found.errors.push(path.error(FieldReason::Invalid(text.to_owned()), detail));
            return Value::from("1970-01-01T00:00:00Z");
        }
        Value::from(text)
    }

    fn mismatch(&mut self, expected: &Type<'_>, found: &Value, path: &Path) -> Value {
        let (expected, stand_in) = match expected {
            Type::Struct(_) | Type::Map(_) => ("a mapping", Value::Object(Map::new())),
            Type::Slice(_) => ("a list", Value::Array(Vec::new())),
            Type::String => ("a string; put it in quotes", Value::from("")),
            Type::Int32 | Type::Int64 => ("a whole number", Value::from(0)),
            Type::Bool => ("true or false", Value::Bool(false)),
            Type::Quantity => ("a quantity such as 100m or 1Gi", Value::from("0")),
            Type::IntOrString => ("a whole number or a name", Value::from(0)),
            Type::Time => ("a time such as 2026-01-31T12:00:00Z", Value::from("1970-01-01T00:00:00Z")),
            Type::Pointer(_) | Type::Raw => ("another value", Value::Null),
        };
        self.found.errors.push(path.error(FieldReason::Type(kind(found)), format!("must be {expected}")));
        stand_in
    }
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

/// A number as upstream's reader of YAML hands it on. One that is whole is no float any more, unless it comes from JSON.
fn spelt(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.1}"),
        Some(float) if number.is_f64() && float.abs() < 1e-6 => format!("{float:e}"),
        Some(float) if number.is_f64() => format!("{float}"),
        Some(_) | None => number.to_string(),
    }
}

/// Go's reader takes exactly this form; jiff's takes more.
fn looks_like_rfc3339(text: &str) -> bool {
    let digits = |part: &str, length: usize| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    let Some((date, clock)) = text.split_once('T') else { return false };
    let zone_at = clock.find(['Z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let date: Vec<&str> = date.split('-').collect();
    let clock: Vec<&str> = clock.split(':').collect();
    let offset = zone.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':'));
    matches!(date.as_slice(), [y, m, d] if digits(y, 4) && digits(m, 2) && digits(d, 2))
        && matches!(clock.as_slice(), [h, m, s] if digits(h, 2) && digits(m, 2) && digits(s, 2))
        && (1..=9).contains(&fraction.len())
        && digits(fraction, fraction.len())
        && (zone == "Z" || offset.is_some_and(|(h, m)| digits(h, 2) && digits(m, 2)))
}
