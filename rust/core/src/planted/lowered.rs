//! Limits that histories are too short to come to, made low by who lives them. Without the feature `planted` each is what it
//! is, and asking costs nothing.

#[cfg(feature = "planted")]
thread_local! {
    static MOST: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// On this thread no such limit allows more than this from now on; `None` for what each of them is.
#[cfg(feature = "planted")]
pub fn lower(most: Option<u64>) {
    MOST.set(most);
}

/// What a limit is on this thread.
#[cfg(feature = "planted")]
#[inline]
pub fn lowered(limit: u64) -> u64 {
    MOST.get().map_or(limit, |most| limit.min(most))
}

/// What a limit is, which this build cannot lower.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[expect(clippy::inline_always, reason = "the question must vanish from builds without the feature")]
pub const fn lowered(limit: u64) -> u64 {
    limit
}
