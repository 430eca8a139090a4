//! The parameters of one measurement, its figures, and what many measurements do alike.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delaymq_engine::{Due, Durability, Options, PublishBatch, Store, Subscription};

const SETTLE_MAX: Duration = Duration::from_secs(6);
const SETTLE_PAUSE: Duration = Duration::from_secs(1);
const GIVEN_BODIES: u64 = 40;
const GIVEN_BODY_BYTES: usize = 1 << 20;
const GIVEN_DELAY_MS: u64 = 86_400_000;
const APPLY_WAIT_MAX: Duration = Duration::from_secs(120);

/// A measurement that could not be made.
#[derive(Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<delaymq_core::error::Error> for Failure {
    fn from(error: delaymq_core::error::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        std::io::Error::from(error).into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// What a measurement found, by name.
pub type Figures = BTreeMap<&'static str, f64>;

/// Where and how something is measured.
#[derive(Clone, Debug)]
pub struct Case {
    /// A folder of its own; stores and files are made in it.
    pub folder: PathBuf,
    /// The parameters, by name.
    pub numbers: BTreeMap<String, f64>,
}

impl Case {
    /// A parameter as a count.
    ///
    /// # Errors
    /// `Failure` where it is missing or negative.
    pub fn count(&self, name: &str) -> Result<u64, Failure> {
        let value = self.numbers.get(name).copied().filter(|value| *value >= 0.0);
        #[expect(clippy::cast_sign_loss, reason = "it was just seen not to be negative")]
        value.map(|value| value as u64).ok_or_else(|| Failure(format!("{name} is missing")))
    }

    /// True where a parameter is there and not zero.
    pub fn flag(&self, name: &str) -> bool {
        self.numbers.get(name).is_some_and(|value| *value != 0.0)
    }

    /// Opens the case's store; `change` sets what differs from the defaults.
    pub(crate) fn open(&self, change: impl FnOnce(&mut Options)) -> Result<Arc<Store>, Failure> {
        let durability = if self.flag("disk") { Durability::Disk } else { Durability::Os };
        let mut options = Options { durability, ..Options::default() };
        change(&mut options);
        if self.flag("settle") {
            self.grow()?;
        }
        Ok(Store::open(&self.folder, options, &mut |_| ())?)
    }

    /// Gives the store 40 MiB in an opening of its own: a new store has small segments, and what is prepared for a publish
    /// that waits is not filled with zeros.
    fn grow(&self) -> Result<(), Failure> {
        let store = Store::open(&self.folder, Options::default(), &mut |_| ())?;
        publish(&store, "before", GIVEN_BODIES, (1, &vec![0; GIVEN_BODY_BYTES]), |_| Due::After(GIVEN_DELAY_MS))?;
        Ok(store.close()?)
    }
}

/// Messages a second, or whatever `count` counts.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// A count, or a time in microseconds, as figures have it.
#[expect(clippy::cast_precision_loss, reason = "counts, and microseconds of our time, fit into 2^52")]
pub(crate) fn figure(count: u64) -> f64 {
    count as f64
}

/// Wall clock in microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

/// Publishes `count` messages in batches of `batch`; `due` is asked for each.
pub(crate) fn publish(
    store: &Store,
    subject: &str,
    count: u64,
    (batch, body): (u64, &[u8]),
    due: impl Fn(u64) -> Due,
) -> Result<(), Failure> {
    let mut filling: PublishBatch = store.batch();
    for number in 0..count {
        filling.push(subject, due(number), &[], body)?;
        if filling.len() as u64 >= batch {
            store.publish(&mut filling)?;
        }
    }
    if !filling.is_empty() {
        store.publish(&mut filling)?;
    }
    Ok(())
}

/// If the case asks for it, waits until the helper has prepared its stock of segments, as it has in a store that is in use.
pub(crate) fn settle(case: &Case, store: &Store) -> Result<(), Failure> {
    let (started, mut before) = (Instant::now(), 0);
    while case.flag("settle") && started.elapsed() < SETTLE_MAX {
        std::thread::sleep(SETTLE_PAUSE);
        let prepared = store.status()?.metrics.prepared_segments;
        if prepared > 0 && prepared == before {
            break;
        }
        before = prepared;
    }
    Ok(())
}

/// Waits until everything that was accepted is applied.
pub(crate) fn wait_applied(store: &Store) -> Result<(), Failure> {
    let started = Instant::now();
    loop {
        let status = store.status()?;
        if status.applied >= status.accepted {
            return Ok(());
        }
        if started.elapsed() > APPLY_WAIT_MAX {
            return Err(Failure("what was accepted was not applied within two minutes".to_owned()));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The percentiles of `values`, which are sorted on the way: p50, p99, p99.9 and the greatest, in
/// milliseconds, with how many were below zero as `early`.
pub(crate) fn percentiles(values: &mut [f64]) -> Figures {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        #[expect(clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a length")]
        let rank = (share * values.len() as f64).ceil() as usize;
        values.get(rank.clamp(1, values.len().max(1)) - 1).copied().unwrap_or(0.0)
    };
    let early = values.iter().take_while(|value| **value < 0.0).count();
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    Figures::from([
        ("p50_ms", at(0.5)),
        ("p99_ms", at(0.99)),
        ("p999_ms", at(0.999)),
        ("max_ms", at(1.0)),
        ("early", early as f64),
        ("count", values.len() as f64),
    ])
}

/// Bytes that this process has had read for it, by any call.
pub(crate) fn bytes_read() -> f64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// How long until a message is due that nobody is to see in a bench: a week to 37 days, spread by its number.
pub(crate) fn far_ms(number: u64) -> u64 {
    const FAR_MS: u64 = 7 * 86_400_000;
    const SPREAD_MS: u64 = 30 * 86_400_000;
    FAR_MS + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % SPREAD_MS
}

/// True while a run or a checkpoint of the store in this folder is being written.
pub(crate) fn is_writing(folder: &Path) -> bool {
    let folders = ["runs", "checkpoints"].map(|name| std::fs::read_dir(folder.join(name)));
    let mut names = folders.into_iter().flatten().flatten().flatten().map(|entry| entry.path());
    names.any(|path| path.extension().is_some_and(|extension| extension == "tmp"))
}

/// Takes what is due and acknowledges it; adds to `late` by how many milliseconds each message came after its due time.
pub(crate) fn take_late(
    subscription: &Subscription,
    (count_max, wait): (usize, Duration),
    late: &mut Vec<f64>,
) -> Result<usize, Failure> {
    let batch = subscription.pull(count_max, wait)?;
    let now = now_us();
    #[expect(clippy::cast_precision_loss, reason = "microseconds of our time fit into 2^52")]
    late.extend(batch.iter().map(|message| now as f64 / 1e3 - message.due.0 as f64));
    let keys: Vec<_> = batch.iter().map(|message| message.key).collect();
    subscription.acknowledge(&keys)?;
    Ok(batch.len())
}
