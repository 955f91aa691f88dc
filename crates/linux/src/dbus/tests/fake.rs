//! A bus of our own: one connection, answers by script.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::dbus::frames::Frames;
use crate::dbus::header::{self, Header};
use crate::dbus::value::Value;
use crate::dbus::write;

const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const SENDER: u8 = 7;
const SIGNATURE: u8 = 8;
const UNIX_FDS: u8 = 9;

/// The header of a call.
pub(crate) type Received = Header;

/// A socket on which the test accepts connections, one after another.
pub(crate) struct FakeBus {
    listener: UnixListener,
    pub(crate) path: PathBuf,
    _dir: tempfile::TempDir,
}

impl FakeBus {
    pub(crate) fn new() -> Self {
        let dir = crate::testing::temp_dir();
        let path = dir.path().join("bus");
        Self { listener: UnixListener::bind(&path).unwrap(), path, _dir: dir }
    }

    /// Accepts a client up to and including its `Hello`.
    pub(crate) fn accept(&self) -> FakeClient {
        let (mut stream, _) = self.listener.accept().unwrap();
        let mut zero = [1];
        stream.read_exact(&mut zero).unwrap();
        assert_eq!(zero, [0]);
        let mut client = FakeClient { stream, frames: Frames::default(), serial: 0 };
        assert!(client.line().starts_with("AUTH EXTERNAL 3"));
        client.stream.write_all(b"OK 0123456789abcdef\r\n").unwrap();
        assert_eq!(client.line(), "NEGOTIATE_UNIX_FD");
        client.stream.write_all(b"AGREE_UNIX_FD\r\n").unwrap();
        assert_eq!(client.line(), "BEGIN");
        let (hello, _) = client.receive();
        assert_eq!(hello.member.as_deref(), Some("Hello"));
        client.reply(&hello, &[Value::str(":1.7")]);
        client
    }
}

/// The bus's side of a connection.
pub(crate) struct FakeClient {
    pub(crate) stream: UnixStream,
    frames: Frames,
    serial: u32,
}

impl FakeClient {
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            line.extend(byte);
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// The next message of the client.
    pub(crate) fn receive(&mut self) -> (Header, Vec<Value>) {
        loop {
            if let Some(frame) = self.frames.next().unwrap() {
                let body = frame.header.parse_body(&frame.body.unwrap()).unwrap();
                return (frame.header, body);
            }
            let mut bytes = [0; 512];
            let count = self.stream.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "the client is still there");
            self.frames.feed(&bytes[..count], []).unwrap();
        }
    }

    /// Answers calls of the bus itself, and passes others to `answer`, until one of the member `last` was answered.
    pub(crate) fn serve(&mut self, owner: &str, last: &str, mut answer: impl FnMut(&mut Self, &Header, &[Value])) {
        loop {
            let (call, body) = self.receive();
            match call.member.as_deref() {
                Some("AddMatch" | "RemoveMatch") => self.reply(&call, &[]),
                Some("GetNameOwner") => self.reply(&call, &[Value::str(owner)]),
                _ => answer(self, &call, &body),
            }
            if call.member.as_deref() == Some(last) {
                return;
            }
        }
    }

    /// Answers the three calls of a subscription. Returns the rule.
    pub(crate) fn accept_subscription(&mut self, owner: &str) -> String {
        let (first, _) = self.receive();
        self.reply(&first, &[]);
        let (owned, _) = self.receive();
        assert_eq!(owned.member.as_deref(), Some("GetNameOwner"));
        self.reply(&owned, &[Value::str(owner)]);
        let (second, rule) = self.receive();
        assert_eq!((first.member.as_deref(), second.member.as_deref()), (Some("AddMatch"), Some("AddMatch")));
        self.reply(&second, &[]);
        rule[0].as_str().unwrap().to_owned()
    }

    pub(crate) fn reply(&mut self, call: &Header, body: &[Value]) {
        let bytes = self.message(2, vec![(REPLY_SERIAL, Value::U32(call.serial))], body);
        self.stream.write_all(&bytes).unwrap();
    }

    pub(crate) fn reply_error(&mut self, call: &Header, name: &str) {
        let fields = vec![(REPLY_SERIAL, Value::U32(call.serial)), (ERROR_NAME, Value::str(name))];
        let bytes = self.message(3, fields, &[Value::str("it is so")]);
        self.stream.write_all(&bytes).unwrap();
    }

    pub(crate) fn reply_fd(&mut self, call: &Header, fd: impl AsFd) {
        let fields = vec![(REPLY_SERIAL, Value::U32(call.serial)), (UNIX_FDS, Value::U32(1))];
        let bytes = self.message(2, fields, &[Value::Fd(0)]);
        let fds = [fd.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&self.stream, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::empty()).unwrap();
    }

    pub(crate) fn signal(&mut self, sender: &str, (path, interface, member): (&str, &str, &str), body: &[Value]) {
        let fields = vec![
            (PATH, Value::Path(path.to_owned())),
            (INTERFACE, Value::str(interface)),
            (MEMBER, Value::str(member)),
            (SENDER, Value::str(sender)),
        ];
        let bytes = self.message(4, fields, body);
        self.stream.write_all(&bytes).unwrap();
    }

    fn message(&mut self, kind: u8, mut fields: Vec<(u8, Value)>, body: &[Value]) -> Vec<u8> {
        self.serial += 1;
        fields.push((SIGNATURE, Value::Signature(write::signature(body).unwrap())));
        header::write_message(kind, self.serial, fields, body).unwrap()
    }
}
