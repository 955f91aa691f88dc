//! Percent-encoding of pod names and health check names in URLs.

/// Encodes `text` as part of a path; `/` is kept.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'/') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Decodes a path. Invalid escapes are kept, invalid UTF-8 is replaced.
pub(crate) fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail.get(..2).filter(|_| *first == b'%').and_then(|hex| {
            let hex = std::str::from_utf8(hex).ok().filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
            u8::from_str_radix(hex, 16).ok()
        });
        out.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The values of `key` in a query; a key without a value has an empty one. In a query, unlike in a path, `+` is a space.
pub(crate) fn query_values(query: Option<&str>, key: &str) -> Vec<String> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    // The client chooses the number of pairs: a name without an escape is compared without decoding it.
    let is = |name: &str| name == key || name.contains(['%', '+']) && decode(&name.replace('+', " ")) == key;
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| is(name))
        .map(|(_, value)| decode(&value.replace('+', " ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, query_values};

    #[test]
    fn decoding_reverses_encoding() {
        for text in ["", "default/web", "/etc/kubernetes/manifests/a b%.yaml", "ümlaut?&=#", "%", "%4", "%zz", "%+1"] {
            assert_eq!(decode(&encode(text)), text);
        }
        for (text, read) in
            [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%+1", "%+1"), ("a%2Fb", "a/b"), ("%ff", "\u{fffd}")]
        {
            assert_eq!(decode(text), read);
        }
    }

    #[test]
    fn a_query_may_repeat_a_key() {
        assert_eq!(query_values(Some("verbose&exclude=ping&exclude=a%20b"), "exclude"), ["ping", "a b"]);
        assert_eq!(query_values(Some("command=sh&command=a+b%2Bc"), "command"), ["sh", "a b+c"]);
        assert_eq!(query_values(Some("verbose&exclude=ping"), "verbose"), [""]);
        assert!(query_values(None, "verbose").is_empty());
    }
}
