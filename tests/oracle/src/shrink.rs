//! Makes a failing case small: drops elements and fields while both sides can read it and still differ in the same way.

use serde_json::Value;

use crate::compare::{Difference, differences};
use crate::function::Function;
use crate::upstream::{Reply, Upstream};

/// So many candidates are tried at most; each costs a question.
const TRIES: usize = 20_000;
/// Fields that an object is recognised by, or that the API always sets: a case without them says nothing.
const KEPT: [&str; 11] =
    ["spec", "phase", "name", "id", "uid", "namespace", "image", "hash", "createdAt", "metadata", "restartCount"];

/// What both sides say of a case.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The case.
    pub case: Value,
    /// Our answer.
    pub ours: Value,
    /// Upstream's, adjusted by the differences that are stated.
    pub upstream: Value,
    /// Where they differ.
    pub differences: Vec<Difference>,
}

/// Asks both sides. `None` if one of them cannot read the case, or if the answers are stated to be incomparable.
///
/// # Errors
/// If upstream's process has ended.
pub fn judge(function: &dyn Function, upstream: &mut Upstream, case: &Value) -> anyhow::Result<Option<Judged>> {
    if function.incomparable(case).is_some() {
        return Ok(None);
    }
    let Ok(ours) = function.ours(case) else { return Ok(None) };
    let Some(Reply::Answer(mut theirs)) = upstream.ask(function.name(), std::slice::from_ref(case))?.pop() else {
        return Ok(None);
    };
    function.adjust(case, &mut theirs);
    if theirs.is_null() {
        return Ok(None);
    }
    let differences = differences(&ours, &theirs);
    Ok(Some(Judged { case: case.clone(), ours, upstream: theirs, differences }))
}

/// The smallest case found that still shows a difference of the kind of the first one.
///
/// # Errors
/// If upstream's process has ended.
pub fn shrink(function: &dyn Function, upstream: &mut Upstream, found: Judged) -> anyhow::Result<Judged> {
    let Some(kind) = found.differences.first().map(Difference::kind) else { return Ok(found) };
    let mut best = found;
    let mut tries = 0;
    'again: while tries < TRIES {
        for candidate in smaller(&best.case) {
            tries += 1;
            let Some(judged) = judge(function, upstream, &candidate)? else { continue };
            if judged.differences.iter().any(|d| d.kind() == kind) {
                best = judged;
                continue 'again;
            }
        }
        break;
    }
    Ok(best)
}

/// Every case that is one step smaller, the greatest steps first.
fn smaller(case: &Value) -> Vec<Value> {
    let mut paths = Vec::new();
    collect(case, &mut Vec::new(), &mut paths);
    // What is nearer to the root is greater.
    paths.sort_by_key(Vec::len);
    paths.iter().filter_map(|path| without(case, path)).collect()
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

fn collect(value: &Value, at: &mut Vec<Step>, paths: &mut Vec<Vec<Step>>) {
    let children: Vec<(Step, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (Step::Key(key.clone()), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(index, value)| (Step::Index(index), value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
    };
    for (step, child) in children {
        at.push(step);
        let is_list =
            matches!(&at[..], [.., Step::Key(spec), Step::Key(list)] if spec == "spec" && list == "containers");
        if !is_list {
            paths.push(at.clone());
        }
        collect(child, at, paths);
        at.pop();
    }
}

/// A pod has at least one regular container.
fn is_only_regular(path: &[Step], list: &Value) -> bool {
    let keys: Vec<&str> =
        path.iter().filter_map(|step| if let Step::Key(key) = step { Some(key.as_str()) } else { None }).collect();
    keys.ends_with(&["spec", "containers"]) && list.as_array().is_some_and(|list| list.len() == 1)
}

fn without(case: &Value, path: &[Step]) -> Option<Value> {
    let mut copy = case.clone();
    let (last, way) = path.split_last()?;
    let mut at = &mut copy;
    for step in way {
        at = match step {
            Step::Key(key) => at.get_mut(key)?,
            Step::Index(index) => at.get_mut(*index)?,
        };
    }
    match last {
        Step::Key(key) if KEPT.contains(&key.as_str()) => return None,
        Step::Index(_) if is_only_regular(path, at) => return None,
        Step::Key(key) => {
            at.as_object_mut()?.remove(key)?;
        }
        Step::Index(index) => {
            at.as_array_mut()?.remove(*index);
        }
    }
    Some(copy)
}
