//! An object in a document together with its path, for errors that name the field.

use serde_json::{Map, Value};

/// A field of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at} must be {wants}")]
pub struct BadField {
    /// Its path, as `clusters[0].cluster.server`.
    pub at: String,
    /// The type that it should have.
    pub wants: &'static str,
}

/// An object in a document, and its path. Null and empty strings count as absent.
#[derive(Clone, Debug)]
pub(super) struct At<'a> {
    object: Option<&'a Map<String, Value>>,
    path: String,
}

impl<'a> At<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { object: value.as_object(), path: String::new() }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The path of a field.
    pub(super) fn name(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    pub(super) fn value(&self, field: &str) -> Option<&'a Value> {
        self.object?.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.value(field).is_some_and(|value| value.as_str() != Some(""))
    }

    pub(super) fn text(&self, field: &str) -> Result<Option<&'a str>, BadField> {
        match self.value(field) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(BadField { at: self.name(field), wants: "a text" }),
        }
    }

    pub(super) fn flag(&self, field: &str) -> Result<bool, BadField> {
        match self.value(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(BadField { at: self.name(field), wants: "true or false" }),
        }
    }

    pub(super) fn object(&self, field: &str) -> Result<Self, BadField> {
        let path = self.name(field);
        match self.value(field) {
            None => Ok(Self { object: None, path }),
            Some(Value::Object(object)) => Ok(Self { object: Some(object), path }),
            Some(_) => Err(BadField { at: path, wants: "a mapping" }),
        }
    }

    /// The entries of a list of objects.
    pub(super) fn list(&self, field: &str) -> Result<Vec<Self>, BadField> {
        let items = self.items(field)?;
        let entry = |(index, value): (usize, &'a Value)| {
            let path = format!("{}[{index}]", self.name(field));
            match value {
                Value::Object(object) => Ok(Self { object: Some(object), path }),
                _ => Err(BadField { at: path, wants: "a mapping" }),
            }
        };
        items.iter().enumerate().map(entry).collect()
    }

    /// The entries of a list of strings.
    pub(super) fn texts(&self, field: &str) -> Result<Vec<String>, BadField> {
        let entry = |(index, value): (usize, &Value)| match value {
            Value::String(text) => Ok(text.clone()),
            _ => Err(BadField { at: format!("{}[{index}]", self.name(field)), wants: "a text" }),
        };
        self.items(field)?.iter().enumerate().map(entry).collect()
    }

    fn items(&self, field: &str) -> Result<&'a [Value], BadField> {
        match self.value(field) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(BadField { at: self.name(field), wants: "a list" }),
        }
    }
}
