//! How much memory to reserve for a buffer that grows large and is freed at once.
//!
//! The allocator of the GNU C library keeps memory that was freed at the end of a thread's heap. The largest
//! block ever freed determines how much it keeps. Blocks above a fixed size are mapped separately, returned
//! when they are freed, and do not count for this (mallopt(3), `M_MMAP_THRESHOLD`: 32 MiB). Reserved memory
//! that is not written takes no physical memory. A buffer that may grow to megabytes therefore reserves more
//! than that size at once. It also never moves.

/// A size above the threshold for separate mappings.
const MAPPED_BYTES: usize = 33 << 20;
/// Smaller buffers are not worth a mapping.
const SMALL_BYTES: usize = 128 << 10;

/// The number of elements to reserve if `wanted` are needed.
pub(in crate::schedule_log) const fn reserved<T>(wanted: usize) -> usize {
    let Some(bytes) = wanted.checked_mul(size_of::<T>()) else { return wanted };
    if bytes < SMALL_BYTES || bytes >= MAPPED_BYTES { wanted } else { MAPPED_BYTES / size_of::<T>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_huge_ones_get_what_they_want_and_those_between_a_mapping() {
        assert_eq!(reserved::<u64>(10), 10);
        assert_eq!(reserved::<u64>(16 << 10) * 8, MAPPED_BYTES);
        assert_eq!(reserved::<u64>(100 << 20), 100 << 20);
        assert_eq!(reserved::<u64>(usize::MAX), usize::MAX);
    }
}
