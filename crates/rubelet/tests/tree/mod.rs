//! The source tree, for tests that read it.

use std::path::{Path, PathBuf};

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree is where it was built")
}

/// A file of the repository.
pub(crate) fn read(path: &str) -> String {
    String::from_utf8(bytes(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

/// The same, of a file that may not be text.
pub(crate) fn bytes(path: &str) -> Vec<u8> {
    std::fs::read(root().join(path)).unwrap_or_else(|err| panic!("{path}: {err}"))
}

/// Every file below `dir` whose name ends with one of `endings`, as a path from the root, in order.
pub(crate) fn files(dir: &str, endings: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![root().join(dir)];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).unwrap_or_else(|err| panic!("{}: {err}", dir.display())) {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|n| n.to_str()).expect("a plain name").to_owned();
            if path.is_dir() {
                if name != "target" && name != ".git" {
                    left.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let below = path.strip_prefix(root()).expect("below the root");
                found.push(below.to_str().expect("a plain path").to_owned());
            }
        }
    }
    found.sort();
    found
}
