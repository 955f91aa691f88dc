//! The documents for people who run a node or change the code: their commands parse, their configurations load, and what
//! they show is what the program prints.
//!
//! A block ` ```sh ` holds commands. A block ` ```console ` holds commands after `# ` and what they print; one marked
//! `console run` is run here, without root, and compared; `…` stands for any lines. A block ` ```yaml ` whose first line is
//! a comment with a path is the file of that path for the commands of its page; `yaml wrong` is not valid, on purpose.

mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use rubelet::config_load::{Loaded, load};
use rubelet::flags::{self, parse};
use rubelet_core::config::CgroupVersion;
use tree::{files, read, root};

/// Programs that pages name and that are not ours.
const OTHERS: [&str; 17] = [
    "apt",
    "apt-mark",
    "cargo",
    "cp",
    "crictl",
    "curl",
    "install",
    "journalctl",
    "kubeadm",
    "kubectl",
    "ln",
    "mkdir",
    "mv",
    "openssl",
    "rm",
    "systemctl",
    "tar",
];

/// A fenced block of a page.
struct Block {
    page: String,
    /// What follows the opening fence: a language, and perhaps a marker.
    info: String,
    text: String,
}

fn pages() -> Vec<String> {
    let top = files("docs", &[".md"]).into_iter().filter(|page| page.matches('/').count() == 1);
    top.chain(["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(str::to_owned)).collect()
}

fn blocks() -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    for page in pages() {
        let mut inside = false;
        for line in read(&page).lines() {
            match line.strip_prefix("```") {
                Some(info) if !inside => {
                    inside = true;
                    found.push(Block { page: page.clone(), info: info.to_owned(), text: String::new() });
                }
                Some(_) => inside = false,
                None if inside => found.last_mut().expect("opened").text.extend([line, "\n"]),
                None => {}
            }
        }
        assert!(!inside, "{page}: a block is not closed");
    }
    found
}

/// The command of a unit's start line, without its directory.
fn started(line: &str) -> Option<&str> {
    line.strip_prefix("ExecStart=/usr/bin/").or_else(|| line.strip_prefix("ExecStart=/usr/local/bin/"))
}

/// The commands of a block, each as its words, without a comment after it and without variables before it.
fn commands(block: &Block) -> Vec<Vec<String>> {
    let lines: Vec<&str> = match block.info.split(' ').next() {
        Some("sh") => block.text.lines().collect(),
        Some("console") => block.text.lines().filter_map(|line| line.strip_prefix("# ")).collect(),
        Some("ini") => block.text.lines().filter_map(started).collect(),
        Some(_) | None => Vec::new(),
    };
    let words = |line: &str| -> Vec<String> {
        let words = line.split(" #").next().unwrap_or_default().split_whitespace();
        let variable = |word: &&str| {
            word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        };
        words.skip_while(variable).filter(|word| !word.starts_with('$')).map(str::to_owned).collect()
    };
    lines.into_iter().map(words).filter(|words| !words.is_empty()).collect()
}

#[test]
fn every_command_that_a_page_shows_exists() {
    let makefile = read("Makefile");
    let mut ours = 0;
    for block in blocks() {
        for words in commands(&block) {
            let (page, program) = (&block.page, words.first().map(String::as_str).unwrap_or_default());
            match program {
                "make" => {
                    let target = words.iter().skip(1).find(|word| !word.contains('=')).expect("a target");
                    assert!(makefile.contains(&format!("\n{target}: ##")), "{page}: make {target}");
                }
                "rubelet" | "kubelet" | "./rubelet-new" => {
                    ours += 1;
                    // A command that is shown with its complaint is checked where it is run.
                    let parsed = parse(words.iter().skip(1).map(Into::into));
                    let problem = parsed.err().map(|err| err.to_string());
                    assert!(
                        problem.as_ref().is_none_or(|problem| block.text.contains(problem.as_str())),
                        "{page}: {words:?}: {problem:?}"
                    );
                }
                path if path.starts_with("tests/") => assert!(root().join(path).exists(), "{page}: no {path}"),
                other => assert!(OTHERS.contains(&other), "{page}: a command of whom? {words:?}"),
            }
        }
    }
    assert!(ours >= 15, "{ours} commands of rubelet were found");
}

/// The files that a page's blocks of this language show, by the path in their first line.
fn shown_files(page: &str) -> BTreeMap<String, String> {
    let of_page = blocks().into_iter().filter(|block| block.page == page && block.info.starts_with("yaml"));
    let named = of_page.filter_map(|block| {
        let path = block.text.lines().next()?.strip_prefix("# ")?.trim().to_owned();
        path.starts_with('/').then_some((path, block.text))
    });
    named.collect()
}

/// Whether `actual` has the lines of `expected`, where `…` stands for any lines.
fn matches(expected: &[&str], actual: &[&str]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((&"…", rest)) => (0..=actual.len()).any(|skip| matches(rest, actual.get(skip..).unwrap_or_default())),
        Some((line, rest)) => {
            actual.split_first().is_some_and(|(first, others)| first == line && matches(rest, others))
        }
    }
}

#[test]
fn what_pages_show_is_what_the_program_prints() {
    let mut ran = 0;
    for block in blocks().iter().filter(|block| block.info == "console run") {
        let dir = tempfile::tempdir().expect("a directory");
        let here = |path: &str| dir.path().join(path.trim_start_matches('/').replace('/', "-")).display().to_string();
        let files = shown_files(&block.page);
        for (path, text) in &files {
            std::fs::write(here(path), text).expect("written");
        }
        let [words] = &commands(block)[..] else { panic!("{}: one command per block", block.page) };
        let args = words.iter().skip(1).map(|word| if files.contains_key(word) { here(word) } else { word.clone() });
        let output =
            Command::new(env!("CARGO_BIN_EXE_rubelet")).args(args).env("NO_COLOR", "1").output().expect("it runs");
        let mut text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
        for path in files.keys() {
            text = text.replace(&here(path), path);
        }
        let expected: Vec<&str> = block.text.lines().skip(1).collect();
        assert!(
            matches(&expected, &text.lines().collect::<Vec<_>>()),
            "{}: {words:?} prints\n{text}\nand the page shows\n{}",
            block.page,
            expected.join("\n")
        );
        ran += 1;
    }
    assert!(ran >= 4, "{ran} commands were run");
}

/// Loads a configuration as a start with `--config` would.
fn loaded(text: &str) -> Result<Loaded, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config.yaml");
    std::fs::write(&path, text).expect("written");
    let args = ["--config".into(), path.into_os_string()];
    let Ok(flags::Command::Run(options)) = parse(args) else { panic!("this starts the node") };
    load(&options, CgroupVersion::V2).map_err(|err| err.to_string())
}

#[test]
fn configurations_that_pages_show_are_taken_without_a_warning() {
    let mut seen = 0;
    let all = blocks();
    for block in all.iter().filter(|block| block.text.contains("kind: KubeletConfiguration")) {
        let loaded = loaded(&block.text).unwrap_or_else(|err| panic!("{}: {err}", block.page));
        let warnings = [loaded.warnings, loaded.tolerated].concat();
        assert_eq!(warnings.is_empty(), block.info != "yaml wrong", "{}: {warnings:?}", block.page);
        seen += 1;
    }
    assert!(seen >= 4, "{seen} configurations");
}

#[test]
fn the_service_of_the_package_starts_a_node_with_a_configuration_that_is_taken_without_a_warning() {
    let unit = read("packaging/kubelet.service");
    let command = unit.lines().find_map(started).expect("a start line");
    let of_kubeadm: BTreeMap<&str, &str> = unit
        .lines()
        .filter_map(|line| line.strip_prefix("Environment=\"")?.strip_suffix('"')?.split_once('='))
        .chain([("KUBELET_KUBEADM_ARGS", "--node-ip=192.0.2.1"), ("KUBELET_EXTRA_ARGS", "-v=2")])
        .collect();
    let standalone = read("packaging/standalone.env");
    let mut of_one_machine = of_kubeadm.clone();
    of_one_machine.remove("KUBELET_KUBEADM_ARGS");
    of_one_machine
        .extend(standalone.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('=')));
    // As systemd does it: a variable that is a word of its own becomes its words.
    let words = |variables: &BTreeMap<&str, &str>| -> Vec<String> {
        let values = |word: &str| match word.strip_prefix('$') {
            Some(name) => variables.get(name).unwrap_or(&"").split_whitespace().map(str::to_owned).collect(),
            None => vec![word.to_owned()],
        };
        command.split_whitespace().skip(1).flat_map(values).collect()
    };
    for (variables, config) in
        [(&of_kubeadm, "/var/lib/kubelet/config.yaml"), (&of_one_machine, "/etc/rubelet/config.yaml")]
    {
        let words = words(variables);
        assert!(words.contains(&format!("--config={config}")), "{words:?}");
        assert_eq!(words.iter().any(|word| word.starts_with("--kubeconfig=")), config.starts_with("/var"), "{words:?}");
        let parsed = parse(words.iter().map(Into::into)).map_err(|err| err.to_string());
        assert!(matches!(parsed, Ok(flags::Command::Run(_))), "{words:?}");
    }
    let loaded = loaded(&read("packaging/config.yaml")).expect("valid");
    assert_eq!([loaded.warnings, loaded.tolerated].concat(), Vec::<String>::new());
}

/// The cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    Some(line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").map(str::trim).collect())
}

#[test]
fn the_figures_of_the_readme_are_those_that_were_measured() {
    let (readme, measured, conformance) =
        (read("README.md"), read("docs/performance.md"), read("tests/e2e/last-full-run.txt"));
    let rows: BTreeSet<[&str; 3]> = measured
        .lines()
        .filter_map(cells)
        .filter_map(|row| Some([*row.first()?, *row.get(2)?, *row.get(3)?]))
        .collect();
    let (_, section) = readme.split_once("## Against upstream's kubelet").expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut seen = 0;
    for row in section.lines().filter_map(cells).filter(|row| row.first() != Some(&"figure")) {
        let [figure, rubelet, upstream] = row[..] else { panic!("three columns: {row:?}") };
        assert!(rows.contains(&[figure, rubelet, upstream]), "docs/performance.md has no such row: {row:?}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen} figures");
    let (_, run) = measured.split_once("`make bench`, ").expect("the line of the run");
    let date = run.split(';').next().unwrap_or_default();
    let build = run.split_once(". rubelet ").and_then(|(_, rest)| rest.split(',').next()).expect("the build");
    assert!(section.contains(&format!("on {date}: rubelet {build} ")), "the run was of {build}, on {date}");
    let [_commit, _date, passed, total] = conformance.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("commit, date, passed, total: {conformance}")
    };
    assert!(section.contains(&format!("passes {passed} of the {total} node specs")), "{passed} of {total} passed");
}

/// As the heading's address is made from its text.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_to_a_heading_find_it() {
    for page in pages() {
        let text = read(&page);
        let dir = page.rsplit_once('/').map_or("", |(dir, _)| dir);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, wanted)) = target.split_once('#').filter(|_| !target.contains("://")) else { continue };
            let other =
                if file.is_empty() { text.clone() } else { read(format!("{dir}/{file}").trim_start_matches('/')) };
            let mut headings = other
                .lines()
                .filter(|line| line.starts_with('#'))
                .map(|line| anchor(line.trim_start_matches('#').trim()));
            assert!(headings.any(|heading| heading == wanted), "{page}: {target} leads to no heading");
        }
    }
}
