//! Values into bytes. A bus closes the connection of a client that sends a malformed message, and with it all calls of
//! the node: so everything is checked here first.

use super::types::{self, MAX_DEPTH, Type};
use super::value::Value;

/// A value that has no form on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// A string contains a zero byte.
    #[error("a string contains a zero byte")]
    Zero,
    /// An object path is not well-formed.
    #[error("an object path is not well-formed")]
    Path,
    /// A signature is not well-formed.
    #[error("a signature is not well-formed")]
    Signature,
    /// An item is not of its array's type.
    #[error("an item is not of its array's type")]
    Type,
    /// A struct has no fields.
    #[error("a struct has no fields")]
    Empty,
    /// Containers are nested too deeply.
    #[error("containers are nested too deeply")]
    Depth,
    /// The message is too long.
    #[error("the message is too long")]
    Length,
}

/// The signature of a body.
pub(super) fn signature(values: &[Value]) -> Result<String, Unwritable> {
    let mut text = String::new();
    values.iter().for_each(|value| value.of_type().spell(&mut text));
    // Types of our own values can be nested too deeply or be too many, and structs can be empty.
    types::parse(&text).map(|_| text).ok_or(Unwritable::Signature)
}

/// Appends values, little-endian. Alignment counts from the start of `out`, which must be that of a message or of its
/// body, which is aligned to eight bytes.
pub(super) fn values(out: &mut Vec<u8>, values: &[Value]) -> Result<(), Unwritable> {
    values.iter().try_for_each(|one| value(out, one, 0))
}

fn value(out: &mut Vec<u8>, value: &Value, depth: usize) -> Result<(), Unwritable> {
    if depth > MAX_DEPTH {
        return Err(Unwritable::Depth);
    }
    pad(out, value.of_type().alignment());
    match value {
        Value::Byte(number) => out.push(*number),
        Value::Bool(on) => out.extend(u32::from(*on).to_le_bytes()),
        Value::I16(number) => out.extend(number.to_le_bytes()),
        Value::U16(number) => out.extend(number.to_le_bytes()),
        Value::I32(number) => out.extend(number.to_le_bytes()),
        Value::U32(number) | Value::Fd(number) => out.extend(number.to_le_bytes()),
        Value::I64(number) => out.extend(number.to_le_bytes()),
        Value::U64(number) => out.extend(number.to_le_bytes()),
        Value::F64(number) => out.extend(number.to_le_bytes()),
        Value::Str(text) => string(out, text)?,
        Value::Path(path) if is_object_path(path) => string(out, path)?,
        Value::Path(_) => return Err(Unwritable::Path),
        Value::Signature(text) => short(out, text)?,
        Value::Bytes(bytes) => array(out, 1, |out| {
            out.extend(bytes);
            Ok(())
        })?,
        Value::Array(item, items) => {
            array(out, item.alignment(), |out| items.iter().try_for_each(|one| typed(out, one, item, depth)))?
        }
        Value::Dict(key, of, entries) => array(out, 8, |out| {
            entries.iter().try_for_each(|(name, one)| {
                pad(out, 8);
                typed(out, name, key, depth)?;
                typed(out, one, of, depth)
            })
        })?,
        Value::Struct(fields) if fields.is_empty() => return Err(Unwritable::Empty),
        Value::Struct(fields) => fields.iter().try_for_each(|field| self::value(out, field, depth + 1))?,
        Value::Variant(inner) => {
            short(out, &signature(std::slice::from_ref(inner))?)?;
            self::value(out, inner, depth + 1)?;
        }
    }
    Ok(())
}

fn typed(out: &mut Vec<u8>, one: &Value, expected: &Type, depth: usize) -> Result<(), Unwritable> {
    if one.of_type() == *expected { value(out, one, depth + 1) } else { Err(Unwritable::Type) }
}

/// The length of an array counts its items, not the padding before the first of them.
fn array(
    out: &mut Vec<u8>,
    alignment: usize,
    items: impl FnOnce(&mut Vec<u8>) -> Result<(), Unwritable>,
) -> Result<(), Unwritable> {
    let at = out.len();
    out.extend([0; 4]);
    pad(out, alignment);
    let start = out.len();
    items(out)?;
    let length = u32::try_from(out.len() - start).map_err(|_| Unwritable::Length)?;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

fn string(out: &mut Vec<u8>, text: &str) -> Result<(), Unwritable> {
    if text.contains('\0') {
        return Err(Unwritable::Zero);
    }
    out.extend(u32::try_from(text.len()).map_err(|_| Unwritable::Length)?.to_le_bytes());
    out.extend(text.as_bytes());
    out.push(0);
    Ok(())
}

fn short(out: &mut Vec<u8>, signature: &str) -> Result<(), Unwritable> {
    types::parse(signature).ok_or(Unwritable::Signature)?;
    out.push(u8::try_from(signature.len()).map_err(|_| Unwritable::Signature)?);
    out.extend(signature.as_bytes());
    out.push(0);
    Ok(())
}

/// Appends zeros up to a multiple of `alignment`.
pub(super) fn pad(out: &mut Vec<u8>, alignment: usize) {
    out.resize(out.len().next_multiple_of(alignment), 0);
}

/// `/`, or parts of letters, digits and underscores, each after a slash.
pub(super) fn is_object_path(path: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_part))
}
