//! Planted faults: mistakes that the simulation turns on one at a time, to prove that it finds
//! them. Without the feature `planted` every question is answered `false` when it is compiled.

/// One mistake that can be turned on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// What is written counts as visible before it was synced.
    AckBeforeSync,
    /// The scan takes a batch of which only the header is whole.
    TornTailAccepted,
    /// A message is dispatched one millisecond before it is due.
    OneTickEarly,
    /// An arrival below the feed's position is left to the feed.
    FeedSkipsArrival,
    /// The feed moves on past entries that it has not handed over.
    FeedPassesUnhanded,
    /// Ready messages are handed out before their fact is durable.
    ReadyVisibleBeforeDurable,
    /// A checkpoint is saved before its runs are synced.
    CheckpointBeforeRuns,
    /// A cancel is not marked in the run's two bits.
    CancelledBitNotSaved,
    /// A dead letter is brought back again although it was before.
    RedriveUnjudged,
    /// A consumer's pull offsets begin with 0, although others of its group had them before.
    OffsetsBeginAnew,
    /// A server answers when something is in the log's queue, and does not wait until it is visible.
    AnswerBeforeVisible,
    /// A server settles what came together on a connection in another order.
    SettledOutOfOrder,
}

#[cfg(feature = "planted")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Turns on one fault for this thread, or none.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Planted>) {
    CHOSEN.set(fault);
}

/// True where this fault was turned on for this thread.
#[cfg(feature = "planted")]
#[inline]
pub fn is_on(fault: Planted) -> bool {
    CHOSEN.get() == Some(fault)
}

/// True where this fault was turned on, which this build cannot do.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[expect(clippy::inline_always, reason = "the question must vanish from builds without the feature")]
pub const fn is_on(_fault: Planted) -> bool {
    false
}
