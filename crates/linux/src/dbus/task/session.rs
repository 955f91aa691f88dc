//! One connection's calls and subscriptions.

use std::collections::BTreeMap;
use std::io;

use tokio::sync::mpsc;

use super::Answer;
use crate::dbus::error::BusError;
use crate::dbus::frames::Frame;
use crate::dbus::handle::{Call, Others, Reply, Signal, SignalRule};
use crate::dbus::header::{self, Kind, Target};
use crate::dbus::link::Link;
use crate::dbus::value::Value;

/// The bus itself. It alone can send under this name.
const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
const OWNER_CHANGED: &str = "NameOwnerChanged";

/// Calls that wait for a reply. A node makes a handful at once.
const MAX_WAITING: usize = 256;
/// Signals that a subscriber may lag behind; one more ends its subscription.
const MAX_BEHIND: usize = 64;

/// An open connection and who waits for what on it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) link: Link,
    /// The other side is a bus, which knows names and match rules.
    is_bus: bool,
    serial: u32,
    waiting: BTreeMap<u32, Waiting>,
    subscriptions: BTreeMap<u64, Subscription>,
    subscribed: u64,
}

/// Who waits for a reply.
#[derive(Debug)]
enum Waiting {
    Caller {
        member: String,
        answer: Answer<Reply>,
    },
    /// The reply names the owner of a subscription's sender.
    Owner(u64),
    /// The subscription is complete with this reply.
    Subscriber {
        id: u64,
        member: String,
        events: mpsc::Receiver<Signal>,
        answer: Answer<mpsc::Receiver<Signal>>,
    },
    Nobody,
}

impl Waiting {
    fn is_gone(&self) -> bool {
        match self {
            Self::Caller { answer, .. } => answer.is_closed(),
            Self::Subscriber { answer, .. } => answer.is_closed(),
            Self::Owner(_) | Self::Nobody => false,
        }
    }
}

#[derive(Debug)]
struct Subscription {
    rule: SignalRule,
    /// The unique name of the service. Without one, on a bus, no signal is the service's.
    owner: Option<String>,
    events: mpsc::Sender<Signal>,
}

impl Subscription {
    /// Whether its service is `from`, the sender of a signal on a bus.
    fn is_of_service(&self, from: Option<&str>) -> bool {
        self.owner.is_some() && self.owner.as_deref() == from
    }
}

impl Session {
    /// A session on a connection. A bus demands that the first call be `Hello`.
    pub(super) fn new(link: Link, is_bus: bool) -> Self {
        let (waiting, subscriptions) = (BTreeMap::new(), BTreeMap::new());
        let mut session = Self { link, is_bus, serial: 0, waiting, subscriptions, subscribed: 0 };
        if is_bus {
            session.ask_bus("Hello", vec![], Waiting::Nobody);
        }
        session
    }

    pub(super) fn call(&mut self, call: Call, answer: Answer<Reply>) {
        let Call { destination, path, interface, member, body, .. } = call;
        let target = Target { destination: &destination, path: &path, interface: &interface, member: &member };
        self.waiting.retain(|_, waiting| !waiting.is_gone());
        if self.waiting.len() >= MAX_WAITING {
            drop(answer.send(Err(BusError::Busy { member })));
            return;
        }
        let serial = self.next_serial();
        match header::write_call(serial, &target, &body) {
            Ok(message) => {
                self.link.send(&message);
                self.waiting.insert(serial, Waiting::Caller { member, answer });
            }
            Err(source) => drop(answer.send(Err(BusError::Unwritable { member, source }))),
        }
    }

    /// The bus handles our calls in order: it reports changes of the sender's owner before it names the owner, and names
    /// the owner before it sends the first signal.
    pub(super) fn subscribe(&mut self, rule: SignalRule, answer: Answer<mpsc::Receiver<Signal>>) {
        self.prune();
        self.subscribed += 1;
        let id = self.subscribed;
        let (sender, events) = mpsc::channel(MAX_BEHIND);
        let texts = (owner_rule(&rule), signal_rule(&rule));
        let (name, member) = (rule.sender.clone(), rule.member.clone());
        self.subscriptions.insert(id, Subscription { rule, owner: None, events: sender });
        if !self.is_bus {
            drop(answer.send(Ok(events)));
            return;
        }
        self.ask_bus("AddMatch", vec![Value::Str(texts.0)], Waiting::Nobody);
        self.ask_bus("GetNameOwner", vec![Value::Str(name)], Waiting::Owner(id));
        self.ask_bus("AddMatch", vec![Value::Str(texts.1)], Waiting::Subscriber { id, member, events, answer });
    }

    /// Ends the subscriptions whose subscribers are gone.
    pub(super) fn prune(&mut self) {
        let gone: Vec<u64> =
            self.subscriptions.iter().filter(|(_, one)| one.events.is_closed()).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.end(id));
    }

    fn end(&mut self, id: u64) {
        let Some(subscription) = self.subscriptions.remove(&id).filter(|_| self.is_bus) else { return };
        for rule in [owner_rule(&subscription.rule), signal_rule(&subscription.rule)] {
            self.ask_bus("RemoveMatch", vec![Value::Str(rule)], Waiting::Nobody);
        }
    }

    fn ask_bus(&mut self, member: &str, body: Vec<Value>, waiting: Waiting) {
        let target = Target { destination: BUS, path: BUS_PATH, interface: BUS, member };
        let serial = self.next_serial();
        match header::write_call(serial, &target, &body) {
            Ok(message) => {
                self.link.send(&message);
                self.waiting.insert(serial, waiting);
            }
            // Names of ours are written without fail; a rule with a zero byte ends its subscription here.
            Err(err) => tracing::debug!(member, %err, "A call to the bus cannot be written"),
        }
    }

    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.checked_add(1).unwrap_or(1);
        self.serial
    }

    /// Handles the messages that have arrived.
    pub(super) fn dispatch(&mut self) -> io::Result<()> {
        while let Some(frame) = self.link.next()? {
            match frame.header.kind {
                Kind::Return | Kind::Error => self.reply(frame),
                Kind::Signal => self.signal(&frame),
                Kind::Call | Kind::Unknown => {}
            }
        }
        Ok(())
    }

    fn reply(&mut self, frame: Frame) {
        let Some(waiting) = frame.header.reply_serial.and_then(|serial| self.waiting.remove(&serial)) else { return };
        match waiting {
            Waiting::Nobody => {}
            Waiting::Caller { member, answer } => drop(answer.send(outcome(member, frame))),
            Waiting::Owner(id) => {
                // Without an owner the reply is an error. The subscription ends when the name gets one.
                let owner = outcome(String::new(), frame).ok().and_then(|reply| first_str(&reply.body));
                if let Some(subscription) = self.subscriptions.get_mut(&id) {
                    subscription.owner = owner;
                }
            }
            Waiting::Subscriber { id, member, events, answer } => {
                let done = outcome(member, frame);
                if done.is_err() {
                    self.end(id);
                }
                drop(answer.send(done.map(|_| events)));
                self.prune();
            }
        }
    }

    fn signal(&mut self, frame: &Frame) {
        let header = &frame.header;
        let from = header.sender.as_deref();
        let is_from_bus = self.is_bus && from == Some(BUS);
        if is_from_bus && header.member.as_deref() == Some(OWNER_CHANGED) {
            self.owner_changed(frame);
            return;
        }
        let wants = |one: &Subscription| {
            (!self.is_bus || one.rule.others == Others::Trusted || one.is_of_service(from))
                && header.path.as_deref() == Some(&one.rule.path)
                && header.interface.as_deref() == Some(&one.rule.interface)
                && header.member.as_deref() == Some(&one.rule.member)
        };
        let ids: Vec<u64> = self.subscriptions.iter().filter(|(_, one)| wants(one)).map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return;
        }
        let body = frame.body.as_ref().and_then(|body| header.parse_body(body));
        for id in ids {
            let Some(one) = self.subscriptions.get(&id) else { continue };
            let is_delivered = match &body {
                Some(body) if !has_arg(body, one.rule.arg.as_ref()) => true,
                Some(body) => {
                    let is_of_service = !self.is_bus || one.is_of_service(from);
                    one.events.try_send(Signal { is_of_service, body: body.clone() }).is_ok()
                }
                None => false,
            };
            if !is_delivered {
                self.end(id);
            }
        }
    }

    /// Ends the subscriptions to signals of a name that has another owner now.
    fn owner_changed(&mut self, frame: &Frame) {
        let body = frame.body.as_ref().and_then(|body| frame.header.parse_body(body));
        let Some(name) = body.as_deref().and_then(first_str) else { return };
        let is_known = |one: &Subscription| one.rule.sender == name && !self.waits_for_owner(one);
        let ids: Vec<u64> = self.subscriptions.iter().filter(|(_, one)| is_known(one)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.end(id));
    }

    /// The reply that names the owner is still to come and will name the new one.
    fn waits_for_owner(&self, subscription: &Subscription) -> bool {
        let mut asked = self.waiting.values().filter_map(|waiting| match waiting {
            Waiting::Owner(id) => self.subscriptions.get(id),
            _ => None,
        });
        asked.any(|one| std::ptr::eq(one, subscription))
    }
}

fn outcome(member: String, frame: Frame) -> Result<Reply, BusError> {
    let Frame { header, body, fds } = frame;
    let Some(body) = body.and_then(|body| header.parse_body(&body)) else {
        return Err(BusError::Garbled { member });
    };
    match header.kind {
        Kind::Error => {
            let message = first_str(&body).unwrap_or_default();
            Err(BusError::Answered { member, name: header.error_name.unwrap_or_default(), message })
        }
        _ => Ok(Reply { body, fds }),
    }
}

fn first_str(body: &[Value]) -> Option<String> {
    body.first().and_then(Value::as_str).map(str::to_owned)
}

fn has_arg(body: &[Value], arg: Option<&(u8, String)>) -> bool {
    arg.is_none_or(|(at, text)| body.get(usize::from(*at)).and_then(Value::as_str) == Some(text))
}

fn signal_rule(rule: &SignalRule) -> String {
    let SignalRule { sender, others, path, interface, member, arg } = rule;
    let pairs = [("path", path), ("interface", interface), ("member", member)];
    let mut text = "type='signal'".to_owned();
    if *others == Others::Ignored {
        push(&mut text, "sender", sender);
    }
    pairs.into_iter().for_each(|(key, value)| push(&mut text, key, value));
    if let Some((at, value)) = arg {
        push(&mut text, &format!("arg{at}"), value);
    }
    text
}

fn owner_rule(rule: &SignalRule) -> String {
    let mut text = "type='signal'".to_owned();
    for (key, value) in [("sender", BUS), ("interface", BUS), ("member", OWNER_CHANGED), ("arg0", &rule.sender)] {
        push(&mut text, key, value);
    }
    text
}

/// An apostrophe ends a quoted value; escaped, it stands outside of quotes.
fn push(text: &mut String, key: &str, value: &str) {
    text.push_str(&format!(",{key}='{}'", value.replace('\'', r"'\''")));
}
