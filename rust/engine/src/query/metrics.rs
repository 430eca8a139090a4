//! Counters of the engine. Each costs an addition.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The counters, live.
        #[derive(Debug, Default)]
        pub(crate) struct Metrics {
            $(pub(crate) $name: Counter,)+
        }

        /// The counters at one moment.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Metrics {
            /// All counters, each read by itself.
            pub(crate) fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.read(),)+ }
            }
        }
    };
}

counters! {
    /// Messages accepted.
    published,
    /// Messages handed to consumers.
    delivered,
    /// Batches written to the log.
    commits,
    /// Bytes written to the log.
    committed_bytes,
    /// Syncs of the log.
    syncs,
    /// Microseconds spent in syncs of the log.
    sync_us,
    /// Commits done by a publisher or the driver on its own thread.
    led_commits,
    /// Steps of the owner.
    steps,
    /// Checkpoints taken.
    checkpoints,
    /// Windows of the schedule that became one with their neighbours.
    merged_windows,
    /// Segments prepared.
    prepared_segments,
    /// Files retired.
    retired_files,
    /// Bytes of segments and runs that were released as holes.
    punched_bytes,
    /// Damaged messages that were voided.
    voided,
    /// Messages that have expired, by their own time or by an operator.
    expired,
    /// Dead letters that were redriven.
    redriven,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
