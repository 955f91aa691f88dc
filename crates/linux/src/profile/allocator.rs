//! The allocator of the program: that of the C library, with a sample now and then while a profile of the heap is taken.
//!
//! While none is taken, each call reads one flag. While one is taken, every so many bytes a sample is taken, and the block is
//! noted until it is freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

use super::capture::{Block, take};
use super::registers::Registers;

/// Bytes between two samples. More often costs more, less often shows less: a scrape allocates some MiB.
pub(super) const EVERY: i64 = 32 << 10;
/// Blocks that are noted at a time, and how many places are tried for one.
const NOTES: usize = 8192;
const TRIES: usize = 8;
/// A place that is about to be filled. No block has this address.
const RESERVED: usize = 1;

static SAMPLING: AtomicBool = AtomicBool::new(false);
/// Bytes until the next sample.
static LEFT: AtomicI64 = AtomicI64::new(EVERY);
static NUMBER: AtomicU64 = AtomicU64::new(0);
static IN_USE: [Note; NOTES] = [const { Note { block: AtomicUsize::new(0), number: AtomicU64::new(0) } }; NOTES];

/// A sampled block that has not been freed.
struct Note {
    block: AtomicUsize,
    number: AtomicU64,
}

/// The heap of the C library.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

#[expect(unsafe_code, reason = "the language has no safe way to be the allocator")]
// SAFETY: every call is passed on to the C library's allocator as it came, and its answer is passed back, so its promises are
// ours. What is done besides touches no block, allocates nothing and does not unwind.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the call needs.
        let block = unsafe { System.alloc(layout) };
        allocated(block, layout.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that the call needs.
        let block = unsafe { System.alloc_zeroed(layout) };
        allocated(block, layout.size());
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        freed(block);
        // SAFETY: the caller's promises are those that the call needs.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        freed(block);
        // SAFETY: the caller's promises are those that the call needs.
        let block = unsafe { System.realloc(block, layout, size) };
        allocated(block, size);
        block
    }
}

#[inline]
fn allocated(block: *mut u8, size: usize) {
    if SAMPLING.load(Ordering::Relaxed) {
        count(block, size);
    }
}

#[inline]
fn freed(block: *mut u8) {
    if SAMPLING.load(Ordering::Relaxed) {
        forget(block.addr());
    }
}

#[cold]
#[inline(never)]
fn count(block: *mut u8, size: usize) {
    let bytes = i64::try_from(size).unwrap_or(i64::MAX);
    let left = LEFT.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes);
    if left > 0 || block.is_null() {
        return;
    }
    // The sample stands for all bytes since the one before; a large block is passed by several times.
    let passed = (left.saturating_neg() / EVERY).saturating_add(1).saturating_mul(EVERY);
    LEFT.fetch_add(passed, Ordering::Relaxed);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let note = note(block.addr(), number);
    let block = Block { note, number, size: bytes.cast_unsigned(), bytes: passed.cast_unsigned() };
    let mut context = std::mem::MaybeUninit::<libc::ucontext_t>::zeroed();
    #[expect(unsafe_code, reason = "the library writes the registers to a pointer")]
    // SAFETY: `getcontext` fills in the structure that it is given; what it leaves out is zero, which is valid.
    let context = unsafe {
        libc::getcontext(context.as_mut_ptr());
        context.assume_init()
    };
    take(&Registers::of(&context), block);
}

/// Where a block is noted; behind the last place if there is none.
fn note(block: usize, number: u64) -> usize {
    for place in places(block) {
        let Some(note) = IN_USE.get(place) else { continue };
        if note.block.compare_exchange(0, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            note.number.store(number, Ordering::Relaxed);
            note.block.store(block, Ordering::Release);
            return place;
        }
    }
    NOTES
}

#[cold]
#[inline(never)]
fn forget(block: usize) {
    for place in places(block) {
        if let Some(note) = IN_USE.get(place)
            && note.block.load(Ordering::Relaxed) == block
        {
            note.block.store(0, Ordering::Release);
            return;
        }
    }
}

fn places(block: usize) -> impl Iterator<Item = usize> {
    let first = (block >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_usize) >> 48;
    (0..TRIES).map(move |next| (first + next) % NOTES)
}

/// Samples are taken as long as this lives. To be made by the owner of the one recording only.
pub(super) struct Sampling(());

impl Sampling {
    pub(super) fn start() -> Self {
        for note in &IN_USE {
            note.block.store(0, Ordering::Relaxed);
        }
        LEFT.store(EVERY, Ordering::Relaxed);
        SAMPLING.store(true, Ordering::SeqCst);
        Self(())
    }

    /// Whether a block has not been freed.
    pub(super) fn is_in_use(&self, block: &Block) -> bool {
        IN_USE.get(block.note).is_some_and(|note| {
            note.block.load(Ordering::Acquire) > RESERVED && note.number.load(Ordering::Relaxed) == block.number
        })
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        SAMPLING.store(false, Ordering::SeqCst);
    }
}
