//! Golden cases: named, in short words, and kept with what upstream answered.
//!
//! `crates/core/tests/golden/FOLDER/NAME.yaml` holds cases, `NAME.upstream.yaml` beside it the answers. Only
//! [`record`] writes answers, and it asks upstream. A difference that docs/parity states is applied to the answer and
//! named with it. Where it changes the whole answer there is none, and the case says itself what ours is.
//!
//! Cases of the folder `decision` hold the question as the function reads it, and their file names the function.

mod short;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use short::{Case, Sandbox, at};

use crate::compare::differences;
use crate::function::Function;
use crate::upstream::{Reply, Upstream};

/// How the name of a file with answers ends.
const ANSWERS: &str = "upstream.yaml";

/// A folder of golden cases.
#[derive(Clone, Copy, Debug)]
pub struct Folder {
    /// Its name.
    pub name: &'static str,
    /// The function of upstream that answers its cases, unless each file names its own.
    function: Option<&'static str>,
    question: fn(&Case) -> anyhow::Result<Value>,
    /// What of an answer the folder shows, in a form for readers.
    view: fn(&Case, Value) -> Value,
}

/// All folders.
pub const FOLDERS: [Folder; 4] = [
    Folder { name: "plan", function: Some("computePodActions"), question: Case::plan_question, view: plan_view },
    Folder { name: "phase", function: Some(STATUS), question: Case::status_question, view: phase_view },
    Folder { name: "status", function: Some(STATUS), question: Case::status_question, view: whole },
    Folder { name: "decision", function: None, question: Case::own_question, view: whole },
];
const STATUS: &str = "generateAPIPodStatus";

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// Where it is.
    #[serde(skip)]
    pub path: PathBuf,
    /// The function of upstream that answers.
    #[serde(default)]
    pub function: String,
    /// Upstream's test or function that the cases come from.
    pub origin: String,
    /// Rows of docs/parity that they show.
    pub rows: Vec<String>,
    /// What the questions have in common.
    #[serde(default)]
    common: Map<String, Value>,
    /// The cases.
    pub cases: Vec<Case>,
}

impl Golden {
    /// A case as messages name it: `plan/sandbox.yaml: a new pod`.
    fn place(&self, case: &Case) -> String {
        let name =
            |path: Option<&Path>| path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        format!("{}/{}: {}", name(self.path.parent()), name(Some(&self.path)), case.name)
    }
}

/// What upstream answered to a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The case's name.
    pub name: String,
    /// Differences of docs/parity that had a part in the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stated: Vec<String>,
    /// The answer with those applied; none if one of them changes the whole of it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub answer: Value,
}

/// The files of a folder.
///
/// # Errors
/// If one cannot be read, or does not say where it comes from.
pub fn load(folder: &Folder) -> anyhow::Result<Vec<Golden>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/core/tests/golden").join(folder.name);
    let entries = std::fs::read_dir(&directory).with_context(|| format!("list {}", directory.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.retain(|path| !path.to_string_lossy().ends_with(ANSWERS));
    paths.sort();
    ensure!(!paths.is_empty(), "no cases in {}", directory.display());
    paths
        .into_iter()
        .map(|path| {
            let mut golden: Golden = read_yaml(&path)?;
            // A sandbox that is not ready has no address any more.
            let sandboxes = golden.cases.iter_mut().flat_map(|case| &mut case.sandboxes);
            sandboxes.filter(|sandbox| !sandbox.ready).for_each(|sandbox| sandbox.ips.clear());
            ensure!(!golden.origin.is_empty() && !golden.rows.is_empty(), "{} cites no origin", path.display());
            let named = golden.function.is_empty() == folder.function.is_some();
            ensure!(named, "{} names its function, and only in the folder of decisions", path.display());
            if let Some(function) = folder.function {
                golden.function = function.to_owned();
            }
            golden.cases.iter_mut().for_each(|case| complete(&mut case.question, &golden.common));
            Ok(Golden { path, ..golden })
        })
        .collect()
}

/// The answers that are kept.
///
/// # Errors
/// If they cannot be read, or are not those of the file's cases.
pub fn answers(golden: &Golden) -> anyhow::Result<Vec<Answer>> {
    let path = golden.path.with_extension(ANSWERS);
    let answers: Vec<Answer> = read_yaml(&path)?;
    let same = golden.cases.iter().map(|case| &case.name).eq(answers.iter().map(|answer| &answer.name));
    ensure!(same, "{} does not hold the same cases; write it anew: make oracle GOLDENS=1", path.display());
    Ok(answers)
}

/// Asks upstream.
///
/// # Errors
/// If upstream's process has ended or cannot read a case.
pub fn ask(
    folder: &Folder,
    function: &dyn Function,
    upstream: &mut Upstream,
    golden: &Golden,
) -> anyhow::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for case in &golden.cases {
        let question = (folder.question)(case).with_context(|| golden.place(case))?;
        let (stated, answer) = match function.incomparable(&question) {
            Some(reason) => (vec![reason], Value::Null),
            None => match upstream.ask(function.name(), std::slice::from_ref(&question))?.pop() {
                Some(Reply::Answer(mut theirs)) => (function.adjust(&question, &mut theirs), theirs),
                Some(Reply::Refused(why)) => bail!("{}: upstream: {why}", golden.place(case)),
                None => bail!("{}: upstream did not answer", golden.place(case)),
            },
        };
        let answer = if answer.is_null() { answer } else { (folder.view)(case, answer) };
        answers.push(Answer {
            name: case.name.clone(),
            stated: stated.into_iter().map(str::to_owned).collect(),
            answer,
        });
    }
    Ok(answers)
}

/// Writes what upstream answered beside the cases.
///
/// # Errors
/// If it cannot be written, or would be read as something else.
pub fn record(golden: &Golden, answers: &[Answer]) -> anyhow::Result<()> {
    let path = golden.path.with_extension(ANSWERS);
    let text = serde_saphyr::to_string(&answers).context("print the answers")?;
    let back: Vec<Answer> = serde_saphyr::from_str(&text).context("read the answers back")?;
    ensure!(back == answers, "{}: the answers cannot be read back", path.display());
    let head = "# What upstream answered. Written by `make oracle GOLDENS=1`, which asks it; not by hand.\n";
    std::fs::write(&path, head.to_owned() + &text).with_context(|| format!("write {}", path.display()))
}

/// Where our answers are not those that are kept.
///
/// # Errors
/// If a case cannot be read.
pub fn faults(
    folder: &Folder,
    function: &dyn Function,
    golden: &Golden,
    answers: &[Answer],
) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for (case, kept) in golden.cases.iter().zip(answers) {
        let place = golden.place(case);
        let ours = function.ours(&(folder.question)(case)?).with_context(|| place.clone())?;
        let ours = (folder.view)(case, ours);
        let found = match (kept.answer.is_null(), case.ours.is_empty()) {
            (false, true) => differences(&ours, &kept.answer),
            (true, false) => differences(&ours, &Value::Object(case.ours.clone())),
            (true, true) => {
                faults.push(format!("{place}: {:?} changes the whole answer; as `ours` belongs {ours}", kept.stated));
                continue;
            }
            (false, false) => {
                faults.push(format!("{place}: upstream's answer can be compared, so `ours` does not belong here"));
                continue;
            }
        };
        faults.extend(found.into_iter().map(|d| format!("{place}: {}: ours {}, kept {}", d.path, d.ours, d.upstream)));
    }
    Ok(faults)
}

/// Adds what a question has in common with others and does not say itself.
fn complete(question: &mut Map<String, Value>, common: &Map<String, Value>) {
    for (key, value) in common {
        match (question.get_mut(key), value) {
            (Some(Value::Object(own)), Value::Object(common)) => complete(own, common),
            (Some(_), _) => {}
            (None, _) => drop(question.insert(key.clone(), value.clone())),
        }
    }
}

fn read_yaml<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("read {}", path.display()))
}

/// Containers by their names, and nothing of what does not happen.
fn plan_view(case: &Case, mut answer: Value) -> Value {
    let spec = &case.spec;
    let names = |list: Option<&[k8s_openapi::api::core::v1::Container]>| -> Vec<Value> {
        list.unwrap_or_default().iter().map(|c| c.name.as_str().into()).collect()
    };
    let debug = spec.ephemeral_containers.iter().flatten().map(|c| c.name.as_str().into()).collect();
    for (key, names) in [
        ("startInit", names(spec.init_containers.as_deref())),
        ("startRegular", names(Some(&spec.containers))),
        ("startEphemeral", debug),
    ] {
        for index in answer[key].as_array_mut().into_iter().flatten() {
            let place = index.as_u64().and_then(|index| usize::try_from(index).ok());
            *index = place.and_then(|place| names.get(place)).cloned().unwrap_or_default();
        }
    }
    let nothing = |value: &Value| value.is_null() || *value == false || value.as_array().is_some_and(Vec::is_empty);
    if let Some(map) = answer.as_object_mut() {
        map.retain(|_, value| !nothing(value));
    }
    answer
}

/// The phase with its reason, and each condition as `False PodFailed: why`.
fn phase_view(_: &Case, answer: Value) -> Value {
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let mut view = Map::new();
    for key in ["phase", "reason", "message"] {
        if !text(&answer, key).is_empty() {
            view.insert(key.to_owned(), text(&answer, key).into());
        }
    }
    let conditions = answer["conditions"].as_object().into_iter().flatten().map(|(kind, condition)| {
        let (status, reason, message) =
            (text(condition, "status"), text(condition, "reason"), text(condition, "message"));
        let message = if message.is_empty() { message } else { format!(": {message}") };
        (kind.clone(), format!("{status} {reason}{message}").trim_end().into())
    });
    view.insert("conditions".to_owned(), conditions.collect::<Map<_, _>>().into());
    Value::Object(view)
}

fn whole(_: &Case, answer: Value) -> Value {
    answer
}
