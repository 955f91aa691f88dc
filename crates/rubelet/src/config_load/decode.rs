//! From a tree with places to a value, with every problem at its place.
//!
//! Null means "not set", as it does to upstream: the field keeps its default.

use std::fmt;

use rubelet_core::config::nearest;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::tree::{Content, Key, Node, Place};

/// One thing that is wrong in a file: where, in which field, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    place: Option<Place>,
    field: String,
    message: String,
    unknown: bool,
}

impl Problem {
    pub(super) fn new(place: Option<Place>, field: String, message: String) -> Self {
        Self { place, field, message, unknown: false }
    }

    /// The dotted path of the field.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Inside `key`: the place and the path grow from the inside out.
    fn inside(mut self, place: Place, key: &str) -> Self {
        self.place.get_or_insert(place);
        self.field = match self.field.as_str() {
            "" => key.to_owned(),
            inner if inner.starts_with('[') => format!("{key}{inner}"),
            inner => format!("{key}.{inner}"),
        };
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{}:{}: ", place.line, place.column)?;
        } else {
            f.write_str(" ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl de::Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(None, String::new(), message.to_string())
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let message = match nearest(field, expected.iter().copied()) {
            Some(name) => format!("unknown field; did you mean {name}?"),
            None if expected.len() <= 12 => format!("unknown field; there are {}", expected.join(", ")),
            None => "unknown field".to_owned(),
        };
        Self { place: None, field: field.to_owned(), message, unknown: true }
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format_args!("must be {}, not {}", plain(&expected.to_string()), shown(found)))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format_args!("{} is out of range; must be {}", shown(found), plain(&expected.to_string())))
    }
}

/// What serde calls a type, in words for people.
fn plain(expected: &str) -> String {
    match expected {
        "i32" => format!("a whole number between {} and {}", i32::MIN, i32::MAX),
        "u32" => format!("a whole number between 0 and {}", u32::MAX),
        "i64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        other => other.to_owned(),
    }
}

fn shown(found: de::Unexpected<'_>) -> String {
    match found {
        de::Unexpected::Bool(value) => value.to_string(),
        de::Unexpected::Signed(number) => format!("the number {number}"),
        de::Unexpected::Unsigned(number) => format!("the number {number}"),
        de::Unexpected::Float(number) => format!("the number {number}"),
        de::Unexpected::Str(text) => format!("the text {text:?}"),
        de::Unexpected::Unit => "nothing".to_owned(),
        de::Unexpected::Seq => "a list".to_owned(),
        de::Unexpected::Map => "an object".to_owned(),
        other => other.to_string(),
    }
}

/// Reads a value. Unknown fields do not stop it, so that all of them are reported at once.
pub(super) fn decode<T: DeserializeOwned>(mut tree: Node) -> Result<T, Vec<Problem>> {
    let mut problems = Vec::new();
    loop {
        match T::deserialize(&tree) {
            Ok(value) if problems.is_empty() => return Ok(value),
            Ok(_) => break,
            Err(problem) => {
                let next = problem.place.filter(|_| problem.unknown);
                problems.push(problem);
                match next {
                    // Each round removes one entry of the tree, so this ends.
                    Some(place) => tree.prune(place),
                    None => break,
                }
            }
        }
    }
    problems.sort_by_key(|problem| problem.place.map(|place| (place.line, place.column)));
    Err(problems)
}

impl<'de> de::Deserializer<'de> for &'de Node {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match &self.content {
            Content::Null => visitor.visit_unit(),
            Content::Bool(value) => visitor.visit_bool(*value),
            Content::Int(value) => visitor.visit_i64(*value),
            Content::Unsigned(value) => visitor.visit_u64(*value),
            Content::Float(value) => visitor.visit_f64(*value),
            Content::Text(text) => visitor.visit_borrowed_str(text),
            Content::List(nodes) => visitor.visit_seq(Items { nodes: nodes.iter(), at: 0 }),
            Content::Map(entries) => visitor.visit_map(Entries { entries, value: None, skip_null: false }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.content {
            Content::Null => visitor.visit_none(),
            Content::Bool(_)
            | Content::Int(_)
            | Content::Unsigned(_)
            | Content::Float(_)
            | Content::Text(_)
            | Content::List(_)
            | Content::Map(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        // Entries without a value are passed over below; a misspelled one is no less wrong for being empty.
        if let Content::Map(entries) = &self.content
            && let Some((key, _)) = entries.iter().find(|(key, _)| !fields.contains(&key.name.as_str()))
        {
            let problem: Problem = de::Error::unknown_field(&key.name, fields);
            return Err(Problem { place: Some(key.place), ..problem });
        }
        match &self.content {
            Content::Map(entries) => visitor.visit_map(Entries { entries, value: None, skip_null: true }),
            other => Err(de::Error::custom(format_args!("must be an object, not {}", other.kind()))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

struct Items<'de> {
    nodes: std::slice::Iter<'de, Node>,
    at: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Problem;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Problem> {
        let Some(node) = self.nodes.next() else { return Ok(None) };
        let key = format!("[{}]", self.at);
        self.at += 1;
        seed.deserialize(node).map(Some).map_err(|problem| problem.inside(node.place, &key))
    }
}

struct Entries<'de> {
    entries: &'de [(Key, Node)],
    value: Option<(&'de Key, &'de Node)>,
    skip_null: bool,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Problem;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Problem> {
        let unset = |node: &Node| self.skip_null && matches!(node.content, Content::Null);
        let Some(at) = self.entries.iter().position(|(_, node)| !unset(node)) else { return Ok(None) };
        let (_, rest) = self.entries.split_at(at);
        let Some(((key, node), rest)) = rest.split_first() else { return Ok(None) };
        self.entries = rest;
        self.value = Some((key, node));
        let name: StrDeserializer<'_, Problem> = key.name.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|problem| Problem { place: Some(key.place), ..problem })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Problem> {
        let (key, node) = self.value.take().ok_or_else(|| <Problem as de::Error>::custom("value before key"))?;
        seed.deserialize(node).map_err(|problem| problem.inside(node.place, &key.name))
    }
}
