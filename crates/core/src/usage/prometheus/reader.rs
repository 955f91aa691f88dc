//! Reads a page as strictly as Prometheus does, and more: no family twice, no series twice, no sample outside its family.

use std::collections::{BTreeMap, BTreeSet};

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::usage) struct Sample {
    pub(in crate::usage) labels: BTreeMap<String, String>,
    pub(in crate::usage) value: f64,
    pub(in crate::usage) stamp: Option<i64>,
}

/// One family.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::usage) struct Family {
    pub(in crate::usage) kind: String,
    pub(in crate::usage) samples: Vec<Sample>,
}

/// The families of a page, or why it is none.
pub(in crate::usage) fn read(page: &str) -> Result<BTreeMap<String, Family>, String> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    if !page.is_empty() && !page.ends_with('\n') {
        return Err("the last line has no end".into());
    }
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let fail = |why: &str| format!("{why}: {line}");
        let (name, _help) =
            line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')).ok_or_else(|| fail("no HELP"))?;
        let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE ")?.strip_prefix(name)?.strip_prefix(' '));
        let kind = kind.filter(|kind| ["counter", "gauge"].contains(kind)).ok_or_else(|| fail("no TYPE"))?;
        let mut family = Family { kind: kind.to_owned(), samples: Vec::new() };
        let mut seen = BTreeSet::new();
        let mut names = None;
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let sample = sample(name, line).ok_or_else(|| format!("no sample of {name}: {line}"))?;
            if !seen.insert(sample.labels.clone()) {
                return Err(format!("a series twice: {line}"));
            }
            let own: Vec<String> = sample.labels.keys().cloned().collect();
            if *names.get_or_insert_with(|| own.clone()) != own {
                return Err(format!("other labels than the sample before: {line}"));
            }
            family.samples.push(sample);
        }
        if family.samples.is_empty() || families.insert(name.to_owned(), family).is_some() {
            return Err(fail("a family twice or without samples"));
        }
    }
    Ok(families)
}

fn sample(name: &str, line: &str) -> Option<Sample> {
    let mut rest = line.strip_prefix(name)?;
    let mut labels = BTreeMap::new();
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            let (label, quoted) = inner.split_once("=\"")?;
            let good = !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let (value, after) = unquote(quoted)?;
            if !good || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            if let Some(next) = after.strip_prefix(',') {
                inner = next;
            } else {
                rest = after.strip_prefix('}')?;
                break;
            }
        }
    }
    let mut words = rest.strip_prefix(' ')?.split(' ');
    let value = words.next()?.parse().ok()?;
    let stamp = words.next().map(|stamp| stamp.parse().ok()).map_or(Some(None), |stamp| stamp.map(Some))?;
    words.next().is_none().then_some(Sample { labels, value, stamp })
}

/// The value up to its quote, and what follows.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}
