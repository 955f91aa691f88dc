//! Decodes a tree with places into a value, and reports each problem with its place.
//!
//! Null means "not set", as upstream: the field keeps its default. An unknown field is ignored and reported beside the
//! value.

use std::cell::RefCell;
use std::fmt;
use std::path::Path;

use rubelet_core::config::nearest;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::tree::{Content, Key, Node, Place};

/// One problem in a file: its place, the field, and what would be valid.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Problem {
    place: Option<Place>,
    field: String,
    message: String,
}

impl Problem {
    pub(super) fn new(place: Option<Place>, field: String, message: String) -> Self {
        Self { place, field, message }
    }

    /// Where it is.
    pub(super) fn place(&self) -> Option<Place> {
        self.place
    }

    /// Sorts problems as the file has them.
    pub(super) fn order(&self) -> Option<(u64, u64)> {
        self.place.map(|place| (place.line, place.column))
    }

    /// The field and the message.
    pub(super) fn without_place(&self) -> String {
        Self { place: None, ..self.clone() }.to_string().trim_start().to_owned()
    }

    /// The dotted path of the field.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Inside `key`: the place and the path grow from the inside out.
    pub(super) fn inside(mut self, place: Place, key: &str) -> Self {
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
        let message = match nearest(&shortened(field), expected.iter().copied()) {
            Some(name) => format!("unknown field; did you mean {name}?"),
            None if expected.len() <= 12 => format!("unknown field; there are {}", expected.join(", ")),
            None => "unknown field".to_owned(),
        };
        Self { place: None, field: shortened(field), message }
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format_args!("must be {}, not {}", plain(&expected.to_string()), shown(found)))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::custom(format_args!("{} is out of range; must be {}", shown(found), plain(&expected.to_string())))
    }
}

/// serde's name of a type as readable text.
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

/// How many problems of one file are shown: readers fix the first ones, and a hostile file can have any number.
const MAX_SHOWN: usize = 50;
/// How many characters of a name are shown and compared with known names.
const MAX_NAME: usize = 100;

fn shortened(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
    }
}

/// Problems that a strict decoder would refuse and this one ignores: unknown fields and duplicate keys.
#[derive(Debug, Default)]
pub(super) struct Tolerated {
    problems: Vec<Problem>,
    more: usize,
}

impl Tolerated {
    /// Adds one; `problem` is made only if it will be shown.
    pub(super) fn add(&mut self, problem: impl FnOnce() -> Problem) {
        if self.problems.len() < MAX_SHOWN { self.problems.push(problem()) } else { self.more += 1 }
    }

    pub(super) fn len(&self) -> usize {
        self.problems.len()
    }

    /// Puts `key` before the paths of all problems from index `from` on.
    pub(super) fn place_inside(&mut self, from: usize, place: Place, key: &str) {
        for problem in self.problems.iter_mut().skip(from) {
            *problem = std::mem::take(problem).inside(place, key);
        }
    }

    /// Those that were kept, each once.
    pub(super) fn take(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// A line for each, in the order of the file.
    pub(super) fn lines(mut self, path: &Path) -> Vec<String> {
        self.problems.sort_by_key(Problem::order);
        let mut lines: Vec<String> =
            self.problems.iter().map(|problem| format!("{}:{problem}", path.display())).collect();
        if self.more > 0 {
            lines.push(format!("{}: and {} more unknown or duplicate fields", path.display(), self.more));
        }
        lines
    }
}

/// Decodes a value. Ignored problems are added to `tolerated`.
pub(super) fn decode<T: DeserializeOwned>(tree: &Node, tolerated: &mut Tolerated) -> Result<T, Problem> {
    let found = RefCell::new(std::mem::take(tolerated));
    let value = T::deserialize(Decoder { node: tree, found: &found });
    *tolerated = found.into_inner();
    value
}

/// A node that is being decoded.
#[derive(Clone, Copy)]
struct Decoder<'de> {
    node: &'de Node,
    found: &'de RefCell<Tolerated>,
}

impl<'de> Decoder<'de> {
    /// Decodes the value under a key, and puts that key before the paths of its problems.
    fn inner<S: DeserializeSeed<'de>>(self, key: &str, seed: S) -> Result<S::Value, Problem> {
        let before = self.found.borrow().len();
        let value = seed.deserialize(self);
        self.found.borrow_mut().place_inside(before, self.node.place, key);
        value.map_err(|problem| problem.inside(self.node.place, key))
    }
}

impl<'de> de::Deserializer<'de> for Decoder<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        let found = self.found;
        match &self.node.content {
            Content::Null => visitor.visit_unit(),
            Content::Bool(value) => visitor.visit_bool(*value),
            Content::Int(value) => visitor.visit_i64(*value),
            Content::Unsigned(value) => visitor.visit_u64(*value),
            Content::Float(value) => visitor.visit_f64(*value),
            Content::Huge(digits) => {
                let shown = format!("the number {digits}");
                Err(de::Error::invalid_value(de::Unexpected::Other(&shown), &visitor))
            }
            Content::Text(text) => visitor.visit_borrowed_str(text),
            Content::List(nodes) => visitor.visit_seq(Items { nodes: nodes.iter(), at: 0, found }),
            Content::Map(entries) => visitor.visit_map(Entries { entries, value: None, fields: None, found }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.node.content {
            Content::Null => visitor.visit_none(),
            Content::Bool(_)
            | Content::Int(_)
            | Content::Unsigned(_)
            | Content::Float(_)
            | Content::Huge(_)
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
        let Content::Map(entries) = &self.node.content else {
            return Err(de::Error::custom(format_args!("must be an object, not {}", self.node.content.kind())));
        };
        let found = self.found;
        for (key, _) in entries.iter().filter(|(key, _)| !fields.contains(&key.name.as_str())) {
            found.borrow_mut().add(|| {
                let problem: Problem = de::Error::unknown_field(&key.name, fields);
                Problem { place: Some(key.place), ..problem }
            });
        }
        visitor.visit_map(Entries { entries, value: None, fields: Some(fields), found })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

struct Items<'de> {
    nodes: std::slice::Iter<'de, Node>,
    at: usize,
    found: &'de RefCell<Tolerated>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Problem;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Problem> {
        let Some(node) = self.nodes.next() else { return Ok(None) };
        let key = format!("[{}]", self.at);
        self.at += 1;
        Decoder { node, found: self.found }.inner(&key, seed).map(Some)
    }
}

struct Entries<'de> {
    entries: &'de [(Key, Node)],
    value: Option<(&'de Key, &'de Node)>,
    /// The names that exist, where only some do. Of an object with such names, entries without a value are not set.
    fields: Option<&'static [&'static str]>,
    found: &'de RefCell<Tolerated>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Problem;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Problem> {
        let counts = |(key, node): &(Key, Node)| match self.fields {
            Some(fields) => fields.contains(&key.name.as_str()) && !matches!(node.content, Content::Null),
            None => true,
        };
        let Some(at) = self.entries.iter().position(counts) else { return Ok(None) };
        let (_, rest) = self.entries.split_at(at);
        let Some(((key, node), rest)) = rest.split_first() else { return Ok(None) };
        self.entries = rest;
        self.value = Some((key, node));
        let name: StrDeserializer<'_, Problem> = key.name.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|problem| Problem { place: Some(key.place), ..problem })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Problem> {
        let (key, node) = self.value.take().ok_or_else(|| <Problem as de::Error>::custom("value before key"))?;
        Decoder { node, found: self.found }.inner(&key.name, seed)
    }
}
