//! Marshalling.

use std::os::fd::OwnedFd;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::dbus::frames::{Frames, Garbled};
use crate::dbus::header::{self, Kind, MAX_MESSAGE, Target};
use crate::dbus::parse::{Cursor, Order};
use crate::dbus::types::{self, Type};
use crate::dbus::value::Value;
use crate::dbus::write::{self, Unwritable};

const HELLO: Target<'_> = Target {
    destination: "org.freedesktop.DBus",
    path: "/org/freedesktop/DBus",
    interface: "org.freedesktop.DBus",
    member: "Hello",
};

/// As `dbus-send` puts it on the wire, but for the order of the fields.
#[test]
fn a_call_is_written_to_the_byte() {
    let mut expected = b"l\x01\0\x01\0\0\0\0\x01\0\0\0\x6d\0\0\0".to_vec();
    expected.extend(b"\x01\x01o\0\x15\0\0\0/org/freedesktop/DBus\0\0\0");
    expected.extend(b"\x02\x01s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0");
    expected.extend(b"\x03\x01s\0\x05\0\0\0Hello\0\0\0");
    expected.extend(b"\x06\x01s\0\x14\0\0\0org.freedesktop.DBus\0\0\0\0");
    assert_eq!(header::write_call(1, &HELLO, &[]), Ok(expected));
}

#[test]
fn a_body_is_written_and_read_to_the_byte() {
    let properties = Value::Array(
        Type::Struct(vec![Type::Str, Type::Variant]),
        vec![Value::Struct(vec![Value::str("CPUShares"), Value::U64(2).boxed()])],
    );
    let mut bytes = Vec::new();
    write::values(&mut bytes, &[Value::str("a.slice"), properties.clone()]).unwrap();
    let mut expected = b"\x07\0\0\0a.slice\0".to_vec();
    expected.extend(b"\x20\0\0\0\x09\0\0\0CPUShares\0\x01t\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
    assert_eq!(bytes, expected);
    let types = types::parse("sa(sv)").unwrap();
    assert_eq!(Cursor::new(&bytes, Order::Little).whole(&types), Some(vec![Value::str("a.slice"), properties]));
    let big = b"\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x05";
    let numbers = types::parse("ut").unwrap();
    assert_eq!(Cursor::new(big, Order::Big).whole(&numbers), Some(vec![Value::U32(1), Value::U64(5)]));
}

#[test]
fn what_a_bus_would_refuse_is_not_written() {
    let refuse = |value: Value| write::values(&mut Vec::new(), &[value]).unwrap_err();
    assert_eq!(refuse(Value::str("a\0b")), Unwritable::Zero);
    assert_eq!(refuse(Value::Path("a".to_owned())), Unwritable::Path);
    assert_eq!(refuse(Value::Path("/a/".to_owned())), Unwritable::Path);
    assert_eq!(refuse(Value::Path("/a-b".to_owned())), Unwritable::Path);
    assert_eq!(refuse(Value::Signature("a".to_owned())), Unwritable::Signature);
    assert_eq!(refuse(Value::Array(Type::Str, vec![Value::U32(1)])), Unwritable::Type);
    assert_eq!(refuse(Value::Struct(vec![])), Unwritable::Empty);
    let deep = (0..80).fold(Value::Byte(1), |value, _| value.boxed());
    assert_eq!(refuse(deep), Unwritable::Depth);
    let long = Value::str("x".repeat(MAX_MESSAGE));
    assert_eq!(header::write_call(1, &HELLO, &[long]), Err(Unwritable::Length));
}

#[test]
fn malformed_values_are_refused() {
    for (signature, bytes) in [
        ("b", b"\x02\0\0\0".as_slice()),
        ("s", b"\x01\0\0\0\xff\0"),
        ("s", b"\x01\0\0\0\0\0"),
        ("s", b"\x01\0\0\0ab"),
        ("s", b"\xff\xff\xff\xff"),
        ("yu", b"\x01\x01\0\0\x01\0\0\0"),
        ("au", b"\x05\0\0\0\0\0\0\0\0"),
        ("au", b"\xff\xff\xff\x7f"),
        ("v", b"\x02uu\0\0\0\0\0\0\0\0\0\0"),
        ("g", b"\x01(\0"),
        ("o", b"\x01\0\0\0x\0"),
        ("y", b"\x01\x02"),
    ] {
        let types = types::parse(signature).unwrap();
        assert_eq!(Cursor::new(bytes, Order::Little).whole(&types), None, "{signature} {bytes:?}");
    }
    for signature in ["a", "(", "()", "a{vs}", "a{s}", "{ss}", "z", ")", &"a".repeat(40), &"y".repeat(256)] {
        assert_eq!(types::parse(signature), None, "{signature}");
    }
}

#[test]
fn a_message_arrives_in_any_pieces() {
    let message = header::write_call(7, &HELLO, &[Value::str("x")]).unwrap();
    let mut frames = Frames::default();
    for round in 0..2 {
        let (last, rest) = message.split_last().unwrap();
        for byte in rest {
            frames.feed(&[*byte], no_fds()).unwrap();
            assert!(frames.next().unwrap().is_none(), "{round}");
        }
        frames.feed(&[*last], no_fds()).unwrap();
        let frame = frames.next().unwrap().unwrap();
        assert_eq!((frame.header.kind, frame.header.serial), (Kind::Call, 7));
        assert_eq!(frame.header.parse_body(&frame.body.unwrap()), Some(vec![Value::str("x")]));
    }
}

#[test]
fn a_message_that_is_too_long_is_skipped_and_the_next_one_read() {
    let mut long = header::write_call(1, &HELLO, &[Value::str("x")]).unwrap();
    let body = u32::try_from(MAX_MESSAGE).unwrap();
    long[4..8].copy_from_slice(&body.to_le_bytes());
    let (extent, sent) = (header::extent(&long).unwrap(), long.len());
    long.extend(vec![1; extent.header + extent.body - sent]);
    let mut frames = Frames::default();
    let next = header::write_call(2, &HELLO, &[]).unwrap();
    let mut seen = Vec::new();
    for chunk in [long, next].concat().chunks(4096) {
        frames.feed(chunk, no_fds()).unwrap();
        while let Some(frame) = frames.next().unwrap() {
            seen.push((frame.header.serial, frame.body));
        }
    }
    assert_eq!(seen, [(1, None), (2, Some(vec![]))]);
}

#[test]
fn a_header_that_is_none_ends_the_connection() {
    let good = header::write_call(1, &HELLO, &[]).unwrap();
    for (at, byte) in [(0, b'x'), (1, 0), (3, 2), (7, 0x10), (8, 0), (15, 1), (16, 0)] {
        let mut bad = good.clone();
        bad[at] = byte;
        let mut frames = Frames::default();
        frames.feed(&bad, no_fds()).unwrap();
        assert_eq!(frames.next().map(drop), Err(Garbled), "{at}");
    }
}

fn no_fds() -> [OwnedFd; 0] {
    []
}

fn any_value() -> impl Strategy<Value = Value> {
    let basic = prop_oneof![
        any::<u8>().prop_map(Value::Byte),
        any::<bool>().prop_map(Value::Bool),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        any::<u64>().prop_map(Value::U64),
        (-1e9..1e9).prop_map(Value::F64),
        "[^\0]{0,9}".prop_map(Value::Str),
        "(/[a-z_0-9]{1,4}){1,3}".prop_map(Value::Path),
        "[ybnqiuxtdsogvh]{0,3}".prop_map(Value::Signature),
        any::<u32>().prop_map(Value::Fd),
        vec(any::<u8>(), 0..9).prop_map(Value::Bytes),
        vec("[a-z]{0,5}", 0..3).prop_map(Value::strs),
    ];
    basic.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(Value::boxed),
            vec(inner.clone(), 1..4).prop_map(Value::Struct),
            (inner.clone(), 1..4_usize)
                .prop_filter("bytes have a form of their own", |(value, _)| value.of_type() != Type::Byte)
                .prop_map(|(value, count)| Value::Array(value.of_type(), vec![value; count])),
            (vec("[a-z]{1,4}", 1..4), inner).prop_map(|(keys, value)| {
                let entries = keys.into_iter().map(|key| (Value::Str(key), value.clone())).collect();
                Value::Dict(Type::Str, value.of_type(), entries)
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(values in vec(any_value(), 0..4)) {
        let Ok(message) = header::write_call(9, &HELLO, &values) else { return Ok(()) };
        let mut frames = Frames::default();
        frames.feed(&message, no_fds()).unwrap();
        let frame = frames.next().unwrap().unwrap();
        prop_assert_eq!(frame.header.parse_body(&frame.body.unwrap()), Some(values));
    }

    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..200), signature in "[ybnqiuxtdsogvha(){}]{0,12}", flips in vec((0..160_usize, any::<u8>()), 0..6)) {
        if let Some(types) = types::parse(&signature) {
            Cursor::new(&bytes, Order::Little).whole(&types);
            Cursor::new(&bytes, Order::Big).whole(&types);
        }
        let mut message = header::write_call(1, &HELLO, &[Value::strs(["a", "b"]), Value::Bool(true).boxed()]).unwrap();
        for (at, byte) in flips {
            if let Some(place) = message.get_mut(at) {
                *place = byte;
            }
        }
        let mut frames = Frames::default();
        frames.feed(&message, no_fds()).unwrap();
        while let Ok(Some(frame)) = frames.next() {
            frame.body.and_then(|body| frame.header.parse_body(&body));
        }
    }
}
