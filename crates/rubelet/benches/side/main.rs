//! rubelet and upstream's kubelet on the same control plane, containerd and images: the measuring half of `make bench`.
//!
//! One run measures one agent in one round and writes one file of raw lines, from which `benches/report` makes tables.
//! `tests/bench/side.sh` makes the cluster and the node, and runs this for each agent in turn. Nothing here knows which
//! agent it looks at, but for the line that each one logs when a pod has been synced (see `restart`).
//!
//! Times are those of a watch on the API server, taken when an event arrives, by one monotonic clock.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark speaks to people")]
#![expect(clippy::disallowed_methods, reason = "what is measured is real time, on a node of its own")]

mod agent;
mod asked;
mod bench;
mod burst;
mod changes;
mod exits;
mod floor;
mod idle;
mod place;
mod plan;
mod pods;
mod process;
mod raw;
mod restart;
mod scrape;
mod sight;
mod traffic;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use bench::Bench;
use place::Place;
use plan::Plan;
use raw::Raw;

const USAGE: &str = "usage: side DIR AGENT ROUND FILE [--quick]   (make bench does it all)
  DIR    a control plane of tests/env/k8s.sh, started with AUDIT=1, with a node of tests/env/node.sh
  AGENT  what runs on the node: rubelet, upstream, or cri for bare calls to its containerd with no agent
  FILE   where the raw lines go, when all went well";

fn main() -> ExitCode {
    // Cargo says `--bench` to every benchmark.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (flags, words): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|word| word.starts_with("--"));
    let plan = if flags.iter().any(|flag| *flag == "--quick") { Plan::quick() } else { Plan::full() };
    let [dir, agent, round, file] = words.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::SUCCESS;
    };
    let outcome = round.parse().context("ROUND is a number").and_then(|round| {
        let raw = Raw::new(agent, round, PathBuf::from(file));
        measure(&PathBuf::from(dir), agent, raw, plan)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("error: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(dir: &std::path::Path, agent: &str, raw: Raw, plan: Plan) -> anyhow::Result<()> {
    let place = Place::read(dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start a runtime")?;
    runtime.block_on(async {
        if agent == "cri" {
            return floor::run(&place, raw, &plan).await;
        }
        let mut bench = Bench::new(place, agent, raw, plan).await?;
        bench.run().await?;
        bench.raw.write()
    })
}
