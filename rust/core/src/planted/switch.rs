//! Turns a planted fault on.

use super::Planted;

#[cfg(feature = "planted")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// The fault of all threads, as its index in [`Planted`] plus 1; 0 is none.
#[cfg(feature = "planted")]
static EVERYWHERE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Turns on one fault for this thread, or none.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Planted>) {
    CHOSEN.set(fault);
}

/// Turns on one fault for all threads of this process, or none; for tests of code that starts threads.
#[cfg(feature = "planted")]
pub fn plant_everywhere(fault: Option<Planted>) {
    EVERYWHERE.store(fault.map_or(0, number_of), std::sync::atomic::Ordering::SeqCst);
}

#[cfg(feature = "planted")]
const fn number_of(fault: Planted) -> u32 {
    fault as u32 + 1
}

/// True if this fault is turned on, for this thread or for all.
#[cfg(feature = "planted")]
#[inline]
pub fn is_on(fault: Planted) -> bool {
    CHOSEN.get() == Some(fault) || EVERYWHERE.load(std::sync::atomic::Ordering::Relaxed) == number_of(fault)
}

/// Always false: this build has no planted faults.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[expect(clippy::inline_always, reason = "the question must vanish from builds without the feature")]
pub const fn is_on(_fault: Planted) -> bool {
    false
}
