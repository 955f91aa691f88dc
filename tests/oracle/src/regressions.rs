//! Cases that are kept: each showed a difference once, or stands for one that is stated. Upstream's answer is kept with it, so
//! that our side is checked on machines without Go too.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A kept case; also what is printed for a failure, and what `REPLAY=` reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// Which function.
    pub function: String,
    /// What it shows, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The case.
    pub case: Value,
    /// What upstream answered, adjusted by the differences that are stated.
    pub upstream: Value,
    /// What ours answered when it was printed. Not part of a kept case.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub ours: Value,
}

/// Where they are kept.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions")
}

/// Reads one.
///
/// # Errors
/// If it cannot be read.
pub fn load(path: &Path) -> anyhow::Result<Document> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))
}

/// All of them, by file name.
///
/// # Errors
/// If one cannot be read.
pub fn all() -> anyhow::Result<Vec<(PathBuf, Document)>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory()).context("list the regressions")? {
        let path = entry.context("list the regressions")?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.into_iter().map(|path| load(&path).map(|document| (path, document))).collect()
}

/// Writes it in the form in which cases are kept: with upstream's answer, without ours.
///
/// # Errors
/// If it cannot be written.
pub fn keep(path: &Path, document: Document) -> anyhow::Result<()> {
    let kept = Document { ours: Value::Null, ..document };
    let text = serde_json::to_string_pretty(&kept).context("print the case")?;
    std::fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))
}
