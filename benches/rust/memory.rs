//! Anonymous memory that a pending message takes, over the empty store.

use std::time::Duration;

use delaymq_engine::Due;

use crate::case::{Case, Failure, Figures, publish, wait_applied};

const WINDOW_MS: u64 = 600_000;
const IN_WINDOW_MS: u64 = 400_000; // due within the window, and well after the measurement
const BEYOND_MS: u64 = 86_400_000;
/// Messages between two looks at the memory.
const LOOK_EVERY: u64 = 50_000;
pub(crate) const MIB: f64 = 1_048_576.0;

/// Bytes a message, once a checkpoint has put the messages into runs; in the window they are loaded
/// as well. Meant for a process of its own.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (messages, beyond) = (case.count("messages")?, case.flag("beyond"));
    let store = case.open(|options| {
        options.owner.window_ms = WINDOW_MS;
        options.owner.window_entries_max = usize::try_from(messages.saturating_mul(2)).unwrap_or(usize::MAX);
        options.owner.checkpoint_facts = 500_000;
    })?;
    publish(&store, "bench", 10_000, (1_000, &[0xA5; 64]), |_| Due::After(BEYOND_MS))?;
    settle(&store)?;
    let empty = anonymous_bytes();
    let base = if beyond { BEYOND_MS } else { IN_WINDOW_MS };
    publish(&store, "bench", messages, (10_000, &[0xA5; 64]), |number| Due::After(base + number % 60_000))?;
    let highest = anonymous_bytes();
    settle(&store)?;
    let full = anonymous_bytes();
    store.close()?;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let each = (full - empty).max(0.0) / messages as f64;
    Ok(Figures::from([("value", each), ("empty_bytes", empty), ("full_bytes", full), ("filling_bytes", highest)]))
}

/// MiB by which anonymous memory is higher, at its highest, while far messages are published as fast as
/// they are taken: what came since the last checkpoint is in memory, and a checkpoint has to bound that.
/// Meant for a process of its own.
pub(crate) fn recent(case: &Case) -> Result<Figures, Failure> {
    let messages = case.count("messages")?;
    let store = case.open(|_| ())?;
    publish(&store, "bench", 10_000, (1_000, &[0xA5; 64]), |_| Due::After(BEYOND_MS))?;
    settle(&store)?;
    let empty = anonymous_bytes();
    let mut highest = empty;
    for _ in 0..messages / LOOK_EVERY {
        publish(&store, "bench", LOOK_EVERY, (10_000, &[0xA5; 64]), |number| Due::After(BEYOND_MS + number))?;
        highest = highest.max(anonymous_bytes());
    }
    settle(&store)?;
    let full = anonymous_bytes();
    store.close()?;
    let figures = [("value", (highest - empty) / MIB), ("empty_bytes", empty), ("full_bytes", full)];
    Ok(Figures::from(figures))
}

/// Everything applied and in runs, and the feed given time to load its window.
fn settle(store: &delaymq_engine::Store) -> Result<(), Failure> {
    wait_applied(store)?;
    store.checkpoint()?;
    std::thread::sleep(Duration::from_millis(300));
    Ok(())
}

/// Anonymous memory of this process.
pub(crate) fn anonymous_bytes() -> f64 {
    anonymous_bytes_of("self")
}

/// Anonymous memory of a process, by its number.
pub(crate) fn anonymous_bytes_of(process: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}
