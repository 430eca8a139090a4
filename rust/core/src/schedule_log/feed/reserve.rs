//! How much room to reserve for what grows large and goes away at once.
//!
//! The allocator of the GNU C library keeps what was freed at the end of a thread's heap, and the
//! largest block that was ever freed tells it how much of that to keep. Blocks above a fixed size
//! are mapped by themselves, given back when they are freed, and tell it nothing (mallopt(3),
//! `M_MMAP_THRESHOLD`: 32 MiB). Room that is reserved and not written takes no memory, so what may
//! grow to megabytes reserves that much at once. It also never moves.

/// Above the size from which every block is mapped by itself.
const MAPPED_BYTES: usize = 33 << 20;
/// What needs less than this is not worth a mapping.
const SMALL_BYTES: usize = 128 << 10;

/// How many elements to reserve where `wanted` are needed.
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
