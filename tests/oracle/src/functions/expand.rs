//! `$(NAME)` in values, commands and arguments.

use std::collections::BTreeMap;

use anyhow::anyhow;
use rubelet_core::env::{MAX_EXPANDED, NoRoom, Room, expand};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `third_party/forked/golang/expansion/expand.go` `Expand` (v1.36)
pub(super) struct Expand;

#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    text: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// Names that references name, among them some that hardly are names.
pub(super) const NAMES: [&str; 8] = ["A", "B", "LONG_NAME", "a.b", "", " ", "$", "(x"];

impl Function for Expand {
    fn name(&self) -> &'static str {
        "Expand"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["ENV-04", "ENV-06"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let mut env = Map::new();
        for name in NAMES {
            if rng.chance(50) {
                env.insert(name.to_owned(), text(rng, size).into());
            }
        }
        json!({ "text": text(rng, size), "env": env })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let Case { text, env } = read(case)?;
        let mut room = Room::new(MAX_EXPANDED);
        let mut value = |name: &str| env.get(name).map(String::as_str);
        let text = expand(&text, &mut room, &mut value).map_err(|NoRoom| anyhow!("the case is too large"))?;
        Ok(text.into())
    }
}

/// Text with references, whole ones and broken ones.
pub(super) fn text(rng: &mut Rng, size: usize) -> String {
    const PIECES: [&str; 14] = ["$", "$$", "(", ")", "$(", "$$(", "a", "B", " ", "é", "😀", "\n", "()", "$()"];
    let mut text = String::new();
    for _ in 0..rng.below(size * 3 + 1) {
        if rng.chance(40) {
            let name = *rng.pick(&NAMES);
            text.push_str(&if rng.chance(70) { format!("$({name})") } else { format!("$$({name})") });
        } else {
            text.push_str(rng.pick::<&str>(&PIECES));
        }
    }
    text
}
