//! The rows of `delaymq bench` that are measured in Rust, small: the same code, over a real folder.
//! For their limits, and for figures to be written down, see `delaymq bench`.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use delaymq_benches::{Case, Failure, measure};

const MESSAGES: u32 = 20_000;
const IN_FLIGHT: [u32; 3] = [1, 64, 1024];
const SAMPLES: usize = 10; // each opens a store of its own
/// Times between the publish of a burst and its due time. A busy machine may need the longer ones.
const LEADS_MS: [u32; 3] = [200, 4_000, 60_000];

/// What a measurement's `value` is.
#[derive(Clone, Copy)]
enum Value {
    /// So many of the messages a second.
    Rate,
    /// Seconds.
    Seconds,
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("store");
    group.sample_size(SAMPLES).warm_up_time(Duration::from_millis(1));
    group.throughput(Throughput::Elements(u64::from(MESSAGES)));
    let numbers = [("messages", MESSAGES), ("body_bytes", 256), ("batch", 1000)];
    for (name, far) in [("append near", 0), ("append far", 1)] {
        group.bench_function(name, |bencher| {
            bencher
                .iter_custom(|runs| all(runs, "append", &[numbers.as_slice(), &[("far", far)]].concat(), Value::Rate));
        });
    }
    let bursts = LEADS_MS.map(|lead_ms| [("messages", MESSAGES), ("lead_ms", lead_ms)]);
    group.bench_function("burst", |bencher| {
        bencher.iter_custom(|runs| {
            (0..runs).map(|_| seconds_of("burst", bursts.each_ref().map(<[_; 2]>::as_slice), Value::Seconds)).sum()
        });
    });
    for in_flight in IN_FLIGHT {
        let messages = (in_flight * 20).min(MESSAGES);
        let numbers = [("messages", messages), ("in_flight", in_flight), ("body_bytes", 256), ("disk", 1)];
        group.throughput(Throughput::Elements(u64::from(messages)));
        group.bench_function(BenchmarkId::new("commit", in_flight), |bencher| {
            bencher.iter_custom(|runs| all(runs, "commit", &numbers, Value::Rate));
        });
    }
    group.finish();
}

/// So many runs, each in a folder of its own; what making the folder takes does not count.
fn all(runs: u64, name: &str, numbers: &[(&str, u32)], value: Value) -> Duration {
    (0..runs).map(|_| seconds_of(name, [numbers], value)).sum()
}

/// The time of one run with the first of these numbers that can be measured.
#[expect(clippy::panic, reason = "a bench that cannot be measured is to fail, also where it is run as a test")]
fn seconds_of<const N: usize>(name: &str, choices: [&[(&str, u32)]; N], value: Value) -> Duration {
    let mut failures = Vec::new();
    for numbers in choices {
        match measured(name, numbers, value) {
            Ok(time) => return time,
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    panic!("{name}: {}", failures.join("; "))
}

fn measured(name: &str, numbers: &[(&str, u32)], value: Value) -> Result<Duration, Failure> {
    let folder = tempfile::tempdir()?;
    let given = numbers.iter().map(|(name, number)| ((*name).to_owned(), f64::from(*number))).collect();
    let figures = measure(name, &Case { folder: folder.path().to_owned(), numbers: given })?;
    let figure = figures.get("value").copied().unwrap_or(f64::NAN);
    let messages = numbers.iter().find(|(name, _)| *name == "messages").map_or(1, |(_, messages)| *messages);
    let seconds = match value {
        Value::Rate => f64::from(messages) / figure,
        Value::Seconds => figure,
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| Failure(format!("{figure} is no measurement")))
}
