//! Every flag of kubelet v1.36, the few that only rubelet has, and those of its own commands.
//!
//! upstream: cmd/kubelet/app/options/options.go, globalflags.go, globalflags_linux.go; component-base/logs/api/v1
//! addFlags, version/verflag (v1.36); behaviours: FLAG-01 to FLAG-03.

mod node;
mod pods;
mod program;
mod resources;
mod server;
pub(super) mod tool;

use super::flag::{Flag, Group, Kind};

/// Every flag of a run.
pub(super) fn run_flags() -> impl Iterator<Item = &'static Flag> + Clone {
    [node::FLAGS, pods::FLAGS, resources::FLAGS, server::FLAGS, program::FLAGS, OWN_FLAGS, program::NO_EFFECT]
        .into_iter()
        .flatten()
}

/// Which flags a command takes.
#[derive(Clone, Copy)]
pub(super) enum FlagSet {
    /// Those of a run.
    Run,
    /// Those of a run, so that the command looks at the same configuration, and these of its own.
    RunAnd(&'static [&'static Flag]),
    /// These, and where to ask the running rubelet.
    Ask(&'static [&'static Flag]),
    /// These.
    Only(&'static [&'static Flag]),
}

impl FlagSet {
    /// The flags, those of the command itself first.
    pub(super) fn flags(self) -> Vec<&'static Flag> {
        let shared = |names: &'static [&str]| run_flags().filter(|flag| names.contains(&flag.name));
        match self {
            Self::Run => run_flags().collect(),
            Self::RunAnd(own) => own.iter().copied().chain(run_flags()).collect(),
            Self::Ask(own) => own.iter().copied().chain([&tool::SOCKET]).chain(shared(&["root-dir", "help"])).collect(),
            Self::Only(own) => own.iter().copied().chain(shared(&["help"])).collect(),
        }
    }
}

/// Flags that upstream does not have. Each is off by default, so that upstream's command lines mean the same here.
static OWN_FLAGS: &[Flag] = &[
    Flag::new(
        "api-pod-cache",
        Group::Own,
        Kind::Bool(|s| &mut s.flags.api_pod_cache),
        "Keep a copy of the API server's pods below --root-dir, and use it when the node starts and cannot reach the API server.",
    ),
    Flag::new(
        "eviction-spares-page-cache",
        Group::Own,
        Kind::Bool(|s| &mut s.flags.eviction_spares_page_cache),
        "Do not count active page cache as used memory when pods are evicted: the kernel can reclaim it.",
    ),
    Flag::new(
        "sessions-need-create",
        Group::Own,
        Kind::Bool(|s| &mut s.flags.sessions_need_create),
        "Require the verb create on nodes/proxy for exec, attach, run and port-forward, also over WebSocket, for which get is enough otherwise.",
    ),
    Flag::new(
        "local-ui",
        Group::Own,
        Kind::Word {
            value_name: "PORT",
            set: |s, word| {
                s.flags.local_ui = match word.parse() {
                    Ok(0) => None,
                    Ok(port) => Some(port),
                    Err(_) => return Err("must be a port from 1 to 65535, or 0 for none".into()),
                };
                Ok(())
            },
            show: |_| String::new(),
        },
        "Show this node's pods as a page on this port of 127.0.0.1. Every user of the machine can read it; nothing can be changed there.",
    ),
];
