//! The types that a pod is made of, from the table that core reads manifests by: the places of a document that have a type,
//! and values for any of them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::words;
use crate::rng::Rng;

const TABLE: &str = include_str!("../../../../crates/core/src/manifest/go_schema.txt");
/// The type of a whole pod.
pub const POD: &str = "core.Pod";
/// How deep a value may be that is put into a document.
const DEPTH: usize = 4;

static TYPES: LazyLock<BTreeMap<&'static str, &'static str>> = LazyLock::new(|| {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' ')).collect()
});

/// The fields of every struct, those of embedded ones included: name in JSON, type.
static FIELDS: LazyLock<BTreeMap<&'static str, Vec<Field>>> =
    LazyLock::new(|| TYPES.keys().map(|name| (*name, open(name))).collect());

type Field = (&'static str, &'static str);

/// A place in a document.
#[derive(Clone, Debug)]
pub struct Place {
    /// The way to it: a JSON pointer.
    pub pointer: String,
    /// The field that it is, or is an item of.
    pub name: String,
    /// Its type.
    pub ty: &'static str,
}

/// The fields of a struct. Empty for everything else.
pub fn fields(ty: &str) -> &'static [Field] {
    FIELDS.get(ty).map(Vec::as_slice).unwrap_or_default()
}

fn open(ty: &str) -> Vec<Field> {
    let Some(body) = TYPES.get(ty).and_then(|body| body.strip_prefix('{')) else { return Vec::new() };
    let mut all = Vec::new();
    for field in body.trim_end_matches('}').split("; ") {
        let mut words = field.split(' ').skip(1);
        let (Some(json), Some(ty)) = (words.next(), words.next()) else { continue };
        match json {
            "+" => all.extend(open(ty)),
            _ if json.starts_with('^') => {}
            _ => all.push((json, ty.trim_end_matches('!'))),
        }
    }
    all
}

/// Every place of a document of that type which the type knows of.
pub fn places(ty: &'static str, document: &Value) -> Vec<Place> {
    let mut found = Vec::new();
    walk(Place { pointer: String::new(), name: String::new(), ty }, document, &mut found);
    found
}

fn walk(place: Place, value: &Value, found: &mut Vec<Place>) {
    let ty = place.ty.trim_start_matches('*');
    let ty = TYPES.get(ty).copied().filter(|body| body.starts_with("map[")).unwrap_or(ty);
    let inner = |step: &str, name: &str, ty| Place {
        pointer: format!("{}/{}", place.pointer, step.replace('~', "~0").replace('/', "~1")),
        name: name.to_owned(),
        ty,
    };
    match value {
        Value::Array(items) => {
            if let Some(of) = ty.strip_prefix("[]") {
                for (index, item) in items.iter().enumerate() {
                    walk(inner(&index.to_string(), &place.name, of), item, found);
                }
            }
        }
        Value::Object(object) => {
            let of = ty.strip_prefix("map[").and_then(|rest| rest.split_once(']')).map(|(_, of)| of);
            let known = fields(ty);
            for (name, value) in object {
                let ty = of.or_else(|| known.iter().find(|(known, _)| known == name).map(|(_, ty)| *ty));
                if let Some(ty) = ty {
                    walk(inner(name, name, ty), value, found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found.push(Place { ty, ..place });
}

/// Some value of a type, which may or may not be valid where it is put.
pub fn value(rng: &mut Rng, ty: &str, name: &str) -> Value {
    deep_value(rng, ty, name, DEPTH)
}

fn deep_value(rng: &mut Rng, ty: &str, name: &str, depth: usize) -> Value {
    if let Some(inner) = ty.strip_prefix('*') {
        return deep_value(rng, inner, name, depth);
    }
    if let Some(inner) = ty.strip_prefix("[]") {
        let count = if depth == 0 { 0 } else { rng.weighted(&[(1, 0), (6, 1), (3, 2)]) };
        return (0..count).map(|_| deep_value(rng, inner, name, depth - 1)).collect();
    }
    if let Some((key, inner)) = ty.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        let mut map = Map::new();
        for _ in 0..rng.weighted(&[(1, 0), (6, 1), (3, 2)]) {
            let key = words::text(rng, key, &format!("{name} key"));
            map.insert(key, deep_value(rng, inner, name, depth.saturating_sub(1)));
        }
        return Value::Object(map);
    }
    match ty {
        "bool" => rng.chance(70).into(),
        "int32" | "int64" => words::number(rng, name).into(),
        "intstr.IntOrString" if rng.chance(60) => words::number(rng, name).into(),
        "resource.Quantity" => words::quantity(rng),
        _ => match TYPES.get(ty) {
            Some(&"raw") => json!({ "f:x": {} }),
            Some(body) if body.starts_with('{') => structure(rng, ty, depth),
            Some(body) if body.starts_with("map[") => deep_value(rng, body, name, depth),
            Some(_) | None => words::text(rng, ty, name).into(),
        },
    }
}

fn structure(rng: &mut Rng, ty: &str, depth: usize) -> Value {
    let mut object = Map::new();
    let all = fields(ty);
    if depth == 0 || all.is_empty() {
        return Value::Object(object);
    }
    for (name, ty) in all {
        if words::NEEDED.contains(name) && rng.chance(85) {
            object.insert((*name).to_owned(), deep_value(rng, ty, name, depth - 1));
        }
    }
    for _ in 0..rng.weighted(&[(2, 0), (5, 1), (3, 2), (1, 4)]) {
        let (name, ty) = rng.pick(all);
        object.insert((*name).to_owned(), deep_value(rng, ty, name, depth - 1));
    }
    Value::Object(object)
}
