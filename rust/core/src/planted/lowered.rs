//! Lowers limits on a thread, since short tests would not reach the real ones. Without the feature `planted` each
//! limit keeps its value, and the call costs nothing.

#[cfg(feature = "planted")]
thread_local! {
    static MOST: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// Caps all these limits on this thread; `None` restores their values.
#[cfg(feature = "planted")]
pub fn lower(most: Option<u64>) {
    MOST.set(most);
}

/// The limit as it is on this thread.
#[cfg(feature = "planted")]
#[inline]
pub fn lowered(limit: u64) -> u64 {
    MOST.get().map_or(limit, |most| limit.min(most))
}

/// The limit, which this build cannot lower.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[expect(clippy::inline_always, reason = "the question must vanish from builds without the feature")]
pub const fn lowered(limit: u64) -> u64 {
    limit
}
