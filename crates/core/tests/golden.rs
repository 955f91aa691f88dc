//! Golden cases: upstream's facts as data. `golden/FOLDER/NAME.yaml` holds named cases and says where they come from,
//! `NAME.upstream.yaml` beside it what upstream's own function answered. `make oracle` asks upstream again; `GOLDENS=1`
//! writes the answers anew.

mod world;

use rubelet_oracle::{functions, golden};
use world::World as _;

fn check(folder: &str) {
    let folder = golden::FOLDERS.iter().find(|f| f.name == folder).expect("a folder of golden cases");
    let all = functions::all();
    let mut faults = Vec::new();
    for file in golden::load(folder).expect("the cases can be read") {
        let function = all.iter().find(|f| f.name() == file.function).expect("the function is compared");
        let answers = golden::answers(&file).expect("upstream's answers can be read");
        faults.extend(golden::faults(folder, function.as_ref(), &file, &answers).expect("ours can be asked"));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn plans() {
    check("plan");
}

#[test]
fn phases() {
    check("phase");
}

#[test]
fn statuses() {
    check("status");
}

#[test]
fn decisions() {
    check("decision");
}

#[test]
fn a_status_that_is_decided_again_is_the_same() {
    for folder in golden::FOLDERS.iter().filter(|f| ["phase", "status"].contains(&f.name)) {
        for file in golden::load(folder).expect("the cases can be read") {
            file.cases.iter().for_each(|case| drop(case.status()));
        }
    }
}
