//! Types of values and their signatures.

/// Containers within containers. The specification allows 32 arrays and 32 structs; the messages of systemd and logind
/// have at most six.
pub(super) const MAX_DEPTH: usize = 32;
/// Length of a signature: the specification's limit.
const MAX_SIGNATURE: usize = 255;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `y`
    Byte,
    /// `b`
    Bool,
    /// `n`
    I16,
    /// `q`
    U16,
    /// `i`
    I32,
    /// `u`
    U32,
    /// `x`
    I64,
    /// `t`
    U64,
    /// `d`
    F64,
    /// `s`
    Str,
    /// `o`
    Path,
    /// `g`
    Signature,
    /// `h`: the index of a file descriptor.
    Fd,
    /// `v`: any single value, with its type.
    Variant,
    /// `a`
    Array(Box<Type>),
    /// `a{…}`: a key, which is a basic type, and a value.
    Dict(Box<Type>, Box<Type>),
    /// `(…)`, never empty.
    Struct(Vec<Type>),
}

impl Type {
    /// Bytes to which a value of this type is aligned.
    pub(super) fn alignment(&self) -> usize {
        match self {
            Self::Byte | Self::Signature | Self::Variant => 1,
            Self::I16 | Self::U16 => 2,
            Self::Bool | Self::I32 | Self::U32 | Self::Str | Self::Path | Self::Fd => 4,
            Self::Array(_) | Self::Dict(..) => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::Struct(_) => 8,
        }
    }

    /// Whether it may be the key of a dictionary.
    fn is_basic(&self) -> bool {
        !matches!(self, Self::Variant | Self::Array(_) | Self::Dict(..) | Self::Struct(_))
    }

    /// Appends the signature of this type.
    pub(super) fn spell(&self, text: &mut String) {
        match self {
            Self::Array(item) => {
                text.push('a');
                item.spell(text);
            }
            Self::Dict(key, value) => {
                text.push_str("a{");
                key.spell(text);
                value.spell(text);
                text.push('}');
            }
            Self::Struct(fields) => {
                text.push('(');
                fields.iter().for_each(|field| field.spell(text));
                text.push(')');
            }
            basic => {
                let code = BASIC.iter().find(|(_, one)| one == basic).map(|(code, _)| *code);
                text.push(char::from(code.expect("containers have their arms above, all others are in the table")));
            }
        }
    }
}

/// Types of one letter.
const BASIC: [(u8, Type); 14] = [
    (b'y', Type::Byte),
    (b'b', Type::Bool),
    (b'n', Type::I16),
    (b'q', Type::U16),
    (b'i', Type::I32),
    (b'u', Type::U32),
    (b'x', Type::I64),
    (b't', Type::U64),
    (b'd', Type::F64),
    (b's', Type::Str),
    (b'o', Type::Path),
    (b'g', Type::Signature),
    (b'h', Type::Fd),
    (b'v', Type::Variant),
];

/// The types of a signature; `None` if it is not well-formed.
pub(super) fn parse(signature: &str) -> Option<Vec<Type>> {
    let mut rest = signature.as_bytes();
    if rest.len() > MAX_SIGNATURE {
        return None;
    }
    let mut types = Vec::new();
    while !rest.is_empty() {
        types.push(one(&mut rest, 0)?);
    }
    Some(types)
}

/// The first type of `rest`, which is advanced.
fn one(rest: &mut &[u8], depth: usize) -> Option<Type> {
    if depth > MAX_DEPTH {
        return None;
    }
    match next(rest)? {
        b'a' if rest.first() == Some(&b'{') => {
            next(rest)?;
            let key = one(rest, depth + 1).filter(Type::is_basic)?;
            let value = one(rest, depth + 1)?;
            (next(rest)? == b'}').then(|| Type::Dict(Box::new(key), Box::new(value)))
        }
        b'a' => Some(Type::Array(Box::new(one(rest, depth + 1)?))),
        b'(' => {
            let mut fields = Vec::new();
            while *rest.first()? != b')' {
                fields.push(one(rest, depth + 1)?);
            }
            next(rest)?;
            (!fields.is_empty()).then_some(Type::Struct(fields))
        }
        code => BASIC.iter().find(|(one, _)| *one == code).map(|(_, found)| found.clone()),
    }
}

fn next(rest: &mut &[u8]) -> Option<u8> {
    let (first, others) = rest.split_first()?;
    *rest = others;
    Some(*first)
}
