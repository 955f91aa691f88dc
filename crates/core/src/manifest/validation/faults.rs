//! Collecting what is wrong, one line per rule.

use crate::manifest::field::{FieldError, FieldReason, Path};

/// All faults found so far, in the order of the fields.
#[derive(Default)]
pub(super) struct Faults(Vec<FieldError>);

impl Faults {
    pub(super) fn into_list(self) -> Vec<FieldError> {
        self.0
    }

    /// Whether nothing was found since there were `before` faults.
    pub(super) fn none_since(&self, before: usize) -> bool {
        self.0.len() == before
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn required(&mut self, at: &Path, detail: &str) {
        self.0.push(at.error(FieldReason::Required, detail));
    }

    pub(super) fn invalid(&mut self, at: &Path, value: impl ToString, detail: impl Into<String>) {
        self.0.push(at.error(FieldReason::Invalid(value.to_string()), detail));
    }

    pub(super) fn forbidden(&mut self, at: &Path, detail: &str) {
        self.0.push(at.error(FieldReason::Forbidden, detail));
    }

    pub(super) fn duplicate(&mut self, at: &Path, value: impl ToString) {
        self.0.push(at.error(FieldReason::Duplicate(value.to_string()), ""));
    }

    pub(super) fn not_found(&mut self, at: &Path, value: &str) {
        self.0.push(at.error(FieldReason::NotFound(value.to_owned()), ""));
    }

    pub(super) fn too_long(&mut self, at: &Path, max: usize) {
        self.0.push(at.error(FieldReason::TooLong, format!("at most {max} bytes are allowed")));
    }

    pub(super) fn too_many(&mut self, at: &Path, count: usize, max: usize) {
        self.0.push(at.error(FieldReason::TooMany(count), format!("at most {max} are allowed")));
    }

    pub(super) fn unsupported(&mut self, at: &Path, value: &str, known: &[&str]) {
        let detail = format!("must be one of {}", known.join(", "));
        self.0.push(at.error(FieldReason::NotSupported(value.to_owned()), detail));
    }

    /// A value that must be given and be one of the known ones.
    pub(super) fn choice(&mut self, at: &Path, value: &str, known: &[&str]) {
        if value.is_empty() {
            self.required(at, &format!("one of {}", known.join(", ")));
        } else {
            self.one_of(at, value, known);
        }
    }

    pub(super) fn one_of(&mut self, at: &Path, value: &str, known: &[&str]) {
        if !known.contains(&value) {
            self.unsupported(at, value, known);
        }
    }

    /// A value with a rule of its own.
    pub(super) fn rule(&mut self, at: &Path, value: &str, verdict: Result<(), &str>) {
        if let Err(detail) = verdict {
            self.invalid(at, value, detail);
        }
    }

    /// A value that must be given, with a rule of its own.
    pub(super) fn required_rule(&mut self, at: &Path, value: &str, rule: fn(&str) -> Result<(), &'static str>) {
        if value.is_empty() {
            self.required(at, "");
        } else {
            self.rule(at, value, rule(value));
        }
    }

    pub(super) fn required_text(&mut self, at: &Path, value: &str) {
        if value.is_empty() {
            self.required(at, "");
        }
    }

    pub(super) fn range(&mut self, at: &Path, value: i64, min: i64, max: i64) {
        if !(min..=max).contains(&value) {
            self.invalid(at, value, format!("must be between {min} and {max}"));
        }
    }

    pub(super) fn not_negative(&mut self, at: &Path, value: i64) {
        if value < 0 {
            self.invalid(at, value, "must not be negative");
        }
    }
}
