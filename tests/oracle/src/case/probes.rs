//! Standing results of probes, by container id.

use std::collections::BTreeMap;

use rubelet_core::id::ContainerId;
use rubelet_core::plan::{ProbeView, Verdict};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::rng::Rng;

/// Results for some of the containers that an observation shows, probed or not.
pub fn generate(rng: &mut Rng, observation: &Value) -> Value {
    results(rng, observation, |_, _| true)
}

/// Results for some of the containers that are probed: regular ones and sidecars with a probe.
pub fn of_probed(rng: &mut Rng, pod: &Value, observation: &Value) -> Value {
    let sidecar = |c: &Value| c["restartPolicy"] == "Always";
    let probed = |list: &str, filter: &dyn Fn(&Value) -> bool, name: &Value, probe: &str| {
        let mut all = pod["spec"][list].as_array().into_iter().flatten().filter(|c| filter(c));
        all.any(|c| c["name"] == *name && c.get(format!("{probe}Probe")).is_some())
    };
    results(rng, observation, |name, probe| {
        probed("containers", &|_| true, name, probe) || probed("initContainers", &sidecar, name, probe)
    })
}

fn results(rng: &mut Rng, observation: &Value, wanted: impl Fn(&Value, &str) -> bool) -> Value {
    let mut probes = Map::new();
    for kind in ["liveness", "readiness", "startup"] {
        let mut results = Map::new();
        for container in observation["containers"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let word = rng.weighted(&[(5, ""), (4, "success"), (2, "failure"), (1, "unknown")]);
            if let (false, Some(id)) = (word.is_empty() || !wanted(&container["name"], kind), container["id"].as_str())
            {
                results.insert(id.to_owned(), word.into());
            }
        }
        if !results.is_empty() {
            probes.insert(kind.into(), results.into());
        }
    }
    Value::Object(probes)
}

/// Results as a case holds them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Probes {
    liveness: BTreeMap<String, Word>,
    readiness: BTreeMap<String, Word>,
    startup: BTreeMap<String, Word>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Success,
    Failure,
    Unknown,
}

impl Probes {
    /// As core sees them.
    pub fn view(&self) -> ProbeView {
        let results = |of: &BTreeMap<String, Word>| -> BTreeMap<ContainerId, Verdict> {
            of.iter().map(|(id, word)| (id.as_str().into(), word.verdict())).collect()
        };
        ProbeView {
            liveness: results(&self.liveness),
            readiness: results(&self.readiness),
            startup: results(&self.startup),
        }
    }
}

impl Word {
    fn verdict(self) -> Verdict {
        match self {
            Self::Success => Verdict::Success,
            Self::Failure => Verdict::Failure,
            Self::Unknown => Verdict::Unknown,
        }
    }
}
