//! The shape of a Pod: which JSON fields exist, and which Go types upstream keeps them in.
//!
//! One table serves two readers: [`super::shape`] checks a manifest against it, and [`super::dump`] prints the pod as
//! upstream's internal Go value prints itself. The table is `go_schema.txt`; its head explains the notation.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The Go type of a whole pod, where every walk over the table begins.
pub(super) const POD: &str = "core.Pod";
/// The only resource map whose quantities upstream rounds up to thousandths.
/// upstream: v1/defaults.go SetDefaults_ResourceList (v1.36)
pub(super) const RESOURCE_LIST: &str = "core.ResourceList";

const TABLE: &str = include_str!("go_schema.txt");

/// The table never changes, so it is read once in the life of the process, when the first manifest comes.
static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::read);

/// An index over the table.
pub(super) struct Schema {
    types: BTreeMap<&'static str, Body>,
}

/// What the table says of a name.
enum Body {
    Struct(Struct),
    /// It is another name for this type.
    Alias(&'static str),
}

/// A Go struct.
pub(super) struct Struct {
    /// In order of declaration.
    pub(super) fields: Vec<Field>,
    /// The fields that a JSON object of this struct may have, embedded structs opened up.
    pub(super) json: Vec<(&'static str, Field)>,
}

/// What a Go type is, as far as JSON and the dump care.
pub(super) enum Type<'a> {
    /// Absent and zero differ.
    Pointer(&'static str),
    Slice(&'static str),
    /// Keys are always (named) strings; this is the type of the values.
    Map(&'static str),
    Struct(&'a Struct),
    String,
    Int32,
    Int64,
    Bool,
    Quantity,
    IntOrString,
    Time,
    /// JSON kept as it is.
    Raw,
}

/// One field of a Go struct.
#[derive(Clone, Copy)]
pub(super) struct Field {
    /// `None`: v1 has the field and the internal type has not.
    pub(super) go: Option<&'static str>,
    pub(super) json: Json,
    pub(super) ty: &'static str,
    /// A pointer in v1 only: an explicit zero counts as given.
    pub(super) keeps_zero: bool,
}

/// Where a field's value is found in JSON.
#[derive(Clone, Copy)]
pub(super) enum Json {
    Name(&'static str),
    /// The struct's own fields sit in the same object.
    Embedded,
    /// v1 keeps it in the enclosing object, under this name.
    Parent(&'static str),
}

impl Schema {
    pub(super) fn get() -> &'static Self {
        &SCHEMA
    }

    fn read() -> Self {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
        let bodies: BTreeMap<&str, &str> = lines.collect();
        let body = |body: &'static str| match body.starts_with('{') {
            true => Body::Struct(Struct { fields: fields(body), json: json_fields(&bodies, body) }),
            false => Body::Alias(body),
        };
        Self { types: bodies.iter().map(|(name, text)| (*name, body(text))).collect() }
    }

    /// A name that the table does not know is a mistake in the table; it reads as raw JSON and the golden tests notice.
    pub(super) fn resolve(&self, go: &'static str) -> Type<'_> {
        if let Some(inner) = go.strip_prefix('*') {
            return Type::Pointer(inner);
        }
        if let Some(inner) = go.strip_prefix("[]") {
            return Type::Slice(inner);
        }
        if let Some((_, value)) = go.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            return Type::Map(value);
        }
        match go {
            "string" => Type::String,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "bool" => Type::Bool,
            "resource.Quantity" => Type::Quantity,
            "intstr.IntOrString" => Type::IntOrString,
            "v1.Time" => Type::Time,
            "raw" => Type::Raw,
            named => match self.types.get(named) {
                Some(Body::Struct(body)) => Type::Struct(body),
                Some(Body::Alias(kind)) => self.resolve(kind),
                None => Type::Raw,
            },
        }
    }
}

fn json_fields(bodies: &BTreeMap<&str, &'static str>, body: &'static str) -> Vec<(&'static str, Field)> {
    let mut open = Vec::new();
    for field in fields(body) {
        match field.json {
            Json::Name(name) => open.push((name, field)),
            Json::Parent(_) => {}
            Json::Embedded => {
                open.extend(bodies.get(field.ty).into_iter().flat_map(|inner| json_fields(bodies, inner)));
            }
        }
    }
    open
}

fn fields(body: &'static str) -> Vec<Field> {
    body.trim_matches(['{', '}']).split("; ").filter_map(field).collect()
}

fn field(text: &'static str) -> Option<Field> {
    let mut words = text.split(' ');
    let (go, json, ty) = (words.next()?, words.next()?, words.next()?);
    let json = match (json, json.strip_prefix('^')) {
        ("+", _) => Json::Embedded,
        (_, Some(name)) => Json::Parent(name),
        (name, None) => Json::Name(name),
    };
    let keeps_zero = ty.ends_with('!');
    Some(Field { go: (go != "-").then_some(go), json, ty: ty.trim_end_matches('!'), keeps_zero })
}
