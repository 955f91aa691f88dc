//! Finds the pod that a user names.

use rubelet_core::config::distance;
use serde::{Deserialize, Serialize};

use super::PodLine;

/// How many names are suggested.
const OFFERED: usize = 3;

/// No pod matches, or several do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "miss", rename_all = "camelCase")]
pub enum Miss {
    /// Several pods match.
    #[error("{word:?} may mean {}: say which, by namespace/name or UID", names.join(" or "))]
    Ambiguous {
        /// What the user typed.
        word: String,
        /// The pods that match.
        names: Vec<String>,
    },
    /// No pod matches.
    #[error("no pod {word:?} on this node{}", offer(nearest))]
    Unknown {
        /// What the user typed.
        word: String,
        /// Similar names, or some names if none is similar.
        nearest: Vec<String>,
    },
    /// The pod is here, and the log that is wanted is not.
    #[error("{why}")]
    NoLog {
        /// Why not.
        why: String,
    },
}

fn offer(nearest: &[String]) -> String {
    match nearest {
        [] => "; rubelet pods lists all".to_owned(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// The index of the pod that `word` names. A full name wins over a prefix.
pub(super) fn find(lines: &[&PodLine], word: &str) -> Result<usize, Miss> {
    let exact = |line: &PodLine| line.uid == word || line.name == word || full_name(line) == word;
    let file = |line: &PodLine| line.uid.is_empty() && line.name.ends_with(&format!("/{word}"));
    let begins =
        |line: &PodLine| [&line.uid, &line.name, &full_name(line)].into_iter().any(|name| name.starts_with(word));
    if word.is_empty() {
        return Err(Miss::Unknown { word: String::new(), nearest: Vec::new() });
    }
    let ways: [&dyn Fn(&PodLine) -> bool; 3] = [&exact, &file, &begins];
    for way in ways {
        let meant: Vec<(usize, &PodLine)> =
            lines.iter().enumerate().map(|(index, line)| (index, *line)).filter(|(_, line)| way(line)).collect();
        let mut names: Vec<String> = meant.iter().map(|(_, line)| full_name(line)).collect();
        names.dedup();
        // Of two pods with the same name the younger one is meant: the older one is terminating. Its UID still selects it.
        let youngest = meant.iter().min_by_key(|(_, line)| line.age_seconds.unwrap_or_default());
        match (youngest, names.len()) {
            (Some((index, _)), 1) => return Ok(*index),
            (Some(_), _) => return Err(Miss::Ambiguous { word: word.to_owned(), names }),
            (None, _) => {}
        }
    }
    Err(Miss::Unknown { word: word.to_owned(), nearest: nearest(lines, word) })
}

fn full_name(line: &PodLine) -> String {
    if line.namespace.is_empty() { line.name.clone() } else { format!("{}/{}", line.namespace, line.name) }
}

/// Suggestions. The name of a static pod ends with the node's name, which users rarely type: the beginning of each name is
/// compared as well.
fn nearest(lines: &[&PodLine], word: &str) -> Vec<String> {
    let length = word.chars().count();
    let limit = (length / 3).max(1);
    let far = |line: &PodLine| {
        let beginning: String = line.name.chars().take(length).collect();
        [distance(word, &line.name), distance(word, &beginning), distance(word, &full_name(line))].into_iter().min()
    };
    let mut near: Vec<(usize, String)> = lines
        .iter()
        .filter_map(|line| far(line).filter(|far| *far <= limit).map(|far| (far, full_name(line))))
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}
