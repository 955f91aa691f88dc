//! Validates Kubernetes quantities in a configuration: whether a text is a quantity, and its sign. The amount is computed
//! where it is used.
//!
//! upstream: apimachinery/pkg/api/resource ParseQuantity (v1.36).

use std::cmp::Ordering;

/// The quantity compared with zero; `None` if the text is not a quantity.
pub(super) fn sign(text: &str) -> Option<Ordering> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let points = number.matches('.').count();
    if points > 1 || number.len() == points || !is_suffix(suffix) {
        return None;
    }
    Some(match (number.bytes().all(|b| matches!(b, b'0' | b'.')), negative) {
        (true, _) => Ordering::Equal,
        (false, true) => Ordering::Less,
        (false, false) => Ordering::Greater,
    })
}

fn is_suffix(suffix: &str) -> bool {
    const BINARY_AND_DECIMAL: [&str; 15] =
        ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "m", "k", "M", "G", "T", "P"];
    if BINARY_AND_DECIMAL.contains(&suffix) || suffix == "E" {
        return true;
    }
    let exponent = suffix.strip_prefix(['e', 'E']).map(|e| e.strip_prefix(['-', '+']).unwrap_or(e));
    exponent.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // upstream: resource/quantity_test.go TestQuantityParse (v1.36)
    #[test]
    fn a_text_is_a_quantity_with_a_sign_or_none() {
        use Ordering::{Equal, Greater, Less};
        for (text, expected) in [
            ("1", Some(Greater)),
            ("+1", Some(Greater)),
            ("-1", Some(Less)),
            ("0", Some(Equal)),
            ("-0.0", Some(Equal)),
            ("1.5Gi", Some(Greater)),
            (".5", Some(Greater)),
            ("5.", Some(Greater)),
            ("1e3", Some(Greater)),
            ("1E-3", Some(Greater)),
            ("1e+3", Some(Greater)),
            ("1E", Some(Greater)),
            ("1e", None),
            ("1e3x", None),
            ("1.2.3", None),
            ("1..", None),
            (".", None),
            ("..", None),
            ("", None),
            ("+", None),
            ("-", None),
            ("Ki", None),
            ("1KiB", None),
            ("++1", None),
        ] {
            assert_eq!(sign(text), expected, "{text:?}");
        }
    }
}
