//! Golden rows: upstream's facts as data. Each `golden/*/NAME.yaml` holds cases and says where they come from;
//! `NAME.out` beside it holds what we decide. Run with `UPDATE_EXPECT=1` to write them anew, then read the difference.

mod world;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use expect_test::expect_file;
use rubelet_core::inputs::PodInputs;
use rubelet_core::plan::plan_pod;
use serde::Deserialize;
use world::Case;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Upstream's test or function that the cases come from.
    origin: String,
    /// Behaviour rows that they show.
    rows: Vec<String>,
    cases: Vec<Case>,
}

fn check(folder: &str, decide: impl Fn(&Case) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no rows in {}", folder.display());
    for path in files {
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let file: File = serde_saphyr::from_str(&text).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        assert!(!file.origin.is_empty() && !file.rows.is_empty(), "{} cites its origin", path.display());
        let mut out = String::new();
        for case in &file.cases {
            let _ = writeln!(out, "# {}\n{}", case.name, decide(case));
        }
        expect_file![path.with_extension("out")].assert_eq(&out);
    }
}

#[test]
fn plans() {
    check("plan", |case| {
        let pod = Arc::new(case.pod());
        let seen = case.seen(&pod);
        let probes = Arc::new(case.probes(&seen));
        let actuated = case.actuated().map(Arc::new);
        let inputs = PodInputs { actuated: actuated.as_ref(), ..PodInputs::new(&pod, &probes, case.node(&[])) };
        let plan = plan_pod(&inputs, &seen);
        world::show_plan(&pod, &plan)
    });
}

#[test]
fn phases() {
    check("phase", |case| world::show_phase(&case.status()));
}

#[test]
fn statuses() {
    check("status", |case| serde_saphyr::to_string(&case.status()).expect("a status can be written"));
}
