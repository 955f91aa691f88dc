//! "Did you mean …?": the valid name nearest to a mistyped one.

/// Fewest single-character edits (insert, delete, replace, swap two neighbours) that turn `a` into `b`.
///
/// Case, `-` and `_` are ignored: `hairpinmode` and `hairpin_mode` have distance 0 to `hairpin-mode`, because users often
/// mistype flags and fields this way.
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let letters =
        |s: &str| s.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect::<Vec<_>>();
    let (a, b) = (letters(a), letters(b));
    let mut older: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let at = |r: &[usize], k: usize| r.get(k).copied().unwrap_or(usize::MAX - 1);
            let mut best = (at(&previous, j) + usize::from(x != y)).min(at(&previous, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(&y) && b.get(j - 1) == Some(&x);
            if swapped {
                best = best.min(at(&older, j - 1) + 1);
            }
            row.push(best);
        }
        older = std::mem::replace(&mut previous, row);
    }
    previous.last().copied().unwrap_or_default()
}

/// The valid name that `wrong` was most likely meant to be, or none if nothing is near enough to be a fair guess.
#[must_use]
pub fn nearest<'a>(wrong: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters: below that people recognise the name, above it a guess misleads.
    let limit = (wrong.chars().count() / 3).min(6);
    valid
        .into_iter()
        .map(|name| (distance(wrong, name), name))
        .filter(|(far, _)| *far <= limit)
        .min_by_key(|(far, name)| (*far, *name))
        .map(|(_, name)| name)
}
