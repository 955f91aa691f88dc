//! Values of messages.

use super::types::Type;

/// A value. Arrays carry the type of their items, so that an empty one has a type, too.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `y`
    Byte(u8),
    /// `b`
    Bool(bool),
    /// `n`
    I16(i16),
    /// `q`
    U16(u16),
    /// `i`
    I32(i32),
    /// `u`
    U32(u32),
    /// `x`
    I64(i64),
    /// `t`
    U64(u64),
    /// `d`
    F64(f64),
    /// `s`
    Str(String),
    /// `o`
    Path(String),
    /// `g`
    Signature(String),
    /// `h`: an index into the descriptors of the message.
    Fd(u32),
    /// `ay`
    Bytes(Vec<u8>),
    /// An array of anything but bytes.
    Array(Type, Vec<Value>),
    /// A dictionary: the types of its keys and values, and its entries in their order.
    Dict(Type, Type, Vec<(Value, Value)>),
    /// A struct; never empty.
    Struct(Vec<Value>),
    /// A value with its type.
    Variant(Box<Value>),
}

impl Value {
    /// A string.
    pub fn str(text: impl Into<String>) -> Self {
        Self::Str(text.into())
    }

    /// An array of strings.
    pub fn strs(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::Array(Type::Str, texts.into_iter().map(Self::str).collect())
    }

    /// This value in a variant.
    #[must_use]
    pub fn boxed(self) -> Self {
        Self::Variant(Box::new(self))
    }

    /// The type of this value.
    pub fn of_type(&self) -> Type {
        match self {
            Self::Byte(_) => Type::Byte,
            Self::Bool(_) => Type::Bool,
            Self::I16(_) => Type::I16,
            Self::U16(_) => Type::U16,
            Self::I32(_) => Type::I32,
            Self::U32(_) => Type::U32,
            Self::I64(_) => Type::I64,
            Self::U64(_) => Type::U64,
            Self::F64(_) => Type::F64,
            Self::Str(_) => Type::Str,
            Self::Path(_) => Type::Path,
            Self::Signature(_) => Type::Signature,
            Self::Fd(_) => Type::Fd,
            Self::Bytes(_) => Type::Array(Box::new(Type::Byte)),
            Self::Array(item, _) => Type::Array(Box::new(item.clone())),
            Self::Dict(key, value, _) => Type::Dict(Box::new(key.clone()), Box::new(value.clone())),
            Self::Struct(fields) => Type::Struct(fields.iter().map(Self::of_type).collect()),
            Self::Variant(_) => Type::Variant,
        }
    }

    /// The text of a string, a path or a signature.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) | Self::Path(text) | Self::Signature(text) => Some(text),
            _ => None,
        }
    }

    /// A `b`.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// A whole number that is not negative, of any width.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Byte(number) => Some((*number).into()),
            Self::U16(number) => Some((*number).into()),
            Self::U32(number) => Some((*number).into()),
            Self::U64(number) => Some(*number),
            Self::I16(number) => (*number).try_into().ok(),
            Self::I32(number) => (*number).try_into().ok(),
            Self::I64(number) => (*number).try_into().ok(),
            _ => None,
        }
    }

    /// The index of a file descriptor.
    pub fn as_fd(&self) -> Option<u32> {
        if let Self::Fd(index) = self { Some(*index) } else { None }
    }

    /// The value in a variant; any other value itself.
    pub fn unboxed(&self) -> &Self {
        if let Self::Variant(value) = self { value } else { self }
    }

    /// The items of an array or the fields of a struct.
    pub fn items(&self) -> &[Self] {
        match self {
            Self::Array(_, items) | Self::Struct(items) => items,
            _ => &[],
        }
    }
}
