//! The pod's text in upstream's hash: its internal Go value, printed with types, in declaration order.
//!
//! The UID of a static pod is a hash of this text, and the UID names cgroups, directories and mirror pods. So that a node
//! can change from upstream's kubelet to this one and back, the text must be the same to the byte.
//! upstream: util/hash/hash.go DeepHashObject, k8s.io/utils/dump ForHash (v1.36)

use std::fmt;

use serde_json::{Map, Value};

use super::defaults::Derived;
use super::quantity::{MILLI, Quantity};
use super::schema::{Field, Json, POD, RESOURCE_LIST, Schema, Type};

/// Seconds between Go's epoch, the year 1, and Unix's.
const GO_EPOCH: i64 = 62_135_596_800;
/// Upstream prints the node's time zone with each time; this is UTC as read from a zone file. Manifests seldom hold a
/// time, and where one does, upstream's own UID changes with the node's zone.
const UTC_ZONE: &str = "(*time.Location){name:(string)Local \
     zone:([]time.zone)[{name:(string)UTC offset:(int)0 isDST:(bool)false}] \
     tx:([]time.zoneTrans)[{when:(int64)-9223372036854775808 index:(uint8)0 isstd:(bool)false isutc:(bool)false}] \
     extend:(string)UTC0 cacheStart:(int64)-9223372036854775808 cacheEnd:(int64)9223372036854775807 \
     cacheZone:(*time.zone){name:(string)UTC offset:(int)0 isDST:(bool)false}}";

/// Prints a defaulted v1 pod as the internal pod that upstream would hold.
pub(super) fn dump(schema: &Schema, pod: &Value, derived: &Derived, out: &mut impl fmt::Write) -> fmt::Result {
    let mut printer = Printer { schema, derived, place: Vec::new(), depth: 0, zone_shown: None, out };
    let empty = Map::new();
    let pod = pod.as_object().unwrap_or(&empty);
    // The decoder empties kind and apiVersion of internal objects.
    let mut bare = pod.clone();
    bare.retain(|name, _| name != "kind" && name != "apiVersion");
    write!(printer.out, "(*{POD})")?;
    printer.embedded(POD, &bare, &empty)
}

struct Printer<'a, W> {
    schema: &'a Schema,
    derived: &'a Derived,
    /// JSON names on the way to the value being printed.
    place: Vec<String>,
    /// How many structs, lists and maps are open.
    depth: usize,
    /// The depth at which the time zone was printed last. All times share one zone, and below a pointer that was printed
    /// already upstream's printer takes a second look at it for a cycle. It forgets when it meets a pointer further up.
    zone_shown: Option<usize>,
    out: &'a mut W,
}

impl<W: fmt::Write> Printer<'_, W> {
    fn fields(&mut self, fields: &[Field], object: &Map<String, Value>, parent: &Map<String, Value>) -> fmt::Result {
        self.depth += 1;
        let mut separator = "{";
        for field in fields {
            let Some(go) = field.go else { continue };
            write!(self.out, "{separator}{go}:({})", field.ty)?;
            separator = " ";
            match field.json {
                Json::Embedded => self.embedded(field.ty, object, parent)?,
                Json::Parent(name) => self.value(field.ty, parent.get(name), object)?,
                Json::Name(name) => {
                    self.place.push(name.to_owned());
                    self.value(field.ty, object.get(name), object)?;
                    self.place.pop();
                }
            }
        }
        self.depth -= 1;
        self.out.write_str("}")
    }

    fn embedded(&mut self, go: &'static str, object: &Map<String, Value>, parent: &Map<String, Value>) -> fmt::Result {
        let Type::Struct(known) = self.schema.resolve(go) else { return Ok(()) };
        self.fields(&known.fields, object, parent)
    }

    /// The value without its type, which the caller has printed or left out.
    fn value(&mut self, go: &'static str, value: Option<&Value>, parent: &Map<String, Value>) -> fmt::Result {
        let value = value.filter(|value| !value.is_null());
        let resolved = self.schema.resolve(go);
        if let Type::Pointer(_) = resolved {
            self.meet_pointer(self.depth);
        }
        match (resolved, value) {
            (Type::Pointer(_) | Type::Slice(_) | Type::Map(_), None) => self.out.write_str("<nil>"),
            (Type::Pointer(inner), value) => self.value(inner, value, parent),
            (Type::Slice(inner), Some(value)) => self.slice(inner, value, parent),
            (Type::Map(inner), Some(value)) => self.map(inner, value, go == RESOURCE_LIST),
            (Type::Struct(known), value) => {
                let empty = Map::new();
                self.fields(&known.fields, value.and_then(Value::as_object).unwrap_or(&empty), parent)
            }
            (Type::String, value) => self.out.write_str(value.and_then(Value::as_str).unwrap_or_default()),
            (Type::Int32 | Type::Int64, value) => {
                write!(self.out, "{}", value.and_then(Value::as_i64).unwrap_or_default())
            }
            (Type::Bool, value) => write!(self.out, "{}", value.and_then(Value::as_bool).unwrap_or_default()),
            (Type::Quantity, value) => self.quantity(value, false),
            (Type::IntOrString, value) => self.int_or_string(value),
            (Type::Time, value) => self.time(value),
            (Type::Raw, value) => self.raw(value),
        }
    }

    fn meet_pointer(&mut self, depth: usize) {
        self.zone_shown = self.zone_shown.filter(|shown| *shown < depth);
    }

    fn slice(&mut self, go: &'static str, items: &Value, parent: &Map<String, Value>) -> fmt::Result {
        self.out.write_str("[")?;
        self.depth += 1;
        for (index, item) in items.as_array().into_iter().flatten().enumerate() {
            if index > 0 {
                self.out.write_str(" ")?;
            }
            self.value(go, Some(item), parent)?;
        }
        self.depth -= 1;
        self.out.write_str("]")
    }

    fn map(&mut self, go: &'static str, entries: &Value, round: bool) -> fmt::Result {
        let mut entries: Vec<(&String, &Value)> = entries.as_object().into_iter().flatten().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        self.out.write_str("map[")?;
        self.depth += 1;
        for (index, (key, value)) in entries.into_iter().enumerate() {
            write!(self.out, "{}{key}:", if index > 0 { " " } else { "" })?;
            self.place.push(key.clone());
            if round {
                self.quantity(Some(value), round)?;
            } else {
                self.value(go, Some(value), &Map::new())?;
            }
            self.place.pop();
        }
        self.depth -= 1;
        self.out.write_str("]")
    }

    fn quantity(&mut self, value: Option<&Value>, round: bool) -> fmt::Result {
        // The big decimal inside is a pointer, set or not.
        self.meet_pointer(self.depth + 2);
        let written = value.and_then(Value::as_str).and_then(|text| text.parse::<Quantity>().ok());
        match self.computed().cloned().or(written) {
            Some(mut quantity) => {
                if round {
                    quantity.round_up(MILLI);
                }
                quantity.dump(self.out)
            }
            // Go's zero value, which has no notation either.
            None => self.out.write_str(
                "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} \
                 d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string) Format:(resource.Format)}",
            ),
        }
    }

    /// A pod-level quantity that defaulting computed, if that is what is being printed.
    fn computed(&self) -> Option<&Quantity> {
        let [spec, resources, list, name] = self.place.as_slice() else { return None };
        match (spec.as_str(), resources.as_str(), list.as_str()) {
            ("spec", "resources", "limits") => self.derived.limits.get(name),
            ("spec", "resources", "requests") => self.derived.requests.get(name),
            _ => None,
        }
    }

    fn int_or_string(&mut self, value: Option<&Value>) -> fmt::Result {
        let (kind, number, text) = match value {
            Some(Value::String(text)) => (1, 0, text.as_str()),
            Some(value) => (0, value.as_i64().unwrap_or_default(), ""),
            None => (0, 0, ""),
        };
        write!(self.out, "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}")
    }

    fn time(&mut self, value: Option<&Value>) -> fmt::Result {
        let time = value.and_then(Value::as_str).and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let depth = self.depth + 2;
        self.meet_pointer(depth);
        let (nanos, seconds, zone) = match time {
            Some(time) => {
                let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
                let seconds = time.as_nanosecond().div_euclid(1_000_000_000);
                let zone = match self.zone_shown {
                    Some(_) => "(*time.Location)<shown>",
                    None => UTC_ZONE,
                };
                self.zone_shown.get_or_insert(depth);
                (nanos, seconds.saturating_add(i128::from(GO_EPOCH)), zone)
            }
            None => (0, 0, "(*time.Location)<nil>"),
        };
        write!(self.out, "{{Time:(time.Time){{wall:(uint64){nanos} ext:(int64){seconds} loc:{zone}}}}}")
    }

    /// The bytes of the JSON text, with the characters that Go's encoder escapes.
    fn raw(&mut self, value: Option<&Value>) -> fmt::Result {
        let text = value.map(Value::to_string).unwrap_or_default();
        let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        self.out.write_str("{Raw:([]uint8)[")?;
        for (index, byte) in text.bytes().enumerate() {
            write!(self.out, "{}{byte}", if index > 0 { " " } else { "" })?;
        }
        self.out.write_str("]}")
    }
}
