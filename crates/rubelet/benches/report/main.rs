//! From the raw data of `make bench` to tables, plots and a verdict.
//!
//! ```text
//! report OUT PAGE                    prints the report of OUT/raw, writes it into PAGE, plots and raw data beside it
//! report OUT --record FILE           writes down the ratios that were reached
//! report OUT --guard FILE            exits with 1 if one of them fell back by more than a quarter
//! ```
//! Paths that are not absolute begin at the root of the repository, wherever cargo runs this.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark speaks to people")]

mod bars;
mod data;
mod guard;
mod page;
mod plot;
mod text;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use data::Data;

const USAGE: &str = "usage: report OUT PAGE | report OUT --record FILE | report OUT --guard FILE";

fn main() -> ExitCode {
    // Cargo adds a flag of its own.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        // `cargo bench` of everything.
        [] => {
            eprintln!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [out, "--record", file] => record(out, file),
        [out, "--guard", file] => guard(out, file),
        [out, page] => show(out, page),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    done.unwrap_or_else(|err| {
        eprintln!("report: {err:#}");
        ExitCode::from(2)
    })
}

/// A path as people mean it who stand at the root of the repository.
fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn show(out: &str, page: &str) -> Result<ExitCode> {
    let raw = at(out).join("raw");
    let data = Data::read(&raw)?;
    println!("{}", page::write(&data, &raw, &at(page))?);
    Ok(ExitCode::SUCCESS)
}

fn record(out: &str, file: &str) -> Result<ExitCode> {
    let ratios = guard::ratios(&Data::read(&at(out).join("raw"))?);
    fs::write(at(file), guard::record(&ratios)).with_context(|| format!("write {file}"))?;
    println!("{} ratios are written down in {file}", ratios.len());
    Ok(ExitCode::SUCCESS)
}

fn guard(out: &str, file: &str) -> Result<ExitCode> {
    let data = Data::read(&at(out).join("raw"))?;
    let text = fs::read_to_string(at(file)).with_context(|| format!("read {file}"))?;
    let reached = guard::parse(&text).with_context(|| format!("understand {file}"))?;
    let verdict = guard::compare(&data, &reached);
    println!("{}", verdict.table);
    if verdict.compared == 0 {
        eprintln!("nothing that was reached before was measured now: {file} guards nothing");
        return Ok(ExitCode::FAILURE);
    }
    if verdict.worse.is_empty() {
        println!("{} ratios are kept", verdict.compared);
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("fallen back by more than a quarter:");
    verdict.worse.iter().for_each(|line| eprintln!("  {line}"));
    Ok(ExitCode::FAILURE)
}
