//! Keeps `docs/parity` honest: every row says what upstream does and is answered once, by tests that exist, by a stated
//! difference, or by a capability that the index says is missing. A page that merely exists, a whole module or a plan for
//! some later day is no answer. Rows and sections that the sources cite can be looked up there.

mod tree;

use std::collections::{BTreeMap, BTreeSet};

use tree::{files, read, root};

/// Rows of upstream's behaviour that were written down.
const ROWS: usize = 478;

/// Which test function runs the golden cases of which folder.
const GOLDEN: [(&str, &str); 4] = [
    ("core::golden::plans", "plan"),
    ("core::golden::phases", "phase"),
    ("core::golden::statuses", "status"),
    ("core::golden::decisions", "decision"),
];

/// Beginnings of names in code type that are metrics and not tests.
const METRICS: [&str; 5] = ["container_", "kubelet_", "kubernetes_", "machine_", "prober_"];

/// The part of a page that says what upstream does. Names in it are upstream's.
const UPSTREAM: &str = "## What upstream does";

/// What is spelt like a row and is none.
const NO_ROWS: [&str; 5] = ["CRC-32", "DEP-11", "EUI-64", "SHA-256", "SHA-512"];

/// A row of a table: what it is about, and what shows that it holds.
struct Row {
    place: String,
    id: String,
    what: String,
    answer: String,
}

fn pages() -> Vec<String> {
    let pages = files("docs/parity", &[".md"]);
    assert!(pages.len() > 25, "only {pages:?}");
    pages
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for page in pages() {
        let mut in_table = false;
        for (at, line) in (1..).zip(read(&page).lines()) {
            let place = format!("{page}:{at}");
            if line.starts_with("| row ") {
                assert_eq!(line, "| row | what | answer |", "{place}");
                in_table = true;
            } else if !line.starts_with('|') {
                in_table = false;
            } else if in_table && !line.starts_with("|---") {
                let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
                let [id, what, answer] = cells[..] else { panic!("{place}: not three columns") };
                let (id, what, answer) = (id.to_owned(), what.to_owned(), answer.to_owned());
                rows.push(Row { place, id, what, answer });
            }
        }
    }
    rows
}

/// The lines of a page, each with its number and whether it says what upstream does.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    (1..).zip(text.lines()).scan(false, |upstream, (at, line)| {
        if line.starts_with("## ") {
            *upstream = line == UPSTREAM;
        }
        Some((at, line, *upstream))
    })
}

/// What upstream does, row by row: `- **RT-24** Ephemeral containers start once and never restart.`
fn facts() -> Vec<(String, Row)> {
    let mut facts = Vec::new();
    for page in pages() {
        for (at, line, upstream) in lines(&read(&page)) {
            let Some((id, what)) = line.strip_prefix("- **").and_then(|line| line.split_once("** ")) else { continue };
            if upstream {
                let (id, what) = (id.to_owned(), what.to_owned());
                facts.push((page.clone(), Row { place: format!("{page}:{at}"), id, what, answer: String::new() }));
            }
        }
    }
    facts
}

/// Words that are spelt as the ID of a row is: `RT-20`.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)).filter(|word| {
        word.split_once('-').is_some_and(|(family, number)| {
            (2..=6).contains(&family.len())
                && family.bytes().all(|b| b.is_ascii_uppercase())
                && (2..=3).contains(&number.len())
                && number.bytes().all(|b| b.is_ascii_digit())
        })
    })
}

/// Numbers of sections: of `(section 27.2)` the `27.2`.
fn cited_sections(text: &str) -> impl Iterator<Item = &str> {
    after(text, "section ").filter_map(|rest| {
        let number = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.trim_end_matches('.');
        number.contains('.').then_some(number)
    })
}

/// Everything that people write: sources, scripts, data of tests, documents.
fn written() -> Vec<String> {
    let mut all: Vec<String> = ["README.md", "ARCHITECTURE.md", "Makefile"].map(str::to_owned).into();
    for dir in ["crates", "tests", "docs", "examples"] {
        all.extend(files(dir, &[".rs", ".md", ".sh", ".yaml", ".yml", ".toml", ".py", ".txt"]));
    }
    all
}

/// What stands between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Every test function of the repository by its full path, such as `engine::sim::life::a_pod_gets_its_grace_and_no_more`:
/// crate, file below `src` or `tests`, modules within the file, function.
fn tests() -> BTreeSet<String> {
    files("crates", &[".rs"]).iter().flat_map(|file| tests_of(file, &read(file))).collect()
}

fn tests_of(file: &str, text: &str) -> Vec<String> {
    let mut parts: Vec<&str> = file.trim_end_matches(".rs").split('/').skip(1).collect();
    if parts.get(1).is_some_and(|dir| ["src", "tests", "benches"].contains(dir)) {
        parts.remove(1);
    }
    if parts.last().is_some_and(|name| ["mod", "lib", "main"].contains(name)) {
        parts.pop();
    }
    let (mut found, mut inside, mut marked) = (Vec::new(), Vec::<(usize, &str)>::new(), false);
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(name) = module(line) {
            inside.push((indent, name));
        } else if line.starts_with('}') && inside.last().is_some_and(|(opened, _)| *opened == indent) {
            inside.pop();
        } else if line == "#[test]" || line.starts_with("#[tokio::test") {
            marked = true;
        } else if marked && let Some((_, rest)) = line.split_once("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            let path = parts.iter().copied().chain(inside.iter().map(|(_, name)| *name)).chain([name]);
            found.push(path.collect::<Vec<_>>().join("::"));
            marked = false;
        }
    }
    found
}

/// The name of a module that this line opens.
fn module(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("mod ")?;
    let opens = before.is_empty() || before.starts_with("pub");
    rest.strip_suffix(" {").filter(|_| opens)
}

/// The functions of upstream that docs/oracle.md says are compared, with the rows that they stand for. A line of its table:
/// `| `getPhase` with … | ours | 1,000,000 | PST-10, PST-11 |`.
fn oracle_table() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/oracle.md");
    let (_, table) = page.split_once("| function of upstream |").expect("the table of functions");
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let entry = |line: &str| {
        let name = code(line).next().expect("a line names its function");
        let rows = line.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        (name.to_owned(), rows.split(", ").map(str::to_owned).collect())
    };
    lines.map(entry).collect()
}

/// The functions that the oracle compares, by its sources: what `fn name` returns.
fn oracle_functions() -> BTreeSet<String> {
    let sources = files("tests/oracle/src/functions", &[".rs"]);
    let names = |file: &String| {
        let text = read(file);
        let bodies = after(&text, "fn name(&self) -> &'static str {").filter_map(|rest| rest.split('"').nth(1));
        bodies.map(str::to_owned).collect::<Vec<_>>()
    };
    sources.iter().flat_map(names).collect()
}

/// The functions that an answer cites: `oracle::getPhase`.
fn oracle_cited(answer: &str) -> BTreeSet<&str> {
    code(answer).filter_map(|word| word.strip_prefix("oracle::")).collect()
}

/// What is wrong with a name in code type, if it is meant to be a test, a golden case or a file of ours.
fn fault(word: &str, tests: &BTreeSet<String>) -> Option<String> {
    let (path, case) = match word.strip_suffix(']').and_then(|word| word.split_once('[')) {
        Some((path, case)) => (path, Some(case)),
        None => (word, None),
    };
    if let Some(function) = word.strip_prefix("oracle::") {
        return (!oracle_functions().contains(function)).then(|| "the oracle compares no such function".to_owned());
    }
    if path.contains("::") {
        if path.contains('*') {
            return Some("a whole module is no answer: name the tests".to_owned());
        }
        if !tests.contains(path) {
            return Some("there is no such test".to_owned());
        }
        return case.and_then(|case| golden_fault(path, case));
    }
    if ["crates/", "tests/", "docs/"].iter().any(|dir| word.starts_with(dir)) && !root().join(word).exists() {
        return Some("there is no such file".to_owned());
    }
    let plain = word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'*');
    let metric = METRICS.iter().any(|start| word.starts_with(start));
    (plain && !metric && word.matches('_').count() > 2).then(|| "a test is named with its whole path".to_owned())
}

/// A golden case is `core::golden::plans[sandbox: a new pod]`: the test, its file, the case's name.
fn golden_fault(path: &str, case: &str) -> Option<String> {
    let Some((_, folder)) = GOLDEN.iter().find(|(test, _)| *test == path) else {
        return Some("only golden tests have cases".to_owned());
    };
    let (file, name) = case.split_once(": ").unwrap_or((case, ""));
    let file = format!("crates/core/tests/golden/{folder}/{file}.yaml");
    if !root().join(&file).exists() {
        return Some(format!("there is no {file}"));
    }
    let known = read(&file).lines().any(|line| line.strip_prefix("- name: ") == Some(name));
    (!known).then(|| format!("{file} has no case {name:?}"))
}

/// What follows each `mark` in `text`, up to the end.
fn after<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(mark).map(move |(at, _)| text.get(at + mark.len()..).unwrap_or_default())
}

/// The capabilities that the index lists as missing: `- **eviction**: …`.
fn capabilities() -> BTreeSet<String> {
    let index = read("docs/parity.md");
    let (_, section) = index.split_once("\n## What is missing\n").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| Some(line.strip_prefix("- **")?.split_once("**: ")?.0.to_owned()));
    names.collect()
}

#[test]
fn every_row_has_one_answer() {
    let list = read("docs/parity/rows.txt");
    let wanted: BTreeSet<&str> = list.lines().collect();
    assert_eq!((list.lines().count(), wanted.len()), (ROWS, ROWS), "rows.txt has every row once");
    let rows = rows();
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in &rows {
        places.entry(&row.id).or_default().push(&row.place);
    }
    let open: Vec<&&str> = wanted.iter().filter(|id| !places.contains_key(**id)).collect();
    let strange: Vec<&&str> = places.keys().filter(|id| !wanted.contains(**id)).collect();
    let twice: Vec<_> = places.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(open.is_empty(), "rows without an answer: {open:?}");
    assert!(strange.is_empty(), "not in rows.txt: {strange:?}");
    assert!(twice.is_empty(), "answered twice: {twice:?}");
}

#[test]
fn every_row_says_what_upstream_does_on_the_page_of_its_answer() {
    let facts = facts();
    let mut wrong = Vec::new();
    for Row { place, id, .. } in rows() {
        let entries: Vec<_> = facts.iter().filter(|(_, fact)| fact.id == id).collect();
        let [(page, fact)] = entries[..] else {
            wrong.push(format!("{place}: {id} has {} entries under {UPSTREAM:?}", entries.len()));
            continue;
        };
        if !place.starts_with(&format!("{page}:")) {
            wrong.push(format!("{place}: {id} is answered here, and described in {}", fact.place));
        }
        if fact.what.split_whitespace().count() < 2 {
            wrong.push(format!("{}: {id} says too little: {:?}", fact.place, fact.what));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(facts.len(), ROWS, "a fact without a row");
}

#[test]
fn every_row_that_is_cited_exists() {
    let list = read("docs/parity/rows.txt");
    let known: BTreeSet<&str> = list.lines().chain(NO_ROWS).collect();
    let mut wrong = Vec::new();
    for file in written() {
        for (at, line) in (1..).zip(read(&file).lines()) {
            wrong.extend(cited(line).filter(|id| !known.contains(id)).map(|id| format!("{file}:{at}: {id}")));
        }
    }
    assert!(wrong.is_empty(), "not in docs/parity/rows.txt:\n{}", wrong.join("\n"));
}

#[test]
fn every_section_that_is_cited_exists() {
    let mut known = BTreeSet::new();
    for page in pages() {
        for line in read(&page).lines() {
            let title = line.strip_prefix("### ").or_else(|| line.strip_prefix("# Section "));
            known.extend(title.and_then(|title| Some(title.split([' ', ':']).next()?.to_owned())));
        }
    }
    let mut wrong = Vec::new();
    for file in written() {
        for (at, line) in (1..).zip(read(&file).lines()) {
            wrong.extend(cited_sections(line).filter(|no| !known.contains(*no)).map(|no| format!("{file}:{at}: {no}")));
        }
    }
    assert!(wrong.is_empty(), "no page of docs/parity has such a section:\n{}", wrong.join("\n"));
}

#[test]
fn every_answer_names_tests_or_a_difference_or_what_is_missing() {
    let tests = tests();
    let mut wrong = Vec::new();
    for Row { place, id, what, answer } in rows() {
        let tested = code(&answer).any(|word| word.contains("::") && fault(word, &tests).is_none());
        if !tested && !answer.contains("Difference: ") && !answer.contains("Missing: ") {
            wrong.push(format!("{place}: {id} names no test, no difference and nothing that is missing"));
        }
        if what.split_whitespace().count() < 2 {
            wrong.push(format!("{place}: {id} does not say what it is about: {what:?}"));
        }
        for mark in ["Difference: ", "Untested: "] {
            if after(&answer, mark).any(|text| text.split_whitespace().nth(1).is_none()) {
                wrong.push(format!("{place}: {id}: {mark}and what?"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rows_and_functions_of_the_oracle_cite_each_other() {
    let table = oracle_table();
    let named: BTreeSet<String> = table.keys().cloned().collect();
    assert_eq!(named, oracle_functions(), "the table of docs/oracle.md, and the functions of tests/oracle");
    let mut wrong = Vec::new();
    for Row { place, id, answer, .. } in rows() {
        let cited = oracle_cited(&answer);
        let listed: BTreeSet<&str> =
            table.iter().filter(|(_, rows)| rows.contains(&id)).map(|(name, _)| name.as_str()).collect();
        if cited != listed {
            wrong.push(format!("{place}: {id} cites {cited:?} of the oracle; docs/oracle.md names it with {listed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: BTreeSet<String> = rows().into_iter().map(|row| row.id).collect();
    let unknown: Vec<&String> = table.values().flatten().filter(|id| !known.contains(*id)).collect();
    assert!(unknown.is_empty(), "docs/oracle.md names no rows of docs/parity: {unknown:?}");
}

#[test]
fn everything_that_is_named_exists() {
    let tests = tests();
    let mut wrong = Vec::new();
    for page in pages().into_iter().chain(["docs/parity.md".to_owned()]) {
        for (at, line, _) in lines(&read(&page)).filter(|(_, _, upstream)| !upstream) {
            let faults = code(line).filter_map(|word| Some(format!("{page}:{at}: {word}: {}", fault(word, &tests)?)));
            wrong.extend(faults);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_missing_is_in_the_list_and_all_of_the_list_is_missing() {
    let capabilities = capabilities();
    assert!(!capabilities.is_empty(), "docs/parity.md lists what is missing");
    let mut used: BTreeSet<&str> = BTreeSet::new();
    let mut wrong = Vec::new();
    for Row { place, id, answer, .. } in rows() {
        for text in after(&answer, "Missing: ") {
            // The end of a capability's name is the end of the cell, of the sentence, or what is missing of it.
            let ends = |rest: &str| rest.is_empty() || rest.starts_with(". ") || rest.starts_with(" (") || rest == ".";
            match capabilities.iter().find(|name| text.strip_prefix(name.as_str()).is_some_and(ends)) {
                Some(name) => drop(used.insert(name)),
                None => wrong.push(format!("{place}: {id}: not a capability of docs/parity.md: {text:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let done: Vec<&String> = capabilities.iter().filter(|name| !used.contains(name.as_str())).collect();
    assert!(done.is_empty(), "listed as missing, but no row says so: {done:?}");
}

/// A reader cannot know what was planned when and by whom.
#[test]
fn no_paper_speaks_of_plans() {
    let is_plan = |words: &[&str]| match words {
        ["wave" | "waves", ..] => true,
        ["part" | "parts", number, ..] => number.bytes().all(|b| b.is_ascii_digit()),
        _ => false,
    };
    let mut wrong = Vec::new();
    for file in ["README.md", "ARCHITECTURE.md"].map(str::to_owned).into_iter().chain(files("docs", &[".md"])) {
        for (at, line) in (1..).zip(read(&file).lines()) {
            let words: Vec<String> = line
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .map(str::to_lowercase)
                .collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if (0..words.len()).any(|at| is_plan(&words[at..])) {
                wrong.push(format!("{file}:{at}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "name the capability that is missing instead:\n{}", wrong.join("\n"));
}

#[test]
fn the_index_leads_to_every_page() {
    let index = read("docs/parity.md");
    for page in pages() {
        let link = page.trim_start_matches("docs/");
        assert!(index.contains(&format!("({link})")), "docs/parity.md does not lead to {page}");
    }
}

#[test]
fn citations_are_found() {
    let line = "(RT-20, NODE-10/NODE-30), UTF-8 CVE-2021-25741 RT-1 rt-20 X-20 GATE-GA SHA-256-x `TRAP-01`: section 27.2) section 3.";
    assert_eq!(cited(line).collect::<Vec<_>>(), ["RT-20", "NODE-10", "NODE-30", "TRAP-01"]);
    assert_eq!(cited_sections(line).collect::<Vec<_>>(), ["27.2"]);
}

#[test]
fn tests_are_found_by_their_whole_path() {
    let text = "mod outer {\n    #[test]\n    fn one() {\n    }\n    mod inner {\n        #[tokio::test]\n        async fn two() {\n        }\n    }\n}\n#[test]\nfn three(x in 0..3) {\n}\nfn four() {}\n";
    let found = tests_of("crates/engine/tests/sim/life.rs", text);
    assert_eq!(
        found,
        ["engine::sim::life::outer::one", "engine::sim::life::outer::inner::two", "engine::sim::life::three"]
    );
    assert_eq!(tests_of("crates/core/src/a/mod.rs", "#[test]\nfn b() {}\n"), ["core::a::b"]);
    let tests = BTreeSet::from(["core::a::b".to_owned(), "core::golden::plans".to_owned()]);
    for (word, right) in [
        ("core::a::b", true),
        ("a::b", false),
        ("core::a::*", false),
        ("core::a::c", false),
        ("core::golden::plans[sandbox: a new pod]", true),
        ("core::golden::plans[sandbox: no such pod]", false),
        ("core::a::b[sandbox: a new pod]", false),
        ("oracle::getPhase", true),
        ("oracle::noSuchFunction", false),
        ("a_bare_name_of_a_test", false),
        ("kubelet_pod_start_duration_seconds", true),
        ("crates/core/src/lib.rs", true),
        ("crates/core/src/no_such.rs", false),
        ("maxPods", true),
    ] {
        assert_eq!(fault(word, &tests).is_none(), right, "{word}");
    }
}
