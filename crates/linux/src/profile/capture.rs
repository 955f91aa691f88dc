//! Copies the registers and the stack of the running thread into a slot: in a signal handler or in the allocator, where nothing
//! may be allocated, locked or waited for.
//!
//! Invariants: a ring is freed only after its address was withdrawn and every thread has left [`take`]; a slot has one owner
//! at a time, the thread that moved it from free to busy, or from full to busy.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use super::registers::Registers;

/// Most bytes of a stack that are copied: what is above is missing at the outer end.
const STACK: usize = 32 << 10;
/// Samples between two times that the ring is emptied.
const SLOTS: usize = 128;
/// The kernel copies whole pages or nothing of them.
const PAGE: usize = 4096;

const FREE: u8 = 0;
const BUSY: u8 = 1;
const FULL: u8 = 2;

/// The block that was allocated; zero for a sample of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// Where it is noted as being in use, and as which sample.
    pub(super) note: usize,
    pub(super) number: u64,
    /// Its size.
    pub(super) size: u64,
    /// The allocated bytes for which this sample stands.
    pub(super) bytes: u64,
}

/// What was copied.
pub(super) struct Taken {
    pub(super) registers: Registers,
    pub(super) block: Block,
    length: usize,
    stack: [u8; STACK],
}

impl Taken {
    /// The stack from the stack pointer upwards.
    pub(super) fn stack(&self) -> &[u8] {
        self.stack.get(..self.length).unwrap_or_default()
    }
}

struct Slot {
    state: AtomicU8,
    taken: UnsafeCell<Taken>,
}

/// The slots.
struct Ring {
    slots: Box<[Slot]>,
    next: AtomicUsize,
    lost: AtomicU64,
}

/// The ring of the profile that is being taken.
static RING: AtomicPtr<Ring> = AtomicPtr::new(std::ptr::null_mut());
/// Threads in [`take`].
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// A profile is being taken.
static RECORDING: AtomicBool = AtomicBool::new(false);

/// The right to take a profile: there is one.
pub(super) struct Recording {
    ring: *mut Ring,
}

#[expect(unsafe_code, reason = "the pointer keeps it from being sent to another thread")]
// SAFETY: the ring belongs to this value until it is dropped; what other threads do with it goes through atomics.
unsafe impl Send for Recording {}

impl Recording {
    /// `None` while another profile is being taken.
    pub(super) fn begin() -> Option<Self> {
        if RECORDING.swap(true, Ordering::SeqCst) {
            return None;
        }
        let slots = Box::<[Slot]>::new_zeroed_slice(SLOTS);
        #[expect(unsafe_code, reason = "four MiB of zeros that the kernel makes when they are touched")]
        // SAFETY: a slot is made of numbers only, for which zeros are valid: it is free and has an empty stack.
        let slots = unsafe { slots.assume_init() };
        let ring = Ring { slots, next: AtomicUsize::new(0), lost: AtomicU64::new(0) };
        let ring = Box::into_raw(Box::new(ring));
        RING.store(ring, Ordering::SeqCst);
        Some(Self { ring })
    }

    fn ring(&self) -> &Ring {
        #[expect(unsafe_code, reason = "the ring is shared with signal handlers, so it is behind a pointer")]
        // SAFETY: made from a box in `begin`, freed in `drop` only, and nobody has a mutable reference to it.
        unsafe {
            &*self.ring
        }
    }

    /// Gives every sample that is there to `each`, and frees its slot.
    pub(super) fn drain(&mut self, mut each: impl FnMut(&Taken)) {
        for slot in &self.ring().slots {
            let full = slot.state.compare_exchange(FULL, BUSY, Ordering::Acquire, Ordering::Relaxed);
            if full.is_ok() {
                #[expect(unsafe_code, reason = "a slot is handed from thread to thread by its state")]
                // SAFETY: this thread has moved the slot from full to busy, so it alone uses the content until the state changes;
                // the thread that filled it released its writes with the state.
                let taken = unsafe { &*slot.taken.get() };
                each(taken);
                slot.state.store(FREE, Ordering::Release);
            }
        }
    }

    /// Samples for which there was no slot.
    pub(super) fn lost(&self) -> u64 {
        self.ring().lost.load(Ordering::Relaxed)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        RING.store(std::ptr::null_mut(), Ordering::SeqCst);
        // A thread is inside for some microseconds.
        while INSIDE.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        #[expect(unsafe_code, reason = "the box was made into a pointer for the signal handlers")]
        // SAFETY: the pointer is from `Box::into_raw`. It was withdrawn before, and no thread is in `take` since, so nobody else
        // has it: a thread that enters later finds none.
        drop(unsafe { Box::from_raw(self.ring) });
        RECORDING.store(false, Ordering::SeqCst);
    }
}

/// Takes a sample of the running thread, if a profile is being taken. Allocates nothing, locks nothing, and makes one system call.
pub(super) fn take(registers: &Registers, block: Block) {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let ring = RING.load(Ordering::SeqCst);
    if !ring.is_null() {
        #[expect(unsafe_code, reason = "a signal handler finds the ring by a static pointer")]
        // SAFETY: `Recording::drop` withdraws the pointer before it waits for `INSIDE` to become zero, and frees the ring after
        // that. This thread has read the pointer after it was counted, all in one order: the ring is there until it leaves.
        let ring = unsafe { &*ring };
        fill(ring, registers, block);
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

fn fill(ring: &Ring, registers: &Registers, block: Block) {
    let at = ring.next.fetch_add(1, Ordering::Relaxed) % SLOTS;
    let Some(slot) = ring.slots.get(at) else { return };
    if slot.state.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
        ring.lost.fetch_add(1, Ordering::Relaxed);
        return;
    }
    #[expect(unsafe_code, reason = "a slot is handed from thread to thread by its state")]
    // SAFETY: this thread has moved the slot from free to busy, so it alone uses the content until the state changes.
    let taken = unsafe { &mut *slot.taken.get() };
    taken.registers = *registers;
    taken.block = block;
    taken.length = copy(registers.stack_pointer(), &mut taken.stack);
    slot.state.store(FULL, Ordering::Release);
}

/// Copies memory of this process from `from` on, as far as it is mapped. The kernel does it: a stack pointer that is wrong is an
/// error, not a crash.
fn copy(from: u64, to: &mut [u8; STACK]) -> usize {
    let Ok(from) = usize::try_from(from) else { return 0 };
    let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut pages = [empty; STACK / PAGE + 1];
    let (mut at, mut left) = (from, STACK);
    for page in &mut pages {
        let length = (PAGE - at % PAGE).min(left);
        *page = libc::iovec { iov_base: std::ptr::without_provenance_mut(at), iov_len: length };
        let Some(next) = at.checked_add(length) else { break };
        (at, left) = (next, left - length);
    }
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: STACK };
    #[expect(unsafe_code, reason = "no safe wrapper exists, and the call must be fit for a signal handler")]
    // SAFETY: the kernel writes at most `STACK` bytes to `to`, which is that long, and only reads at the other addresses; it
    // refuses those that are not mapped. Both arrays outlive the call, which is a system call and nothing else.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, pages.as_ptr(), PAGES, 0) };
    usize::try_from(copied).unwrap_or_default().min(STACK)
}

const PAGES: libc::c_ulong = (STACK / PAGE + 1) as libc::c_ulong;
