//! Which pod a person means.

use rubelet_core::config::distance;
use serde::{Deserialize, Serialize};

use super::PodLine;

/// How many names are offered when none was meant.
const OFFERED: usize = 3;

/// No pod is meant by a word, or more than one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "miss", rename_all = "camelCase")]
pub enum Miss {
    /// More than one pod may be meant.
    #[error("{word:?} may mean {}: say which, by namespace/name or UID", names.join(" or "))]
    Ambiguous {
        /// The word.
        word: String,
        /// The pods that may be meant.
        names: Vec<String>,
    },
    /// No pod is meant.
    #[error("no pod {word:?} on this node{}", offer(nearest))]
    Unknown {
        /// The word.
        word: String,
        /// Names that are near it; if none is, some that there are.
        nearest: Vec<String>,
    },
}

fn offer(nearest: &[String]) -> String {
    match nearest {
        [] => "; rubelet pods lists all".to_owned(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// The index of the pod that `word` names. A name that is given in full wins over one that begins with it.
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
        // Of two pods with one name the younger is meant: the older one is on its way out. Its UID still names it.
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

/// Names that may have been meant. A static pod's name ends in the node's, which few people type: so the beginning of
/// each name is compared too.
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
