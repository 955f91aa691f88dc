//! Kept cases, checked against the answer that upstream gave: needs no Go.

use rubelet_oracle::{functions, regressions};

#[test]
fn kept_cases_are_answered_as_upstream_answers_them() {
    let all = functions::all();
    let kept = regressions::all().expect("the kept cases can be read");
    assert!(!kept.is_empty(), "no case is kept");
    for (path, document) in kept {
        let function = all.iter().find(|f| f.name() == document.function).expect("the function is compared");
        let ours = function.ours(&document.case).expect("the case can be read");
        assert_eq!(ours, document.upstream, "{}: {}", path.display(), document.note);
    }
}

#[test]
fn the_table_names_every_function_and_its_rows() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/oracle.md");
    let table = std::fs::read_to_string(path).expect("docs/oracle.md is there");
    for function in functions::all() {
        let row = table.lines().find(|line| line.starts_with(&format!("| `{}` ", function.name())));
        let row = row.unwrap_or_else(|| panic!("docs/oracle.md has no row for {}", function.name()));
        for id in function.rows() {
            assert!(row.contains(id), "{}: docs/oracle.md does not name {id}", function.name());
        }
    }
}

#[test]
fn a_case_is_made_anew_from_its_seed_and_number() {
    for function in functions::all() {
        let case = |index| function.generate(&mut rubelet_oracle::rng::Rng::of_case(7, function.name(), index), 4);
        assert_eq!(case(5), case(5), "{}", function.name());
        assert!((0..20).any(|index| case(index) != case(5)), "{} makes one case only", function.name());
    }
}
