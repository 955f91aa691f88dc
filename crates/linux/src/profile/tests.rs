//! Profiles of this test's own process.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;

/// Of one process there is one profile at a time, and tests may share a process.
static ONE: Mutex<()> = Mutex::new(());

#[global_allocator]
static HEAP: Allocator = Allocator;

static STOP: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn burn_cpu_time() {
    let mut number = 0_u64;
    while !STOP.load(Ordering::Relaxed) {
        number = black_box(number.wrapping_mul(31).wrapping_add(1));
    }
}

#[inline(never)]
fn keep_blocks(blocks: &Mutex<Vec<Vec<u8>>>) {
    let mut kept = blocks.lock().expect("nobody panics");
    kept.extend((0..64).map(|_| black_box(vec![1_u8; 4 << 10])));
}

#[inline(never)]
fn drop_blocks() {
    (0..64).for_each(|_| drop(black_box(vec![1_u8; 4 << 10])));
}

/// What was counted at the stacks that have a function of this name: the sum of each value.
fn counted(profile: &Profile, name: &str) -> Vec<u64> {
    let here = |address: &u64| profile.functions.get(address).is_some_and(|function| function.contains(name));
    let mut sums = vec![0; 4];
    for sample in profile.samples.iter().filter(|sample| sample.stack.iter().any(here)) {
        sums.iter_mut().zip(&sample.values).for_each(|(sum, value)| *sum += value);
    }
    sums
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn section_27_2_a_profile_of_a_busy_process_shows_where_its_cpu_time_goes() {
    let _one = ONE.lock();
    STOP.store(false, Ordering::Relaxed);
    let profile = std::thread::scope(|scope| {
        scope.spawn(burn_cpu_time);
        let profile = runtime().block_on(OwnProfiler::new(Clock::real()).cpu(Duration::from_secs(1)));
        STOP.store(true, Ordering::Relaxed);
        profile.expect("a profile")
    });
    let [samples, nanos, ..] = counted(&profile, "burn_cpu_time")[..] else { panic!("four sums") };
    let all: u64 = profile.samples.iter().map(|sample| sample.values[0]).sum();
    assert!(samples >= 10 && samples * 2 > all, "{samples} of {all} samples, {} lost", profile.lost);
    assert_eq!(nanos, samples * 10_000_000);
    let deep =
        profile.samples.iter().filter(|sample| sample.stack.len() > 3).map(|sample| sample.values[0]).sum::<u64>();
    assert!(deep * 10 > all * 9, "{deep} of {all} samples show the callers");
    let own = profile.mappings.iter().find(|mapping| mapping.has_symbols).expect("this program");
    assert!(own.start < own.end && own.file.starts_with('/'), "{own:?}");
}

#[test]
fn section_27_2_a_profile_of_the_heap_shows_what_is_allocated_and_what_stays() {
    let _one = ONE.lock();
    STOP.store(false, Ordering::Relaxed);
    let blocks = Mutex::new(Vec::new());
    let profile = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                keep_blocks(&blocks);
                drop_blocks();
                std::thread::yield_now();
                // Not more than a machine for tests has.
                if blocks.lock().expect("nobody panics").len() > 4096 {
                    return;
                }
            }
        });
        let profile = runtime().block_on(OwnProfiler::new(Clock::real()).heap(Duration::from_millis(600)));
        STOP.store(true, Ordering::Relaxed);
        profile.expect("a profile")
    });
    let kept = counted(&profile, "keep_blocks");
    assert!(kept[1] > 1 << 20 && kept[3] * 10 > kept[1] * 9, "all of it stays: {kept:?}");
    assert!((kept[1] / 4096).abs_diff(kept[0]) * 10 < kept[0], "blocks of four KiB: {kept:?}");
    let dropped = counted(&profile, "drop_blocks");
    assert!(dropped[1] > 1 << 20 && dropped[3] * 10 < dropped[1], "next to nothing of it stays: {dropped:?}");
}

#[test]
fn section_27_2_one_profile_at_a_time_and_one_that_nobody_waits_for_ends() {
    let _one = ONE.lock();
    runtime().block_on(async {
        let profiler = OwnProfiler::new(Clock::real());
        let mut first = profiler.cpu(Duration::from_secs(60));
        let begun = tokio::time::timeout(Duration::from_millis(50), &mut first).await;
        assert!(begun.is_err(), "it takes a minute");
        let second = profiler.heap(Duration::from_millis(1)).await;
        assert!(matches!(second, Err(NoProfile::Busy)), "{second:?}");
        drop(first);
        // The call that is in flight gives the recording back when it ends.
        let again = async {
            while let Err(NoProfile::Busy) = profiler.cpu(Duration::from_millis(1)).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), again).await.expect("the first one was dropped");
    });
}
