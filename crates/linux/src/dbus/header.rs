//! Headers of messages.

use super::parse::{Cursor, Order};
use super::types::{self, Type};
use super::value::Value;
use super::write::{self, Unwritable};

/// The part of a header that every message has, with the length of its fields.
pub(super) const FIXED: usize = 16;
/// Bytes of the fields. Names have at most 255 bytes each; only paths can be longer.
pub(super) const MAX_FIELDS: usize = 64 << 10;
/// Bytes of a message that we send or keep. The replies that we wait for have a few hundred.
pub(super) const MAX_MESSAGE: usize = 512 << 10;
/// The specification's limit: a header that announces more is not one.
pub(super) const MAX_ANY_MESSAGE: usize = 128 << 20;

const VERSION: u8 = 1;
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SENDER: u8 = 7;
const SIGNATURE: u8 = 8;
const UNIX_FDS: u8 = 9;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Return,
    Error,
    Signal,
    /// To be ignored, as the specification demands.
    Unknown,
}

/// A parsed header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(super) order: Order,
    pub(super) kind: Kind,
    pub(super) serial: u32,
    pub(super) reply_serial: Option<u32>,
    pub(super) path: Option<String>,
    pub(super) interface: Option<String>,
    pub(crate) member: Option<String>,
    pub(super) error_name: Option<String>,
    pub(super) sender: Option<String>,
    pub(super) signature: String,
    /// File descriptors that come with the message.
    pub(super) fds: usize,
}

/// Where the parts of a message end, from its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) header: usize,
    pub(super) body: usize,
}

/// The extent of the message that begins with these [`FIXED`] bytes; `None` if no message begins so.
pub(super) fn extent(bytes: &[u8]) -> Option<Extent> {
    let mut cursor = Cursor::new(bytes, order(bytes)?);
    let (_, _, _, version) = (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let body = usize::try_from(cursor.u32()?).ok()?;
    let (_serial, fields) = (cursor.u32()?, usize::try_from(cursor.u32()?).ok()?);
    let header = FIXED.checked_add(fields)?.checked_next_multiple_of(8)?;
    let is_sane = version == VERSION && fields <= MAX_FIELDS && header.checked_add(body)? <= MAX_ANY_MESSAGE;
    is_sane.then_some(Extent { header, body })
}

/// Parses a whole header, its padding included.
pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
    let order = order(bytes)?;
    let mut cursor = Cursor::new(bytes, order);
    let (_, kind, _flags, _version) = (cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let (_body, serial) = (cursor.u32()?, cursor.u32()?);
    let fields = cursor.value(&Type::Array(Box::new(Type::Struct(vec![Type::Byte, Type::Variant]))), 0)?;
    let kind = match kind {
        0 => return None,
        1 => Kind::Call,
        2 => Kind::Return,
        3 => Kind::Error,
        4 => Kind::Signal,
        _ => Kind::Unknown,
    };
    let mut header = Header {
        order,
        kind,
        serial,
        reply_serial: None,
        path: None,
        interface: None,
        member: None,
        error_name: None,
        sender: None,
        signature: String::new(),
        fds: 0,
    };
    for field in fields.items() {
        let [Value::Byte(code), Value::Variant(value)] = field.items() else { return None };
        header.set(*code, value)?;
    }
    (serial != 0).then_some(header)
}

impl Header {
    fn set(&mut self, code: u8, value: &Value) -> Option<()> {
        match (code, value) {
            (PATH, Value::Path(text)) => self.path = Some(text.clone()),
            (INTERFACE, Value::Str(text)) => self.interface = Some(text.clone()),
            (MEMBER, Value::Str(text)) => self.member = Some(text.clone()),
            (ERROR_NAME, Value::Str(text)) => self.error_name = Some(text.clone()),
            (REPLY_SERIAL, Value::U32(serial)) => self.reply_serial = Some(*serial),
            (SENDER, Value::Str(text)) => self.sender = Some(text.clone()),
            (SIGNATURE, Value::Signature(text)) => self.signature = text.clone(),
            (UNIX_FDS, Value::U32(count)) => self.fds = usize::try_from(*count).ok()?,
            (DESTINATION, Value::Str(_)) => {}
            // A known field of a wrong type. Fields that we do not know are to be ignored.
            (0..=UNIX_FDS, _) => return None,
            _ => {}
        }
        Some(())
    }

    /// The values of the body.
    pub(super) fn parse_body(&self, body: &[u8]) -> Option<Vec<Value>> {
        Cursor::new(body, self.order).whole(&types::parse(&self.signature)?)
    }
}

fn order(bytes: &[u8]) -> Option<Order> {
    match bytes.first()? {
        b'l' => Some(Order::Little),
        b'B' => Some(Order::Big),
        _ => None,
    }
}

/// The target of a message that we send.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    pub(super) destination: &'a str,
    pub(super) path: &'a str,
    pub(super) interface: &'a str,
    pub(super) member: &'a str,
}

/// The bytes of a method call.
pub(super) fn write_call(serial: u32, target: &Target<'_>, body: &[Value]) -> Result<Vec<u8>, Unwritable> {
    let mut fields = vec![
        (PATH, Value::Path(target.path.to_owned())),
        (INTERFACE, Value::str(target.interface)),
        (MEMBER, Value::str(target.member)),
        (DESTINATION, Value::str(target.destination)),
    ];
    if !body.is_empty() {
        fields.push((SIGNATURE, Value::Signature(write::signature(body)?)));
    }
    write_message(1, serial, fields, body)
}

/// The bytes of a message of this kind, with these fields.
pub(super) fn write_message(
    kind: u8,
    serial: u32,
    fields: Vec<(u8, Value)>,
    body: &[Value],
) -> Result<Vec<u8>, Unwritable> {
    let mut bytes = Vec::new();
    write::values(&mut bytes, body)?;
    let length = u32::try_from(bytes.len()).map_err(|_| Unwritable::Length)?;
    let field = |(code, value): (u8, Value)| Value::Struct(vec![Value::Byte(code), value.boxed()]);
    let mut message = Vec::new();
    let head = [
        Value::Byte(b'l'),
        Value::Byte(kind),
        Value::Byte(0),
        Value::Byte(VERSION),
        Value::U32(length),
        Value::U32(serial),
        Value::Array(Type::Struct(vec![Type::Byte, Type::Variant]), fields.into_iter().map(field).collect()),
    ];
    write::values(&mut message, &head)?;
    write::pad(&mut message, 8);
    message.extend(bytes);
    if message.len() > MAX_MESSAGE { Err(Unwritable::Length) } else { Ok(message) }
}
