//! Faults of a manifest, each at the field where a person can mend it.

use std::fmt;

/// One fault: where, of which kind, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field as a person writes it: `spec.containers[0].image`.
    pub path: String,
    /// The kind of fault.
    pub reason: FieldReason,
    /// What is wrong or what would be right; may be empty when the reason says it all.
    pub detail: String,
}

/// The kinds of fault, as the API server names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldReason {
    /// A value that must be given is not.
    Required,
    /// The value breaks a rule.
    Invalid(String),
    /// The value is not one of the known ones.
    NotSupported(String),
    /// The field must not be set here.
    Forbidden,
    /// The value is there twice.
    Duplicate(String),
    /// What the value names does not exist.
    NotFound(String),
    /// The text is longer than allowed.
    TooLong,
    /// The list is longer than allowed.
    TooMany(usize),
    /// The JSON value is of another type.
    Type(&'static str),
}

impl FieldReason {
    /// The words that start the message, as the API server prints them.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid(_) => "Invalid value",
            Self::NotSupported(_) => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate(_) => "Duplicate value",
            Self::NotFound(_) => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany(_) => "Too many",
            Self::Type(_) => "Wrong type",
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason.as_str())?;
        match &self.reason {
            FieldReason::Invalid(value)
            | FieldReason::NotSupported(value)
            | FieldReason::Duplicate(value)
            | FieldReason::NotFound(value) => write!(f, ": {value:?}")?,
            FieldReason::TooMany(count) => write!(f, ": {count}")?,
            FieldReason::Type(found) => write!(f, ": found {found}")?,
            FieldReason::Required | FieldReason::Forbidden | FieldReason::TooLong => {}
        }
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

/// Something that does not stop the pod but is hardly meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The field that has no meaning.
    pub path: String,
    /// The valid name that was probably meant.
    pub nearest: Option<String>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: unknown field, ignored", self.path)?;
        match &self.nearest {
            Some(name) => write!(f, "; did you mean {name:?}?"),
            None => Ok(()),
        }
    }
}

/// A place in the manifest, grown step by step on the way down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    pub(super) fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    pub(super) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    pub(super) fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    pub(super) fn error(&self, reason: FieldReason, detail: impl Into<String>) -> FieldError {
        FieldError { path: self.0.clone(), reason, detail: detail.into() }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}
