//! The memory of this process.
//!
//! A hundred pods that start together need a few MiB for a moment. The C library keeps freed memory, in one arena per
//! thread, for later allocations; on a small node other processes need it more.

use async_trait::async_trait;
use rubelet_engine::blocking::HOST;
use rubelet_engine::ports::OwnMemory;

/// The heap of the C library, which Rust's allocator is here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

impl Heap {
    /// Configures the heap. To be called before there is a second thread.
    ///
    /// Threads share one arena: all but one of them only wait for the disk. Large blocks get their own pages, which
    /// return to the kernel when they are freed; without a fixed threshold the library raises it after the first large
    /// free and keeps later blocks.
    pub fn frugal() -> Self {
        #[cfg(target_env = "gnu")]
        {
            /// Blocks from this size on get their own pages: the library's default, but fixed.
            const OWN_PAGES: libc::c_int = 128 << 10;
            #[expect(unsafe_code, reason = "no safe wrapper exists")]
            // SAFETY: mallopt takes two numbers and touches no memory of ours; it is safe to call at any time, and when
            // it refuses, the heap stays as it was.
            unsafe {
                libc::mallopt(libc::M_ARENA_MAX, 1);
                libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_PAGES);
            }
        }
        Self
    }

    /// Free bytes between blocks in use, in pages that could not be returned to the kernel; 0 if the library does not
    /// count them.
    pub fn holes(&self) -> usize {
        #[cfg(target_env = "gnu")]
        {
            #[expect(unsafe_code, reason = "no safe wrapper exists")]
            // SAFETY: mallinfo2 takes the heap's own lock, and fills in numbers only.
            let books = unsafe { libc::mallinfo2() };
            books.fordblks.saturating_sub(books.keepcost)
        }
        #[cfg(not(target_env = "gnu"))]
        0
    }
}

#[async_trait]
impl OwnMemory for Heap {
    async fn trim(&self) {
        #[cfg(target_env = "gnu")]
        HOST.run("heap", || {
            unmap_code();
            #[expect(unsafe_code, reason = "no safe wrapper exists")]
            // SAFETY: malloc_trim takes the heap's own lock and returns only pages that hold no block.
            unsafe {
                libc::malloc_trim(0);
            }
        })
        .await;
    }
}

/// Gives up the mapped pages of the program's code: what only the start or a burst needed is not mapped again, and the kernel may
/// use its pages for other things first. What is needed is mapped again at the next touch, from the page cache.
#[cfg(target_env = "gnu")]
fn unmap_code() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    let Some(program) =
        std::fs::read_link("/proc/self/exe").ok().and_then(|path| path.into_os_string().into_string().ok())
    else {
        return;
    };
    let code = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let hex = |text| usize::from_str_radix(text, 16).ok();
        (rest.starts_with("r-xp ") && rest.ends_with(&program)).then_some((hex(start)?, hex(end)?))
    };
    for (start, end) in maps.lines().filter_map(code) {
        #[expect(unsafe_code, reason = "no safe wrapper exists for memory that the language does not own")]
        // SAFETY: the range is a private mapping of the program's own file that can be read and executed and was never writable,
        // so none of its pages differs from the file: every page that is touched comes back with the same content. The kernel
        // does not let a program's file be written while it runs.
        unsafe {
            libc::madvise(std::ptr::with_exposed_provenance_mut(start), end - start, libc::MADV_DONTNEED);
        }
    }
}

#[cfg(test)]
mod tests {
    use rubelet_engine::ports::OwnMemory;

    use super::Heap;

    /// Pages of this process that no file backs, in KiB.
    fn anonymous() -> u64 {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("it is there");
        let line = text.lines().find(|line| line.starts_with("Anonymous:")).expect("so is the line");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
    }

    #[tokio::test]
    async fn freed_memory_returns_to_the_kernel() {
        let heap = Heap::frugal();
        let blocks: Vec<Vec<u8>> = (0..32_000).map(|_| vec![1_u8; 1000]).collect();
        // The last block stays, so that the heap cannot simply shrink at its end.
        let last = vec![1_u8; 1000];
        let full = anonymous();
        drop(blocks);
        heap.trim().await;
        let left = anonymous();
        assert!(full - left > 20_000, "{full} KiB before, {left} KiB after");
        drop(last);
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn memory_freed_between_live_blocks_is_a_hole() {
        let (kept, freed): (Vec<_>, Vec<_>) = (0..2000).map(|_| (vec![1_u8; 1500], vec![1_u8; 1500])).unzip();
        let before = Heap.holes();
        drop(freed);
        let holes = Heap.holes() - before;
        assert!(holes > 2_000_000, "{holes} bytes");
        drop(kept);
    }
}
