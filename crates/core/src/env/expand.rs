//! `$(NAME)` in values, commands and arguments (ENV-04, ENV-06).

/// Replaces each `$(NAME)` by what `value` answers, and leaves it as it stands where that is `None`. `$$` is a dollar
/// sign, so that `$$(NAME)` stays a reference in the text; a dollar sign before anything else stays too.
///
/// upstream: third_party/forked/golang/expansion/expand.go Expand (v1.36)
#[doc(alias = "Expand")]
pub fn expand(text: &str, value: &mut dyn FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            rest = escaped;
            continue;
        }
        let reference = after.strip_prefix('(').and_then(|inside| inside.split_once(')'));
        match reference {
            Some((name, tail)) => {
                match value(name) {
                    Some(value) => out.push_str(&value),
                    None => out.extend(["$(", name, ")"]),
                }
                rest = tail;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
