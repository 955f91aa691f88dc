//! A YAML or JSON document as a tree with the place of each value.

use std::collections::HashMap;
use std::fmt;

use rubelet_core::config::Given;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess};
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Location, MessageFormatter as _, Options, Spanned, UserMessageFormatter};

use super::decode::{Problem, Tolerated};

/// Deepest nesting. The format itself has six levels.
const MAX_DEPTH: usize = 32;
/// Most values, counting those that aliases repeat: the largest configurations have some hundreds.
const MAX_VALUES: usize = 50_000;
/// Most anchors, and most aliases.
const MAX_ALIASES: usize = 1_000;

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_VALUES,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_merge_keys: MAX_ALIASES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_VALUES,
        },
        // They are found below, with their places.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
    }
}

/// The message of the parser, in plain words where a limit is exceeded.
fn message(error: &serde_saphyr::Error) -> String {
    let error = error.without_snippet();
    let more = |limit: usize, what: &str| format!("has more than {limit} {what}: it is no KubeletConfiguration");
    match error {
        serde_saphyr::Error::Budget { breach, .. } => match breach {
            BudgetBreach::Depth { .. } => format!("is nested deeper than {MAX_DEPTH} levels"),
            BudgetBreach::Nodes { .. } => more(MAX_VALUES, "values"),
            BudgetBreach::Aliases { .. } => more(MAX_ALIASES, "aliases"),
            BudgetBreach::Anchors { .. } => more(MAX_ALIASES, "anchors"),
            BudgetBreach::MergeKeys { .. } => more(MAX_ALIASES, "merge keys"),
            _ => "is too large or too complex: it is no KubeletConfiguration".to_owned(),
        },
        other => UserMessageFormatter.format_message(other).into_owned(),
    }
}

/// Line and column, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Null,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    /// A whole number that no integer holds, as it is written.
    Huge(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) place: Place,
    pub(super) name: String,
}

impl Node {
    /// Parses a document. The last of duplicate keys takes effect, and the others are added to `tolerated`.
    pub(super) fn parse(text: &str, tolerated: &mut Tolerated) -> Result<Self, Problem> {
        let mut tree: Self = serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
            let place = error.location().map(Place::from);
            Problem::new(place, String::new(), message(&error))
        })?;
        tree.find_huge(&text.lines().collect::<Vec<_>>());
        tree.drop_duplicates(tolerated);
        Ok(tree)
    }

    /// Whole numbers that no integer holds were read as fractions, which lost their last digits: they are read again from
    /// the source.
    fn find_huge(&mut self, lines: &[&str]) {
        match &mut self.content {
            Content::Float(_) => {
                let index = usize::try_from(self.place.line).unwrap_or_default().checked_sub(1);
                let column = usize::try_from(self.place.column).unwrap_or_default().saturating_sub(1);
                let source: String = index.and_then(|index| lines.get(index)).map_or_else(String::new, |line| {
                    line.chars().skip(column).take_while(|c| !matches!(c, ',' | '}' | ']' | '#' | ' ')).collect()
                });
                let digits = source.strip_prefix(['-', '+']).unwrap_or(&source);
                if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
                    self.content = Content::Huge(source);
                }
            }
            Content::List(nodes) => nodes.iter_mut().for_each(|node| node.find_huge(lines)),
            Content::Map(entries) => entries.iter_mut().for_each(|(_, node)| node.find_huge(lines)),
            Content::Null
            | Content::Bool(_)
            | Content::Int(_)
            | Content::Unsigned(_)
            | Content::Huge(_)
            | Content::Text(_) => {}
        }
    }

    fn drop_duplicates(&mut self, tolerated: &mut Tolerated) {
        match &mut self.content {
            Content::Map(entries) => {
                let mut last: HashMap<String, Place> = HashMap::new();
                for (key, _) in entries.iter() {
                    if let Some(before) = last.insert(key.name.clone(), key.place) {
                        tolerated.add(|| {
                            let message = format!("is a duplicate key; the value of line {} is ignored", before.line);
                            Problem::new(Some(key.place), key.name.clone(), message)
                        });
                    }
                }
                entries.retain(|(key, _)| last.get(&key.name) == Some(&key.place));
                for (key, node) in entries {
                    let before = tolerated.len();
                    node.drop_duplicates(tolerated);
                    tolerated.place_inside(before, node.place, &key.name);
                }
            }
            Content::List(nodes) => {
                for (at, node) in nodes.iter_mut().enumerate() {
                    let before = tolerated.len();
                    node.drop_duplicates(tolerated);
                    tolerated.place_inside(before, node.place, &format!("[{at}]"));
                }
            }
            Content::Null
            | Content::Bool(_)
            | Content::Int(_)
            | Content::Unsigned(_)
            | Content::Float(_)
            | Content::Huge(_)
            | Content::Text(_) => {}
        }
    }

    /// The same as `to_json` gave, without places.
    pub(super) fn from_json(value: Value) -> Self {
        let content = match value {
            Value::Null => Content::Null,
            Value::Bool(value) => Content::Bool(value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Content::Int(value),
                (None, Some(value)) => Content::Unsigned(value),
                (None, None) => Content::Float(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Content::Text(text),
            Value::Array(list) => Content::List(list.into_iter().map(Self::from_json).collect()),
            Value::Object(object) => {
                let key = |name| Key { place: Place::default(), name };
                Content::Map(object.into_iter().map(|(name, value)| (key(name), Self::from_json(value))).collect())
            }
        };
        Self { place: Place::default(), content }
    }

    /// The problem if the field does not hold exactly this text.
    pub(super) fn expect_text(&self, key: &str, expected: &str) -> Option<Problem> {
        let Content::Map(entries) = &self.content else {
            let message = format!("must be an object with apiVersion, kind and fields, not {}", self.content.kind());
            return (key == "apiVersion").then(|| Problem::new(Some(self.place), String::new(), message));
        };
        match entries.iter().find(|(found, _)| found.name == key).map(|(_, node)| node) {
            Some(Node { content: Content::Text(text), .. }) if text == expected => None,
            Some(node) => {
                let message = format!("must be {expected}, not {}", node.content.shown());
                Some(Problem::new(Some(node.place), key.to_owned(), message))
            }
            None => {
                Some(Problem::new(Some(self.place), key.to_owned(), format!("is missing; write {key}: {expected}")))
            }
        }
    }

    /// The dotted paths of all fields that are set. Null, empty text and `0s` mean "not set" in this format.
    pub(super) fn given(&self) -> Given {
        self.places().into_iter().map(|(path, _)| path).collect()
    }

    /// The same with their places.
    pub(super) fn places(&self) -> Vec<(String, Place)> {
        let mut given = Vec::new();
        self.collect(String::new(), &mut given);
        given
    }

    /// Removes the values and keys at this place; whether there was one.
    pub(super) fn remove(&mut self, place: Place) -> bool {
        match &mut self.content {
            Content::Map(entries) => {
                let before = entries.len();
                entries.retain(|(key, node)| key.place != place && node.place != place);
                let removed = entries.len() < before;
                entries.iter_mut().fold(removed, |found, (_, node)| node.remove(place) || found)
            }
            Content::List(nodes) => {
                let before = nodes.len();
                nodes.retain(|node| node.place != place);
                let removed = nodes.len() < before;
                nodes.iter_mut().fold(removed, |found, node| node.remove(place) || found)
            }
            Content::Null
            | Content::Bool(_)
            | Content::Int(_)
            | Content::Unsigned(_)
            | Content::Float(_)
            | Content::Huge(_)
            | Content::Text(_) => false,
        }
    }

    fn collect(&self, path: String, given: &mut Vec<(String, Place)>) {
        match &self.content {
            Content::Map(entries) if !entries.is_empty() => {
                for (key, node) in entries {
                    let path = if path.is_empty() { key.name.clone() } else { format!("{path}.{}", key.name) };
                    node.collect(path, given);
                }
            }
            Content::Null => {}
            Content::Text(text) if matches!(text.as_str(), "" | "0s") => {}
            Content::Bool(_)
            | Content::Int(_)
            | Content::Unsigned(_)
            | Content::Float(_)
            | Content::Huge(_)
            | Content::Text(_)
            | Content::List(_)
            | Content::Map(_) => given.push((path, self.place)),
        }
    }

    /// The same as JSON, without places.
    pub(super) fn to_json(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(value) => Value::Bool(*value),
            Content::Int(value) => (*value).into(),
            Content::Unsigned(value) => (*value).into(),
            Content::Float(value) => (*value).into(),
            Content::Huge(digits) => digits.parse::<f64>().unwrap_or_default().into(),
            Content::Text(text) => Value::String(text.clone()),
            Content::List(nodes) => nodes.iter().map(Self::to_json).collect(),
            Content::Map(entries) => {
                Value::Object(entries.iter().map(|(key, node)| (key.name.clone(), node.to_json())).collect())
            }
        }
    }
}

impl Content {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Int(_) | Self::Unsigned(_) | Self::Huge(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(text) => format!("{text:?}"),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Unsigned(_)
            | Self::Float(_)
            | Self::Huge(_)
            | Self::List(_)
            | Self::Map(_) => self.kind().to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self { place: spanned.referenced.into(), content: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> de::Visitor<'de> for Anything {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Int(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Content, E> {
        Ok(i64::try_from(value).map_or(Content::Unsigned(value), Content::Int))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Content, E> {
        Ok(Content::Float(value))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = items.next_element()? {
            nodes.push(node);
        }
        Ok(Content::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, node)) = items.next_entry::<Spanned<String>, Node>()? {
            entries.push((Key { place: key.referenced.into(), name: key.value }, node));
        }
        Ok(Content::Map(entries))
    }
}
