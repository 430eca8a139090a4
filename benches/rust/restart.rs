//! From the call of open to the first publish answered, and to the first due message delivered.

use std::time::{Duration, Instant};

use delaymq_engine::{Due, Options, SubscribeOptions};

use crate::case::{Case, Failure, Figures, bytes_read, far_ms, is_writing, publish, wait_applied};
use crate::memory::anonymous_bytes;

const DUE: &str = "bench.due";
const SOON_MS: u64 = 50; // due while the process is dead
/// Without an unfinished file for so long, no checkpoint is under way.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_WAIT_MAX: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const DELIVERY_WAIT: Duration = Duration::from_secs(60);

/// Fills a store with `pending` messages and leaves it open, for the caller to be killed. Before that
/// it waits until the checkpoints that the filling set off are taken, as they are in a store that was
/// not filled in one go: the restart then replays what an ordinary moment leaves.
pub(crate) fn fill(case: &Case) -> Result<Figures, Failure> {
    let pending = case.count("pending")?;
    let body = vec![0xA5; usize::try_from(case.count("body_bytes")?).unwrap_or(0)];
    let store = case.open(lean)?;
    drop(store.subscribe(DUE, "bench", SubscribeOptions::default())?);
    publish(&store, "bench.far", pending, (10_000, &body), |number| Due::After(far_ms(number)))?;
    wait_applied(&store)?;
    wait_for_checkpoints(case);
    publish(&store, DUE, 1, (1, &body), |_| Due::After(SOON_MS))?;
    std::mem::forget(store); // nobody closes it: the process ends by a signal
    Ok(Figures::new())
}

/// Nothing that is finished is kept, so that the log does not hold what lies in runs.
fn lean(options: &mut Options) {
    options.owner.keep_finished_ms = 0;
}

/// Waits until no run or checkpoint is being written.
fn wait_for_checkpoints(case: &Case) {
    let (started, mut since) = (Instant::now(), Instant::now());
    while since.elapsed() < QUIET && started.elapsed() < QUIET_WAIT_MAX {
        if is_writing(&case.folder) {
            since = Instant::now();
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Opens the store that was left, publishes, and takes what became due meanwhile. The store stays
/// open, with one more message due soon, for the caller to be killed again.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let read_before = bytes_read();
    let started = Instant::now();
    let store = case.open(lean)?;
    let opened = started.elapsed();
    publish(&store, "bench.far", 1, (1, &[0xA5; 64]), |_| Due::After(far_ms(0)))?;
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
        ("memory_bytes", anonymous_bytes()),
    ];
    Ok(Figures::from(figures))
}
