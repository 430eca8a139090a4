//! A made-up next format, for tests of an upgrade. A thread that knows the format acts as a build of the next
//! release: it reads both formats and writes the made-up one. All other threads refuse the made-up one. A whole process
//! can know it, too.
//!
//! In the made-up format a checkpoint has one more number, after its other single values. Without the feature
//! `planted` no thread knows the format, and the checks vanish at compile time.

/// The additional number of its checkpoints.
pub(crate) const MORE: u64 = 0x6d61_6465_2d75_7031;

#[cfg(feature = "planted")]
thread_local! {
    static KNOWN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether all threads of this process know it.
#[cfg(feature = "planted")]
static KNOWN_EVERYWHERE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// All threads of this process know the made-up format from now on; for tests of processes of two releases.
#[cfg(feature = "planted")]
pub fn know_everywhere() {
    KNOWN_EVERYWHERE.store(true, std::sync::atomic::Ordering::SeqCst);
}

/// Whether this thread knows the made-up format from now on.
#[cfg(feature = "planted")]
pub fn know(known: bool) {
    KNOWN.set(known);
}

/// True if this thread knows the made-up format.
#[cfg(feature = "planted")]
#[inline]
pub fn is_known() -> bool {
    KNOWN.get() || KNOWN_EVERYWHERE.load(std::sync::atomic::Ordering::Relaxed)
}

/// True if this thread knows the made-up format, which none does in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[expect(clippy::inline_always, reason = "the question must vanish from builds without the feature")]
pub const fn is_known() -> bool {
    false
}
