//! The documents say what is so: dependencies, decisions, links, the words of the glossary. Commands: `docs.rs`.

mod tree;

use std::collections::BTreeSet;
use std::path::Path;

use tree::{files, read, root};

/// Names in `[workspace.dependencies]` that others made.
fn third_party() -> BTreeSet<String> {
    let text = read("Cargo.toml");
    let (_, rest) = text.split_once("[workspace.dependencies]\n").expect("the section");
    let section = rest.split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned()));
    names.filter(|name| !name.starts_with("rubelet-") && !name.starts_with('#')).collect()
}

#[test]
fn every_dependency_has_its_reason_and_no_other_has() {
    let page = read("docs/dependencies.md");
    let documented: BTreeSet<String> =
        page.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned())).collect();
    assert_eq!(third_party(), documented, "docs/dependencies.md and Cargo.toml differ");
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let empty = line.trim_matches('|').split(" | ").any(|cell| cell.trim().is_empty());
        assert!(!empty && line.matches(" | ").count() >= 2, "what for, and why not its rival? {line}");
    }
}

#[test]
fn every_dependency_is_used() {
    let manifests: String = files("crates", &["Cargo.toml"]).iter().map(|file| read(file)).collect();
    let unused: Vec<String> = third_party()
        .into_iter()
        .filter(|name| {
            let (plain, with) = (format!("\n{name}.workspace"), format!("\n{name} = {{ workspace"));
            !manifests.contains(&plain) && !manifests.contains(&with)
        })
        .collect();
    assert!(unused.is_empty(), "in Cargo.toml, but in no crate: {unused:?}");
}

#[test]
fn decisions_are_numbered_and_complete() {
    let pages: Vec<String> =
        files("docs/adr", &[".md"]).into_iter().filter(|file| !file.ends_with("README.md")).collect();
    let index = read("docs/adr/README.md");
    for (number, page) in (1..).zip(&pages) {
        let name = page.trim_start_matches("docs/adr/");
        assert!(name.starts_with(&format!("{number:04}-")), "{page} should be number {number}");
        assert!(index.contains(&format!("({name})")), "docs/adr/README.md does not name {name}");
        let text = read(page);
        for part in [format!("# {number}. ").as_str(), "## Context", "## Choice", "## Price"] {
            assert!(text.contains(part), "{page} has no {part:?}");
        }
        assert!(text.contains("\nAccepted.\n") || text.contains("\nSuperseded by "), "{page} does not say if it holds");
    }
    assert!(pages.len() >= 8, "a decision is superseded, never removed");
}

#[test]
fn links_lead_somewhere() {
    let mut pages = files("docs", &[".md"]);
    pages.extend(files("tests", &[".md"]));
    pages.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(str::to_owned));
    for page in pages {
        let text = read(&page);
        let dir = root().join(Path::new(&page).parent().unwrap_or(Path::new("")));
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || file.is_empty();
            assert!(elsewhere || dir.join(file).exists(), "{page}: {target} leads nowhere");
        }
    }
}

/// `struct Job`, `mod resize`, `fn finish`: whether `text` defines `name`.
fn defines(text: &str, name: &str) -> bool {
    const KINDS: [&str; 6] = ["struct", "enum", "trait", "fn", "type", "mod"];
    text.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        words.any(|word| KINDS.contains(&word)) && words.next() == Some(name)
    })
}

#[test]
fn the_words_of_the_glossary_are_those_of_the_code() {
    let page = read("docs/glossary.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| word")).collect();
    assert!(rows.len() >= 50, "{} words", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [word, meaning, here, _upstream] = cells[..] else { panic!("not four columns: {row}") };
        assert!(!word.is_empty() && meaning.split_whitespace().count() > 3, "{row}");
        let Some((of, name)) = here.trim_matches('`').split_once("::") else { continue };
        let sources = files(&format!("crates/{of}/src"), &[".rs"]);
        if !sources.iter().any(|file| defines(&read(file), name)) {
            wrong.push(format!("{word}: crates/{of} defines no {name}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(defines("    pub(crate) async fn look(&self) {", "look") && !defines("fn looks() {", "look"));
}
