//! How the agent logs: the `logging` object, shared by upstream's components.
//!
//! upstream: component-base/logs/api/v1/types.go (v1.36).

use std::fmt;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use super::choices::LogFormat;
use super::duration::GoDuration;

/// How the agent logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[doc(alias = "LoggingConfiguration")]
pub struct Logging {
    /// How lines are written.
    pub format: LogFormat,
    /// Longest time a line may stay in a buffer.
    pub flush_frequency: FlushFrequency,
    /// How much is logged: 0 is least; see `-v`.
    pub verbosity: u32,
    /// Verbosity of single source files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vmodule: Vec<VModule>,
    /// Settings of single formats.
    pub options: FormatOptions,
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            flush_frequency: FlushFrequency::Text(GoDuration::secs(5)),
            verbosity: 0,
            vmodule: Vec::new(),
            options: FormatOptions::default(),
        }
    }
}

/// A duration that old files write as a number of nanoseconds. It is written back the way it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "TimeOrMetaDuration")]
pub enum FlushFrequency {
    /// Written like `5s`.
    Text(GoDuration),
    /// Written as nanoseconds.
    Nanos(GoDuration),
}

impl FlushFrequency {
    /// The duration, however it was written.
    #[must_use]
    pub const fn get(self) -> GoDuration {
        match self {
            Self::Text(duration) | Self::Nanos(duration) => duration,
        }
    }
}

impl Serialize for FlushFrequency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(duration) => duration.serialize(serializer),
            Self::Nanos(duration) => serializer.serialize_i64(duration.as_nanos()),
        }
    }
}

impl<'de> Deserialize<'de> for FlushFrequency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl de::Visitor<'_> for Either {
            type Value = FlushFrequency;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration like 5s, or nanoseconds")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<FlushFrequency, E> {
                text.parse().map(FlushFrequency::Text).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<FlushFrequency, E> {
                Ok(FlushFrequency::Nanos(GoDuration::nanos(nanos)))
            }

            fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<FlushFrequency, E> {
                i64::try_from(nanos).map_or_else(|_| Err(E::custom("duration is too long")), |n| self.visit_i64(n))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Verbosity of the source files whose name matches a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[doc(alias = "VModuleItem")]
pub struct VModule {
    /// File name without its ending; `*` and `?` match as in a shell.
    pub file_pattern: String,
    /// The verbosity of these files.
    pub verbosity: u32,
}

/// Settings of single formats, all of them behind the gate `LoggingAlphaOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct FormatOptions {
    /// For `text`.
    pub text: OutputRouting,
    /// For `json`.
    pub json: OutputRouting,
}

/// Where lines of one format go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[doc(alias = "OutputRoutingOptions")]
pub struct OutputRouting {
    /// Info to stdout and errors to stderr, instead of all to one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub split_stream: bool,
    /// Buffer for info lines, as a quantity of bytes.
    #[serde(deserialize_with = "quantity_text")]
    pub info_buffer_size: String,
}

impl Default for OutputRouting {
    fn default() -> Self {
        Self { split_stream: false, info_buffer_size: "0".to_owned() }
    }
}

/// A size that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity; write bytes like 512, 1k or 2Ki")]
pub struct SizeError(String);

/// Reads a buffer's size; empty means none.
///
/// # Errors
/// [`SizeError`] if the text is no quantity.
pub fn parse_buffer_size(text: &str) -> Result<String, SizeError> {
    match text {
        "" => Ok("0".to_owned()),
        _ if super::quantity::sign(text).is_some() => Ok(text.to_owned()),
        _ => Err(SizeError(text.to_owned())),
    }
}

/// A quantity, which a file may also write as a bare number. Empty means zero.
fn quantity_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Text;
    impl de::Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a quantity like 512 or 2Ki")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
            parse_buffer_size(text).map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }
    deserializer.deserialize_any(Text)
}
