//! `HashContainer`: a node that changes hands between kubelets keeps its containers only if both say the same.

use k8s_openapi::api::core::v1::Container;
use rubelet_core::hash::container_hash;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::pod;
use crate::function::{Function, read};
use crate::rng::Rng;

/// upstream: container/helpers.go `HashContainer` (v1.36)
pub(super) struct HashContainer;

#[derive(Deserialize)]
struct Case {
    container: Container,
}

impl Function for HashContainer {
    fn name(&self) -> &'static str {
        "HashContainer"
    }

    fn rows(&self) -> &'static [&'static str] {
        &["RT-71", "TRAP-02"]
    }

    fn generate(&self, rng: &mut Rng, size: usize) -> Value {
        let mut container = pod::container(rng, "c", pod::Kind::Regular);
        if rng.chance(80) {
            container["name"] = text(rng, size).into();
        }
        if rng.chance(80) {
            container["image"] = text(rng, size).into();
        }
        if rng.chance(20) {
            container["lifecycle"] = json!({ "preStop": { "exec": { "command": [text(rng, size)] } } });
        }
        json!({ "container": container })
    }

    fn ours(&self, case: &Value) -> anyhow::Result<Value> {
        Ok(format!("{:x}", container_hash(&read::<Case>(case)?.container)).into())
    }
}

/// Text that an encoder may trip over: what JSON and HTML escape, control characters, characters of many bytes.
fn text(rng: &mut Rng, size: usize) -> String {
    const ODD: [char; 20] = [
        '<', '>', '&', '"', '\\', '/', '\'', '\n', '\t', '\r', '\u{8}', '\u{c}', '\0', '\u{1f}', '\u{7f}', 'é',
        '\u{2028}', '\u{2029}', '\u{fffd}', '😀',
    ];
    (0..rng.below(size * 8))
        .map(|_| {
            if rng.chance(30) {
                *rng.pick(&ODD)
            } else if rng.chance(10) {
                char::from_u32(u32::try_from(rng.below(0x11_0000)).unwrap_or_default()).unwrap_or('x')
            } else {
                *rng.pick(&['a', 'b', 'z', '0', '9', '-', '.', ':', '@', '_'])
            }
        })
        .collect()
}
