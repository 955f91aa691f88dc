//! A flag: its name, the setting that it writes, its help and its standing upstream.

use std::collections::BTreeMap;

use rubelet_core::config::{GoDuration, MemoryReservation};

use super::settings::Settings;

/// A field of [`Settings`].
type At<T> = fn(&mut Settings) -> &mut T;

/// The type of a flag's value. Types and their notation are upstream's.
pub(super) enum Kind {
    /// `--x`, `--x=false`. Never takes the next argument.
    Bool(At<bool>),
    Int32(At<i32>),
    Int64(At<i64>),
    Text(At<String>),
    /// As `Text`; only the help text knows the difference.
    Path(At<String>),
    Duration(At<GoDuration>),
    /// Comma separated; the first use replaces the default, later uses add.
    List(At<Vec<String>>),
    /// `key=value,…`; the first use replaces the default, later uses add.
    Map(At<BTreeMap<String, String>>),
    /// As `Map`, one pair per use: the value may contain commas.
    Pair(At<BTreeMap<String, String>>),
    /// `signal<amount,…`, else as `Map`.
    Thresholds(At<BTreeMap<String, String>>),
    /// `key=value,…`, where a key may stand alone and nothing is replaced.
    Labels(At<BTreeMap<String, String>>),
    /// `Gate=true,…`, else as `Map`.
    Gates(At<BTreeMap<String, bool>>),
    /// `Name:value,…`, where names may repeat, else as `Map`.
    Headers(At<BTreeMap<String, Vec<String>>>),
    /// `NUMA:kind=size,…;NUMA:…`; the first use replaces the default, later uses add.
    ReservedMemory(At<Vec<MemoryReservation>>),
    /// A value with its own parser.
    Word {
        value_name: &'static str,
        set: fn(&mut Settings, &str) -> Result<(), String>,
        show: fn(&Settings) -> String,
    },
    /// `--help`: never takes the next argument.
    Help,
    /// `--version`, `--version=raw`, `--version=vX.Y.Z`: never takes the next argument.
    Version,
}

/// Where a flag stands in the help text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Group {
    /// Of a command other than the agent.
    Tool,
    Start,
    StaticPods,
    Runtime,
    Pods,
    Resources,
    Eviction,
    Images,
    Server,
    Cluster,
    Host,
    Logging,
    Program,
    /// Not in upstream; off by default.
    Own,
    NoEffect,
}

impl Group {
    pub(super) const ALL: [Self; 15] = [
        Self::Tool,
        Self::Start,
        Self::StaticPods,
        Self::Runtime,
        Self::Pods,
        Self::Resources,
        Self::Eviction,
        Self::Images,
        Self::Server,
        Self::Cluster,
        Self::Host,
        Self::Logging,
        Self::Program,
        Self::Own,
        Self::NoEffect,
    ];

    pub(super) const fn heading(self) -> &'static str {
        match self {
            Self::Tool => "Of this command",
            Self::Start => "Start-up and identity",
            Self::StaticPods => "Static pods",
            Self::Runtime => "Container runtime",
            Self::Pods => "Pods, DNS and container logs",
            Self::Resources => "Resources and cgroups",
            Self::Eviction => "Eviction and removal of dead containers",
            Self::Images => "Images",
            Self::Server => "The node's own API: ports, TLS, authentication, authorization",
            Self::Cluster => "API server and node object",
            Self::Host => "Host",
            Self::Logging => "Logging of rubelet itself",
            Self::Program => "Program",
            Self::Own => "Only in rubelet",
            Self::NoEffect => "Accepted without effect",
        }
    }
}

/// The standing of a flag upstream.
#[derive(Clone, Copy)]
pub(super) enum Standing {
    /// In use.
    Current,
    /// Deprecated in favour of a field of the configuration file.
    UseField(&'static str),
    /// In use although a field of the configuration file does the same.
    AlsoField(&'static str),
    /// Deprecated for another reason, given here.
    Old(&'static str),
}

/// One flag.
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) short: Option<char>,
    pub(super) group: Group,
    pub(super) kind: Kind,
    pub(super) standing: Standing,
    pub(super) help: &'static str,
}

impl Flag {
    pub(super) const fn new(name: &'static str, group: Group, kind: Kind, help: &'static str) -> Self {
        Self { name, short: None, group, kind, standing: Standing::Current, help }
    }

    /// Deprecated: set this field instead.
    pub(super) const fn field(mut self, field: &'static str) -> Self {
        self.standing = Standing::UseField(field);
        self
    }

    /// Not deprecated, though this field does the same.
    pub(super) const fn also(mut self, field: &'static str) -> Self {
        self.standing = Standing::AlsoField(field);
        self
    }

    pub(super) const fn old(mut self, why: &'static str) -> Self {
        self.standing = Standing::Old(why);
        self
    }

    pub(super) const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }

    /// The field of the configuration that the flag writes, if it is one.
    pub(super) const fn config_field(&self) -> Option<&'static str> {
        match self.standing {
            Standing::UseField(field) | Standing::AlsoField(field) => Some(field),
            Standing::Current | Standing::Old(_) => None,
        }
    }

    /// The warning for users of the flag, if it is deprecated.
    pub(super) fn deprecation(&self) -> Option<String> {
        match self.standing {
            Standing::UseField(field) => {
                Some(format!("flag --{} is deprecated: set {field} in the --config file instead", self.name))
            }
            Standing::Old(why) => Some(format!("flag --{} is deprecated: {why}", self.name)),
            Standing::Current | Standing::AlsoField(_) => None,
        }
    }

    /// Whether the flag can stand alone, and then never takes the next argument.
    pub(super) const fn stands_alone(&self) -> bool {
        matches!(self.kind, Kind::Bool(_) | Kind::Help | Kind::Version)
    }
}
