//! The formats of the kernel's files.

use std::time::Duration;

use rubelet_core::usage::{Stall, Stalls};

/// The lines `key value` of a file.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(pair)
}

/// One of these lines.
pub(super) fn pair(line: &str) -> Option<(&str, u64)> {
    let (key, value) = line.split_once(' ')?;
    Some((key, value.trim().parse().ok()?))
}

/// One pressure file: a line `some` and a line `full`, which `cpu.pressure` of older kernels lacks.
pub(super) fn stalls(text: &str) -> Option<Stalls> {
    let mut stalls = Stalls::default();
    let mut seen = false;
    for line in text.lines() {
        let (kind, values) = line.split_once(' ')?;
        match kind {
            "some" => (stalls.some, seen) = (stall(values)?, true),
            "full" => stalls.full = stall(values)?,
            _ => {}
        }
    }
    seen.then_some(stalls)
}

fn stall(values: &str) -> Option<Stall> {
    let mut stall = Stall::default();
    for (key, value) in values.split_whitespace().filter_map(|pair| pair.split_once('=')) {
        match key {
            "avg10" => stall.avg10 = hundredths(value)?,
            "avg60" => stall.avg60 = hundredths(value)?,
            "avg300" => stall.avg300 = hundredths(value)?,
            "total" => stall.total = Duration::from_micros(value.parse().ok()?),
            _ => {}
        }
    }
    Some(stall)
}

/// `12.34` is 1234.
fn hundredths(value: &str) -> Option<u32> {
    let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
    let part: u32 = match part.len() {
        1 => part.parse::<u32>().ok()? * 10,
        2 => part.parse().ok()?,
        _ => part.get(..2)?.parse().ok()?,
    };
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part)
}

/// The fourth field of `/proc/loadavg`: runnable and all threads.
pub(super) fn threads_of_loadavg(text: &str) -> Option<u64> {
    text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// A line of a meminfo file in bytes.
pub(super) fn meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The CPUs of a list such as `0-3,8`, at most so many.
pub(super) fn cpu_list(list: &str, most: usize) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sts_02_pressure_is_read_with_two_decimals() {
        let text = "some avg10=1.53 avg60=0.07 avg300=12.00 total=157656722\nfull avg10=0.00 avg60=0.5 avg300=100.00 total=7\n";
        let stalls = stalls(text).expect("a pressure file");
        assert_eq!((stalls.some.avg10, stalls.some.avg60, stalls.some.avg300), (153, 7, 1200));
        assert_eq!(
            (stalls.some.total, stalls.full.total),
            (Duration::from_micros(157_656_722), Duration::from_micros(7))
        );
        assert_eq!((stalls.full.avg60, stalls.full.avg300), (50, 10_000));
        assert_eq!(super::stalls(""), None);
        assert_eq!(super::stalls("some avg10=x\n"), None);
    }

    #[test]
    fn pairs_leave_out_what_is_no_number() {
        let seen: Vec<_> = pairs("cache 12\nname x\nhuge 99999999999999999999999\nrss 3\n").collect();
        assert_eq!(seen, [("cache", 12), ("rss", 3)]);
    }

    #[test]
    fn threads_and_cpus() {
        assert_eq!(threads_of_loadavg("0.20 0.18 0.12 1/234 5678\n"), Some(234));
        assert_eq!(threads_of_loadavg("0.20\n"), None);
        assert_eq!(cpu_list("0-2,7\n", 100), [0, 1, 2, 7]);
        assert_eq!(cpu_list("0-4000000000\n", 3), [0, 1, 2]);
        assert_eq!(cpu_list("\n", 3), [0_u32; 0]);
        assert_eq!(meminfo("Node 0 MemTotal: 1 kB\nMemTotal:   16 kB\n", "MemTotal"), Some(16_384));
    }
}
