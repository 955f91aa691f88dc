//! Bytes into values. The bytes may be hostile: nothing is believed, and nothing is allocated that they do not contain.

use super::types::{self, MAX_DEPTH, Type};
use super::value::Value;
use super::write::is_object_path;

/// The byte order of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

/// A position in bytes that begin at an alignment of eight.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
}

macro_rules! number {
    ($name:ident, $kind:ty) => {
        pub(super) fn $name(&mut self) -> Option<$kind> {
            self.skip_padding(size_of::<$kind>())?;
            let bytes = *self.take(size_of::<$kind>())?.first_chunk()?;
            Some(match self.order {
                Order::Little => <$kind>::from_le_bytes(bytes),
                Order::Big => <$kind>::from_be_bytes(bytes),
            })
        }
    };
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], order: Order) -> Self {
        Self { bytes, at: 0, order }
    }

    /// Values of these types, which must be all that there is.
    pub(super) fn whole(mut self, types: &[Type]) -> Option<Vec<Value>> {
        let values = types.iter().map(|one| self.value(one, 0)).collect::<Option<_>>()?;
        (self.at == self.bytes.len()).then_some(values)
    }

    /// A value of this type, `depth` containers down.
    pub(super) fn value(&mut self, of: &Type, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        Some(match of {
            Type::Byte => Value::Byte(self.u8()?),
            Type::Bool => Value::Bool(match self.u32()? {
                0 => false,
                1 => true,
                _ => return None,
            }),
            Type::I16 => Value::I16(self.i16()?),
            Type::U16 => Value::U16(self.u16()?),
            Type::I32 => Value::I32(self.i32()?),
            Type::U32 => Value::U32(self.u32()?),
            Type::I64 => Value::I64(self.i64()?),
            Type::U64 => Value::U64(self.u64()?),
            Type::F64 => Value::F64(self.f64()?),
            Type::Fd => Value::Fd(self.u32()?),
            Type::Str => Value::Str(self.string()?),
            Type::Path => Value::Path(self.string().filter(|path| is_object_path(path))?),
            Type::Signature => Value::Signature(self.signature()?.0),
            Type::Variant => Value::Variant(Box::new(self.variant(depth)?)),
            Type::Array(item) if **item == Type::Byte => {
                let end = self.array_end(1)?;
                Value::Bytes(self.take(end.checked_sub(self.at)?)?.to_vec())
            }
            Type::Array(item) => {
                let end = self.array_end(item.alignment())?;
                Value::Array((**item).clone(), self.until(end, |cursor| cursor.value(item, depth + 1))?)
            }
            Type::Dict(key, of) => {
                let end = self.array_end(8)?;
                let entry = |cursor: &mut Self| {
                    cursor.skip_padding(8)?;
                    Some((cursor.value(key, depth + 1)?, cursor.value(of, depth + 1)?))
                };
                Value::Dict((**key).clone(), (**of).clone(), self.until(end, entry)?)
            }
            Type::Struct(fields) => {
                self.skip_padding(8)?;
                Value::Struct(fields.iter().map(|field| self.value(field, depth + 1)).collect::<Option<_>>()?)
            }
        })
    }

    fn variant(&mut self, depth: usize) -> Option<Value> {
        let (_, types) = self.signature()?;
        let [one] = types.as_slice() else { return None };
        self.value(one, depth + 1)
    }

    /// Reads items up to `end`. Each item takes at least one byte, so the loop ends.
    fn until<T>(&mut self, end: usize, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while self.at < end {
            items.push(item(self)?);
        }
        (self.at == end).then_some(items)
    }

    /// Reads the length of an array and the padding before its first item. Returns where the array ends.
    fn array_end(&mut self, alignment: usize) -> Option<usize> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.skip_padding(alignment)?;
        self.at.checked_add(length).filter(|end| *end <= self.bytes.len())
    }

    fn string(&mut self) -> Option<String> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.text(length)
    }

    fn signature(&mut self) -> Option<(String, Vec<Type>)> {
        let length = self.u8()?.into();
        let text = self.text(length)?;
        let types = types::parse(&text)?;
        Some((text, types))
    }

    /// Text of this length and the zero after it.
    fn text(&mut self, length: usize) -> Option<String> {
        let text = str::from_utf8(self.take(length)?).ok().filter(|text| !text.contains('\0'))?.to_owned();
        (self.u8()? == 0).then_some(text)
    }

    number!(u8, u8);
    number!(u16, u16);
    number!(i16, i16);
    number!(u32, u32);
    number!(i32, i32);
    number!(u64, u64);
    number!(i64, i64);
    number!(f64, f64);

    /// Padding is of zeros.
    fn skip_padding(&mut self, alignment: usize) -> Option<()> {
        let length = self.at.checked_next_multiple_of(alignment)?.checked_sub(self.at)?;
        self.take(length)?.iter().all(|byte| *byte == 0).then_some(())
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
}
