//! Files of variables that an init container wrote.

use rubelet_core::env::env_file_value;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: `util/env/env_util.go` `ParseEnv` (v1.36)
pub(super) struct ParseEnv;

#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    text: String,
    #[serde(default)]
    key: String,
}

impl Function for ParseEnv {
    fn name(&self) -> &'static str {
        "ParseEnv"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["ENV-05"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        const PIECES: [&str; 18] = [
            "A",
            "B",
            "A=",
            "B=",
            "A='x'",
            "B='y z'\n",
            "'",
            "=",
            "\n",
            "\n",
            " ",
            "\t",
            "#",
            " # note",
            "\\",
            "\"",
            "\r\n",
            "é",
        ];
        let text: String = (0..rng.below(size * 4)).map(|_| *rng.pick::<&str>(&PIECES)).collect();
        json!({ "text": text, "key": rng.pick(&["A", "B", "C", ""]) })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        let Case { text, key } = read(case)?;
        Ok(match env_file_value(&text, &key) {
            Ok(value) => json!({ "value": value.unwrap_or_default() }),
            Err(_) => json!({ "fault": true }),
        })
    }
}
