//! Patterns of registries: `*.example.com/team`, one star per label of the host.

/// `pattern` covers `repository`: the same port, as many labels, each of them matched, and a path that begins with the
/// pattern's.
#[doc(alias = "URLsMatch")]
pub(super) fn matches(pattern: &str, repository: &str) -> bool {
    let (pattern_host, pattern_port, pattern_path) = parts(pattern);
    let (host, port, path) = parts(repository);
    let labels = pattern_host.split('.').count();
    pattern_port == port
        && labels == host.split('.').count()
        && path.starts_with(pattern_path)
        && pattern_host.split('.').zip(host.split('.')).all(|(pattern, label)| covers(pattern, label))
}

/// Host, port and path.
fn parts(text: &str) -> (&str, &str, &str) {
    let (authority, path) = text.find('/').map_or((text, ""), |at| text.split_at(at));
    let (host, port) = match authority.rsplit_once(':') {
        // The last colon of an address in brackets may be its own.
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, ""),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port, path)
}

/// One label against one part of a pattern: `*`, `?`, `[a-z]`, `\` before what is meant as it is. A pattern that is
/// broken covers nothing.
///
/// upstream: Go's filepath.Match
fn covers(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    covers_chars(&pattern, &text)
}

fn covers_chars(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['*', rest @ ..] => (0..=text.len()).any(|taken| covers_chars(rest, text.get(taken..).unwrap_or_default())),
        ['?', rest @ ..] => text.split_first().is_some_and(|(_, text)| covers_chars(rest, text)),
        ['[', rest @ ..] => {
            let Some((first, text)) = text.split_first() else { return false };
            let Some((hit, rest)) = one_of(rest, *first) else { return false };
            hit && covers_chars(rest, text)
        }
        ['\\', wanted, rest @ ..] | [wanted, rest @ ..] => {
            text.split_first().is_some_and(|(first, text)| first == wanted && covers_chars(rest, text))
        }
    }
}

/// Whether `c` is in the set that `pattern` begins with, and the pattern after it; `None` if the set is broken.
fn one_of(pattern: &[char], c: char) -> Option<(bool, &[char])> {
    let (negated, mut rest) = match pattern {
        ['^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let mut hit = false;
    let mut first = true;
    loop {
        match rest {
            [']', after @ ..] if !first => return Some((hit != negated, after)),
            [low, '-', high, after @ ..] if *high != ']' => {
                hit |= (*low..=*high).contains(&c);
                rest = after;
            }
            [']' | '-', ..] | [] => return None,
            [single, after @ ..] => {
                hit |= *single == c;
                rest = after;
            }
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // IMG-06; upstream: credentialprovider/keyring_test.go TestURLsMatch; Go's filepath.Match
    #[test]
    fn img_06_the_grammar_of_patterns() {
        for (pattern, text, expected) in [
            ("[a-c]", "b", true),
            ("[a-c]", "d", false),
            ("[^a-c]", "d", true),
            ("[^a-c]", "b", false),
            ("[abc]x", "cx", true),
            ("[a-cx]", "x", true),
            // A set is not empty, and has both ends of a range.
            ("[]", "a", false),
            ("[]a]", "a", false),
            ("[a-]", "a", false),
            ("[a-]", "-", false),
            ("[-a]", "a", false),
            ("[a", "a", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("?", "a", true),
            ("?", "", false),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "ab", false),
        ] {
            assert_eq!(covers(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn img_06_host_port_and_path_of_a_registry() {
        for (text, expected) in [
            ("example.com", ("example.com", "", "")),
            ("example.com:5000/a/b", ("example.com", "5000", "/a/b")),
            ("[::1]", ("::1", "", "")),
            ("[::1]:5000/a", ("::1", "5000", "/a")),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }
}
