//! Every flag of kubelet v1.36, the few that only rubelet has, and those of its own commands.
//!
//! upstream: cmd/kubelet/app/options/options.go, globalflags.go, globalflags_linux.go; component-base/logs/api/v1
//! addFlags, version/verflag (v1.36); behaviours: FLAG-01 to FLAG-03.

mod node;
mod pods;
mod program;
mod resources;
mod server;

use super::flag::{Flag, Group, Kind};
use super::settings::Output;

/// Every flag of a run.
pub(super) fn run_flags() -> impl Iterator<Item = &'static Flag> + Clone {
    [node::FLAGS, pods::FLAGS, resources::FLAGS, server::FLAGS, program::FLAGS, OWN_FLAGS, program::NO_EFFECT]
        .into_iter()
        .flatten()
}

/// The flags that rubelet's own commands have in common.
pub(super) fn tool_flags() -> impl Iterator<Item = &'static Flag> + Clone {
    let shared = run_flags().filter(|flag| matches!(flag.name, "root-dir" | "help"));
    TOOL_FLAGS.iter().chain(shared)
}

/// The flags of `check`: those of a run, so that it checks the same configuration.
pub(super) fn check_flags() -> impl Iterator<Item = &'static Flag> + Clone {
    TOOL_FLAGS.iter().filter(|flag| flag.name == "output").chain(run_flags())
}

/// Flags that upstream does not have. Each is off by default, so that upstream's command lines mean the same here.
static OWN_FLAGS: &[Flag] = &[Flag::new(
    "api-pod-cache",
    Group::Own,
    Kind::Bool(|s| &mut s.flags.api_pod_cache),
    "Keep a copy of the API server's pods below --root-dir, and use it when the node starts and cannot reach the API server.",
)];

static TOOL_FLAGS: &[Flag] = &[
    Flag::new(
        "output",
        Group::Program,
        Kind::Word {
            value_name: "table|json",
            set: |s, word| {
                s.output = match word {
                    "table" => Output::Table,
                    "json" => Output::Json,
                    _ => return Err("must be table or json".into()),
                };
                Ok(())
            },
            show: |_| "table".to_owned(),
        },
        "How the result is shown.",
    )
    .short('o'),
    Flag::new(
        "socket",
        Group::Program,
        Kind::Text(|s| &mut s.socket),
        "Socket of the running rubelet, if it is not the one in its root directory.",
    ),
];
