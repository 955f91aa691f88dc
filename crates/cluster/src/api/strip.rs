//! Objects without `metadata.managedFields`.
//!
//! Managed fields are often half of an object, and nothing in rubelet reads them. They are cut out of the JSON text before
//! it is decoded, which saves the maps that the decoder would build for them.

use std::borrow::Cow;

/// `object` without `metadata.managedFields`. Text that is not a JSON object is returned unchanged, for the decoder to reject.
pub(super) fn without_managed_fields(object: &str) -> Cow<'_, str> {
    match find(object.as_bytes()) {
        Some((start, end)) => {
            let (before, after) = (object.get(..start), object.get(end..));
            Cow::Owned([before.unwrap_or_default(), after.unwrap_or_default()].concat())
        }
        None => Cow::Borrowed(object),
    }
}

/// The byte range to cut: the member and one adjacent comma.
fn find(text: &[u8]) -> Option<(usize, usize)> {
    let metadata = member(text, 0, b"\"metadata\"")?;
    let fields = member(text, metadata.value, b"\"managedFields\"")?;
    let end = skip_value(text, fields.value)?;
    let after = skip_blank(text, end);
    if text.get(after) == Some(&b',') {
        return Some((fields.key, after.saturating_add(1)));
    }
    // For the last member, the comma before it is cut, if there is one.
    Some((fields.comma.unwrap_or(fields.key), end))
}

/// The position of a member in an object.
struct Member {
    /// The comma before it.
    comma: Option<usize>,
    key: usize,
    value: usize,
}

/// Finds the member with this key (in quotes) in the object that starts at `at`.
fn member(text: &[u8], at: usize, key: &[u8]) -> Option<Member> {
    let mut at = skip_blank(text, at);
    if text.get(at) != Some(&b'{') {
        return None;
    }
    let mut comma = None;
    loop {
        at = skip_blank(text, at.checked_add(1)?);
        let start = at;
        let end = skip_string(text, start)?;
        let colon = skip_blank(text, end);
        if text.get(colon) != Some(&b':') {
            return None;
        }
        let value = skip_blank(text, colon.checked_add(1)?);
        if text.get(start..end) == Some(key) {
            return Some(Member { comma, key: start, value });
        }
        at = skip_blank(text, skip_value(text, value)?);
        if text.get(at) != Some(&b',') {
            return None;
        }
        comma = Some(at);
    }
}

fn skip_blank(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at.saturating_add(rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count())
}

/// The position after the string that starts at `at`.
fn skip_string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at.checked_add(1)?;
    loop {
        match text.get(at)? {
            b'"' => return at.checked_add(1),
            b'\\' => at = at.checked_add(2)?,
            _ => at = at.checked_add(1)?,
        }
    }
}

/// The position after the value that starts at `at`.
fn skip_value(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => skip_string(text, at),
        b'{' | b'[' => {
            let (mut at, mut depth) = (at, 0_u32);
            loop {
                match text.get(at)? {
                    b'"' => {
                        at = skip_string(text, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth = depth.checked_add(1)?,
                    b'}' | b']' => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                at = at.checked_add(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => {
            let rest = text.get(at..)?;
            let length = rest.iter().take_while(|byte| !matches!(byte, b',' | b'}' | b']')).count();
            at.checked_add(length)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
    use serde_json::Value;

    use super::*;

    /// Arbitrary JSON whose strings resemble the keys that are searched for.
    fn json() -> impl Strategy<Value = Value> {
        let word = || {
            let words = ["metadata", "managedFields", "a", "]}", "\"", "\\", "\\\"", ",", ": ", "{", ""];
            (0..words.len()).prop_map(move |index| words.get(index).copied().unwrap_or_default().to_owned())
        };
        let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), word().prop_map(Value::from)];
        leaf.prop_recursive(5, 60, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(word(), inner, 0..5).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn cutting_then_decoding_equals_decoding_then_removing(object in json()) {
            let texts = [object.to_string(), serde_json::to_string_pretty(&object).unwrap()];
            let mut expected = object;
            if let Some(Value::Object(metadata)) = expected.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            for text in texts {
                let read: Value = serde_json::from_str(&without_managed_fields(&text)).unwrap();
                assert_eq!(read, expected, "{text}");
            }
        }

        #[test]
        fn arbitrary_text_never_panics(text in r#"[{}\[\]",:\\ a0]{0,40}"#) {
            let _ = without_managed_fields(&text);
        }
    }

    #[test]
    fn managed_fields_are_cut_at_any_position_and_nothing_else_is() {
        let rows = [
            // As only, first, middle and last member.
            (r#"{"metadata":{"managedFields":[{"a":1}]},"x":1}"#, r#"{"metadata":{},"x":1}"#),
            (r#"{"metadata":{"managedFields":[],"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
            (r#"{"metadata":{"a":1,"managedFields":[{"f:x":{"]":"}\""}}],"b":2}}"#, r#"{"metadata":{"a":1,"b":2}}"#),
            (r#"{"metadata":{"a":1,"managedFields":null}}"#, r#"{"metadata":{"a":1}}"#),
            (
                r#"{ "a" : "metadata" , "metadata" : { "b" : 1 , "managedFields" : [ ] } }"#,
                r#"{ "a" : "metadata" , "metadata" : { "b" : 1  } }"#,
            ),
            // Outside metadata the name means something else.
            (
                r#"{"spec":{"managedFields":[1]},"metadata":{"name":"a"}}"#,
                r#"{"spec":{"managedFields":[1]},"metadata":{"name":"a"}}"#,
            ),
            (r#"{"metadata":{"labels":{"managedFields":"x"}}}"#, r#"{"metadata":{"labels":{"managedFields":"x"}}}"#),
            // Text without metadata, or not an object, is unchanged.
            (r#"{"items":[]}"#, r#"{"items":[]}"#),
            (r#"[1,2]"#, r#"[1,2]"#),
            (r#"{"metadata":{"managedFields":[{"a":1}"#, r#"{"metadata":{"managedFields":[{"a":1}"#),
            (r#"{"metadata"#, r#"{"metadata"#),
            ("", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(without_managed_fields(text), expected, "{text}");
        }
    }
}
