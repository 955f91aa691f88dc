//! The nearest valid name for a mistyped one, so that a person sees at once what was meant.

/// The candidate that differs least from `name`, if it differs little enough to be meant.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters wrong is still a slip of the hand; more is another word.
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, delete or replace, with neighbours swapped counting once and case not at all.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().flat_map(char::to_lowercase).collect();
    let right: Vec<char> = right.chars().flat_map(char::to_lowercase).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, l) in left.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, r) in right.iter().enumerate() {
            let at = |cells: &[usize], index: usize| cells.get(index).copied().unwrap_or(usize::MAX / 2);
            let replaced = at(&above, column) + usize::from(l != r);
            let mut best = replaced.min(at(&above, column + 1) + 1).min(at(&line, column) + 1);
            let swapped =
                row > 0 && column > 0 && left.get(row - 1) == Some(r) && right.get(column - 1) == Some(l) && l != r;
            if swapped {
                best = best.min(at(&before, column - 1) + 1);
            }
            line.push(best);
        }
        before = std::mem::replace(&mut above, line);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_hand_finds_the_name_that_was_meant() {
        let names = ["containers", "initContainers", "volumes", "hostNetwork", "nodeName"];
        for (typed, meant) in [
            ("contianers", Some("containers")),
            ("container", Some("containers")),
            ("initcontainers", Some("initContainers")),
            ("hostnetwork", Some("hostNetwork")),
            ("volume", Some("volumes")),
            ("replicas", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names), meant, "{typed}");
        }
    }
}
