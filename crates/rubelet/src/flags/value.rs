//! Parses the values of flags by the rules of Go's `strconv` and pflag.

use std::collections::BTreeMap;

use rubelet_core::config::parse_reserved_memory;

use super::flag::Kind;
use super::settings::Settings;

/// How often this flag was used before on the same command line: some kinds forget their default on first use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    First,
    Again,
}

/// Sets the value of a flag. `word` is its argument, or the implied value if the flag stood alone.
///
/// # Errors
/// Which values would be valid.
pub(super) fn set(kind: &Kind, settings: &mut Settings, word: &str, using: Use) -> Result<(), String> {
    match kind {
        Kind::Bool(at) => *at(settings) = boolean(word)?,
        Kind::Int32(at) => {
            let rule = || format!("must be a whole number between {} and {}", i32::MIN, i32::MAX);
            *at(settings) = integer(word).and_then(|number| i32::try_from(number).ok()).ok_or_else(rule)?;
        }
        Kind::Int64(at) => *at(settings) = integer(word).ok_or("must be a whole number")?,
        Kind::Text(at) | Kind::Path(at) => word.clone_into(at(settings)),
        Kind::Duration(at) => *at(settings) = word.parse().map_err(|e| format!("{e}"))?,
        Kind::List(at) => {
            let words = list(word)?;
            let target = forget(at(settings), using);
            target.extend(words);
        }
        Kind::Map(at) | Kind::Thresholds(at) => {
            let (mark, rule) = match kind {
                Kind::Thresholds(_) => ('<', "must be signal<amount pairs with commas between them"),
                _ => ('=', "must be key=value pairs with commas between them"),
            };
            let pairs = pairs(word, mark).collect::<Option<Vec<_>>>().ok_or(rule)?;
            forget(at(settings), using).extend(pairs);
        }
        Kind::Pair(at) => {
            let (key, value) = pair(word, '=').ok_or("must be one key=value pair")?;
            forget(at(settings), using).insert(key, value);
        }
        Kind::Labels(at) => {
            for part in word.split(',').filter(|part| !part.is_empty()) {
                let (key, value) = pair(part, '=').unwrap_or_else(|| (part.trim().to_owned(), String::new()));
                at(settings).insert(key, value);
            }
        }
        Kind::Gates(at) => {
            let mut gates = BTreeMap::new();
            for part in pairs(word, '=') {
                let (gate, value) = part.ok_or("must be Gate=true or Gate=false pairs with commas between them")?;
                gates.insert(gate.clone(), boolean(&value).map_err(|rule| format!("{gate} {rule}"))?);
            }
            forget(at(settings), using).extend(gates);
        }
        Kind::Headers(at) => {
            let rule = "must be Name:value pairs with commas between them";
            let pairs = pairs(word, ':').collect::<Option<Vec<_>>>().ok_or(rule)?;
            let headers = forget(at(settings), using);
            for (name, value) in pairs {
                headers.entry(name).or_default().push(value);
            }
        }
        Kind::ReservedMemory(at) => {
            let reservations = parse_reserved_memory(word).map_err(|e| e.to_string())?;
            forget(at(settings), using).extend(reservations);
        }
        Kind::Word { set, .. } => set(settings, word)?,
        Kind::Help | Kind::Version => {}
    }
    Ok(())
}

fn forget<T: Default>(target: &mut T, using: Use) -> &mut T {
    if using == Use::First {
        *target = T::default();
    }
    target
}

/// What Go's `strconv.ParseBool` reads.
pub(super) fn boolean(word: &str) -> Result<bool, String> {
    match word {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("must be true or false, not {word:?}")),
    }
}

/// What Go's `strconv.ParseInt` reads with base 0: decimal, 0x, 0o, 0b, and a leading 0 for octal.
fn integer(word: &str) -> Option<i64> {
    let (sign, digits) = match word.as_bytes().first()? {
        b'-' => (-1, word.get(1..)?),
        b'+' => (1, word.get(1..)?),
        _ => (1, word),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, base) = match lower.get(..2) {
        Some("0x") => (lower.get(2..)?, 16),
        Some("0b") => (lower.get(2..)?, 2),
        Some("0o") => (lower.get(2..)?, 8),
        Some(two) if two.starts_with('0') => (lower.get(1..)?, 8),
        Some(_) | None => (lower.as_str(), 10),
    };
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let number = i128::from_str_radix(digits, base).ok()? * sign;
    i64::try_from(number).ok()
}

/// A line of comma separated values; a value with a comma in it stands in double quotes.
fn list(word: &str) -> Result<Vec<String>, String> {
    let mut values = Vec::new();
    let mut rest = word;
    while !word.is_empty() {
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted.find('"').ok_or("has an opening quote that is never closed")?;
                let (value, after) = quoted.split_at(end);
                (value, after.strip_prefix('"').unwrap_or_default())
            }
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
        };
        values.push(value.to_owned());
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => break,
            None => return Err("has text after a closing quote".into()),
        }
    }
    Ok(values)
}

fn pair(part: &str, mark: char) -> Option<(String, String)> {
    part.split_once(mark).map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
}

fn pairs(word: &str, mark: char) -> impl Iterator<Item = Option<(String, String)>> {
    word.split(',').filter(|part| !part.is_empty()).map(move |part| pair(part, mark))
}

/// The present value in a flag's own notation, for the help text; empty if it is nothing.
pub(super) fn show(kind: &Kind, settings: &mut Settings) -> String {
    let number = |n: i64| if n == 0 { String::new() } else { n.to_string() };
    let joined = |map: &BTreeMap<String, String>, mark: &str| {
        map.iter().map(|(key, value)| format!("{key}{mark}{value}")).collect::<Vec<_>>().join(",")
    };
    match kind {
        Kind::Bool(at) => (if *at(settings) { "true" } else { "" }).to_owned(),
        Kind::Int32(at) => number((*at(settings)).into()),
        Kind::Int64(at) => number(*at(settings)),
        Kind::Text(at) | Kind::Path(at) => at(settings).clone(),
        Kind::Duration(at) => Some(*at(settings)).filter(|d| !d.is_zero()).map(|d| d.to_string()).unwrap_or_default(),
        Kind::List(at) => at(settings).join(","),
        Kind::Map(at) | Kind::Pair(at) | Kind::Labels(at) => joined(at(settings), "="),
        Kind::Thresholds(at) => joined(at(settings), "<"),
        Kind::Word { show, .. } => show(settings),
        Kind::Gates(_) | Kind::Headers(_) | Kind::ReservedMemory(_) | Kind::Help | Kind::Version => String::new(),
    }
}

/// The value in force, for `/flagz`. What may hold a secret is not shown.
pub(super) fn in_force(kind: &Kind, settings: &mut Settings) -> String {
    match kind {
        Kind::Bool(at) => at(settings).to_string(),
        Kind::Int32(at) => at(settings).to_string(),
        Kind::Int64(at) => at(settings).to_string(),
        Kind::Duration(at) => at(settings).to_string(),
        Kind::Gates(at) => at(settings).iter().map(|(gate, on)| format!("{gate}={on}")).collect::<Vec<_>>().join(","),
        Kind::Headers(at) => if at(settings).is_empty() { "" } else { "CLASSIFIED" }.to_owned(),
        Kind::Help | Kind::Version => "false".to_owned(),
        _ => show(kind, settings),
    }
}

/// What stands for the value in a help text; empty for flags that take none.
pub(super) const fn value_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Bool(_) | Kind::Help | Kind::Version => "",
        Kind::Int32(_) | Kind::Int64(_) => "N",
        Kind::Text(_) => "TEXT",
        Kind::Path(_) => "PATH",
        Kind::Duration(_) => "DURATION",
        Kind::List(_) => "A,B,…",
        Kind::Map(_) | Kind::Labels(_) => "K=V,…",
        Kind::Pair(_) => "K=V",
        Kind::Thresholds(_) => "SIGNAL<AMOUNT,…",
        Kind::Gates(_) => "GATE=BOOL,…",
        Kind::Headers(_) => "NAME:VALUE,…",
        Kind::ReservedMemory(_) => "NUMA:KIND=SIZE,…",
        Kind::Word { value_name, .. } => value_name,
    }
}
