//! Thresholds that cannot work on a machine, for `rubelet check`.

use std::cmp::Ordering;

use super::{Signal, Threshold};
use crate::manifest::quantity::{Format, Quantity};

/// One sentence for each threshold that is always met because it is as large as all there is. The node would end pods for
/// ever. `capacity` knows how much the machine has of what a signal measures.
pub fn unworkable<'a>(
    thresholds: impl Iterator<Item = &'a Threshold>,
    capacity: impl Fn(Signal) -> Option<i64>,
) -> Vec<String> {
    let beyond = thresholds.filter_map(|threshold| {
        let all = capacity(threshold.signal)?;
        let value = threshold.value.of(all);
        let all = Quantity::units(all, Format::BinarySi);
        let kind = if threshold.is_hard() { "evictionHard" } else { "evictionSoft" };
        (value.cmp_value(&all) != Ordering::Less).then(|| {
            format!("{kind} {}<{value}: this machine has {all} in all, so pods are evicted for ever", threshold.signal)
        })
    });
    beyond.collect()
}
