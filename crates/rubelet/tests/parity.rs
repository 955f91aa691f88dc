//! Keeps `docs/parity` honest: every row is answered, and what is named as proof exists.

mod tree;

use std::collections::{BTreeMap, BTreeSet};

use tree::{files, read, root};

/// A row of a table: its IDs, and what its last column says.
struct Answer {
    place: String,
    ids: Vec<String>,
    text: String,
}

/// The waves that a row may wait for. A new one is added here and in `docs/parity.md`.
const WAVES: [&str; 5] = ["volumes", "the node's own API", "resources and pressure", "devices", "images"];

fn answers() -> Vec<Answer> {
    let mut answers = Vec::new();
    for page in pages() {
        let mut in_table = false;
        for (at, line) in read(&page).lines().enumerate() {
            if line.starts_with("| row |") {
                in_table = true;
                assert_eq!(line, "| row | what | test or status |", "{page}:{}", at + 1);
            } else if !line.starts_with('|') {
                in_table = false;
            } else if in_table && !line.starts_with("|---") {
                let place = format!("{page}:{}", at + 1);
                let cells: Vec<&str> = line.trim_matches('|').splitn(3, " | ").map(str::trim).collect();
                let [row, _what, text] = cells[..] else { panic!("{place}: not three columns") };
                let ids = ids_of(row).unwrap_or_else(|odd| panic!("{place}: {odd:?} is no row"));
                answers.push(Answer { place, ids, text: text.to_owned() });
            }
        }
    }
    answers
}

fn pages() -> Vec<String> {
    let dir = std::fs::read_dir(root().join("docs/parity")).expect("the pages are there");
    let names = dir.map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"));
    let mut pages: Vec<String> = names.filter(|n| n.ends_with(".md")).map(|n| format!("docs/parity/{n}")).collect();
    pages.sort();
    assert!(pages.len() > 10, "only {pages:?}");
    pages
}

/// `RT-20`, `RT-20, RT-21`; a section such as `11.3`, a word such as `ports` or a dash stands for no row.
fn ids_of(cell: &str) -> Result<Vec<String>, String> {
    let mut ids = Vec::new();
    for word in cell.split(", ") {
        let (family, rest) = word.split_once('-').unwrap_or((word, ""));
        let known = !rest.is_empty()
            && family.bytes().all(|b| b.is_ascii_uppercase())
            && rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-');
        let none = word == "—"
            || word.starts_with(|c: char| c.is_ascii_digit())
            || word.starts_with(|c: char| c.is_ascii_lowercase());
        match (known, none) {
            (true, _) => ids.push(word.to_owned()),
            (false, true) => {}
            (false, false) => return Err(word.to_owned()),
        }
    }
    Ok(ids)
}

/// What stands between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether `word` names a test or a file; `None` if it is neither meant to be.
fn exists(word: &str, tests: &BTreeSet<String>) -> Option<bool> {
    if word.contains('/') && !word.contains(' ') {
        let bases = ["", "crates/", "crates/core/tests/"];
        let found = |base: &&str| {
            let path = root().join(format!("{base}{}", word.trim_end_matches("/*")));
            path.exists() || path.with_extension("yaml").exists()
        };
        // A path on the machine, such as /proc/swaps, is no file of ours.
        return (!word.starts_with('/')).then(|| bases.iter().any(found));
    }
    let lower = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_:*{},".contains(&b));
    let (module, name) = word.rsplit_once("::").unwrap_or(("", word));
    if !lower || (module.is_empty() && name.matches('_').count() < 2) {
        return None;
    }
    let one = |name: &str| match name.strip_suffix('*') {
        Some("") => !module.is_empty(),
        Some(prefix) => tests.iter().any(|test| test.starts_with(prefix)),
        None => tests.contains(name),
    };
    let is_place = !module.is_empty() && ["rubelet::run", "rubelet::settings", "core::qos"].contains(&word);
    (!is_place).then(|| name.trim_matches(['{', '}']).split(',').all(one))
}

/// Names in code type that look like tests and are settings of the kernel or fields of a protocol.
const NOT_TESTS: [&str; 3] = ["oom_score_adj", "user_specified_image", "runtime_handler"];

/// Names of the tests in a Rust file.
fn tests_of(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            marked = true;
        } else if marked && let Some((_, rest)) = line.split_once("fn ") {
            names.extend(rest.split('(').next().map(|name| name.trim().to_owned()));
            marked = false;
        }
    }
    names
}

#[test]
fn every_proof_that_is_named_exists() {
    let tests: BTreeSet<String> = files("crates", &[".rs"]).iter().flat_map(|file| tests_of(&read(file))).collect();
    let mut missing = Vec::new();
    for answer in answers() {
        let words = code(&answer.text).filter(|word| !NOT_TESTS.contains(word));
        let gone = words.filter(|word| exists(word, &tests) == Some(false));
        missing.extend(gone.map(|word| format!("{}: {word}", answer.place)));
    }
    assert!(missing.is_empty(), "named in docs/parity but not there:\n{}", missing.join("\n"));
}

#[test]
fn every_row_is_answered() {
    let tests: BTreeSet<String> = files("crates", &[".rs"]).iter().flat_map(|file| tests_of(&read(file))).collect();
    let answers = answers();
    let mut answered: BTreeMap<&str, bool> = BTreeMap::new();
    for answer in &answers {
        let settled = code(&answer.text).any(|word| exists(word, &tests) == Some(true))
            || ["part 2", "part 3", "part 4", "Difference: "].iter().any(|word| answer.text.contains(word))
            || WAVES.iter().any(|wave| answer.text.contains(&format!("wave: {wave}")));
        for id in &answer.ids {
            *answered.entry(id).or_default() |= settled;
        }
    }
    let rows = read("docs/parity/rows.txt");
    let open: Vec<&str> = rows.lines().filter(|row| answered.get(row) != Some(&true)).collect();
    assert!(open.is_empty(), "rows without a test, a later part or wave, or a difference: {open:?}");
    assert!(rows.lines().count() > 240, "rows.txt has lost rows");
}

#[test]
fn every_wave_is_one_that_the_index_names() {
    let index = read("docs/parity.md");
    for wave in WAVES {
        assert!(index.contains(wave), "docs/parity.md does not name the wave {wave:?}");
    }
    for answer in answers() {
        for (at, _) in answer.text.match_indices("wave: ") {
            let rest = answer.text.get(at + 6..).unwrap_or_default();
            assert!(WAVES.iter().any(|wave| rest.starts_with(wave)), "{}: no such wave: {rest}", answer.place);
        }
    }
}

#[test]
fn the_index_leads_to_every_page() {
    let index = read("docs/parity.md");
    for page in pages() {
        let link = page.trim_start_matches("docs/");
        assert!(index.contains(&format!("({link})")), "docs/parity.md does not lead to {page}");
    }
}
