//! Versions as upstream writes them down.

/// What the API shows of the runtime's own version: `v2.1.9` is `2.1.9`, `1.7.24~ds1` is `1.7.24`, and what is no
/// version at all is `Unknown`.
/// upstream: apimachinery/pkg/util/version ParseSemantic, ParseGeneric; kuberuntime newRuntimeVersion (v1.36)
pub fn runtime_version(text: &str) -> String {
    let body = text.trim();
    let body = body.strip_prefix('v').unwrap_or(body);
    let end = body.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(body.len());
    let (numbers, extra) = body.split_at(end);
    let numbers: Vec<&str> = numbers.trim_end_matches('.').split('.').collect();
    if numbers.iter().any(|number| number.is_empty()) {
        return "Unknown".to_owned();
    }
    let without_zeros = |number: &&str| match number.trim_start_matches('0') {
        "" => "0".to_owned(),
        number => number.to_owned(),
    };
    let plain = numbers.iter().map(without_zeros).collect::<Vec<_>>().join(".");
    // Of a semantic version the suffix belongs to it; of any other it is dropped.
    if numbers.len() == 3 && is_suffix(extra) { format!("{plain}{extra}") } else { plain }
}

/// `-rc.1`, `+build`, both or nothing.
fn is_suffix(extra: &str) -> bool {
    let (before, build) = match extra.split_once('+') {
        Some((before, build)) => (before, Some(build)),
        None => (extra, None),
    };
    let word = |text: &str| {
        text.split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
    };
    let before_fits = before.is_empty() || before.strip_prefix('-').is_some_and(word);
    before_fits && build.is_none_or(word)
}
