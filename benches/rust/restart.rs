//! From the call of open to the first publish answered, and to the first due message delivered.

use std::time::{Duration, Instant};

use delaymq_engine::{Due, SubscribeOptions};

use crate::case::{Case, Failure, Figures, publish, wait_applied};

const DUE: &str = "bench.due";
const FAR_MS: u64 = 7 * 86_400_000;
const SPREAD_MS: u64 = 30 * 86_400_000;
const SOON_MS: u64 = 50; // due while the process is dead
/// Fewer messages set off no checkpoint.
const CHECKPOINTED_MIN: u64 = 1_000_000;
/// Without a new checkpoint for so long, none is under way.
const QUIET: Duration = Duration::from_secs(8);
const QUIET_WAIT_MAX: Duration = Duration::from_secs(90);
const DELIVERY_WAIT: Duration = Duration::from_secs(60);

/// Fills a store with `pending` messages and leaves it open, for the caller to be killed. Before that
/// it waits until the checkpoints that the filling set off are taken, as they are in a store that was
/// not filled in one go: the restart then replays what an ordinary moment leaves.
pub(crate) fn fill(case: &Case) -> Result<Figures, Failure> {
    let pending = case.count("pending")?;
    let body = vec![0xA5; usize::try_from(case.count("body_bytes")?).unwrap_or(0)];
    let store = case.open(|_| ())?;
    drop(store.subscribe(DUE, "bench", SubscribeOptions::default())?);
    publish(&store, "bench.far", pending, (10_000, &body), |number| {
        Due::After(FAR_MS + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % SPREAD_MS)
    })?;
    wait_applied(&store)?;
    let quiet = if pending < CHECKPOINTED_MIN { Duration::ZERO } else { QUIET };
    let (started, mut before, mut since) = (Instant::now(), 0, Instant::now());
    while since.elapsed() < quiet && started.elapsed() < QUIET_WAIT_MAX {
        let taken = store.status()?.metrics.checkpoints;
        if taken != before {
            (before, since) = (taken, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    publish(&store, DUE, 1, (1, &body), |_| Due::After(SOON_MS))?;
    std::mem::forget(store); // nobody closes it: the process ends by a signal
    Ok(Figures::new())
}

/// Opens the store that was left, publishes, and takes what became due meanwhile. The store stays
/// open, with one more message due soon, for the caller to be killed again.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let read_before = bytes_read();
    let started = Instant::now();
    let store = case.open(|_| ())?;
    let opened = started.elapsed();
    publish(&store, "bench.far", 1, (1, &[0xA5; 64]), |_| Due::After(FAR_MS))?;
    let answered = started.elapsed();
    let subscription = store.subscribe(DUE, "bench", SubscribeOptions::default())?;
    let batch = subscription.pull(1, DELIVERY_WAIT)?;
    let delivered = started.elapsed();
    let read = bytes_read() - read_before;
    let Some(message) = batch.first() else {
        return Err(Failure("nothing that was due came".to_owned()));
    };
    subscription.acknowledge(&[message.key])?;
    subscription.flush(DELIVERY_WAIT)?;
    let status = store.status()?;
    publish(&store, DUE, 1, (1, &[0xA5; 64]), |_| Due::After(SOON_MS))?;
    std::mem::forget((store, subscription));
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let figures = [
        ("open_s", opened.as_secs_f64()),
        ("publish_s", answered.as_secs_f64()),
        ("delivery_s", delivered.as_secs_f64()),
        ("read_bytes", read),
        ("facts", status.recovered_facts as f64),
        ("pending", status.pending as f64),
    ];
    Ok(Figures::from(figures))
}

/// Bytes that this process has had read for it, by any call.
fn bytes_read() -> f64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}
