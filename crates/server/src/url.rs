//! Percent signs in a URL, as far as names of pods and checks need them.

/// Writes `text` so that it can be part of a path; `/` stays.
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

/// Reads what [`encode`] wrote. What is no escape stays as it is; what is no text is marked.
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

/// The values of `key` in a query; a key without a value has an empty one. In a query, unlike in a path, a plus sign
/// is a blank.
pub(crate) fn query_values(query: Option<&str>, key: &str) -> Vec<String> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    // Who asks chooses how many pairs there are: a name without an escape is compared as it is.
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
    fn what_is_encoded_is_read_back() {
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
