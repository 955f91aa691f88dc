//! Where two answers differ.

use serde_json::Value;

/// One place where they differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The way to it: `start.0`.
    pub path: String,
    /// What ours says there; `null` if nothing.
    pub ours: Value,
    /// What upstream's says there.
    pub upstream: Value,
}

impl Difference {
    /// The kind of difference: its place without numbers. Differences of one kind are reported once.
    pub fn kind(&self) -> String {
        let part = |part: &str| if part.parse::<usize>().is_ok() { "*".to_owned() } else { part.to_owned() };
        self.path.split('.').map(part).collect::<Vec<_>>().join(".")
    }
}

/// Every place where they differ.
pub fn differences(ours: &Value, upstream: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(String::new(), ours, upstream, &mut found);
    found
}

fn walk(path: String, ours: &Value, upstream: &Value, found: &mut Vec<Difference>) {
    match (ours, upstream) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let side = |of: &serde_json::Map<String, Value>| of.get(key).cloned().unwrap_or(Value::Null);
                walk(join(&path, key), &side(a), &side(b), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(join(&path, &index.to_string()), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(Difference { path, ours: a.clone(), upstream: b.clone() }),
    }
}

fn join(path: &str, part: &str) -> String {
    if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") }
}
