//! Nanoseconds for one entry's insertion and expiry, with so many pending.

use std::time::Instant;

use delaymq_core::schedule_log::Entry;
use delaymq_core::units::{DueKey, Location, Millis, Sequence, SubjectNumber};
use delaymq_core::wheel::Wheel;

use crate::case::{Case, Failure, Figures};

/// The horizon over which entries are due, in milliseconds.
pub(crate) const HORIZON_MS: u64 = 3_600_000;
const TAKEN_AT_ONCE: usize = 1_024;

/// The due time of an entry: spread over the horizon in no order.
pub(crate) const fn due_of(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % HORIZON_MS
}

/// Inserts all, then lets the horizon pass millisecond by millisecond.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let pending = case.count("pending")?;
    let started = Instant::now();
    let mut wheel = Wheel::new(Millis(0));
    for number in 0..pending {
        let key = DueKey { due: Millis(due_of(number)), sequence: Sequence(number) };
        wheel.insert(Entry::new(key, 1, key.sequence, Location(number), SubjectNumber(1)));
    }
    let inserted = started.elapsed();
    let (mut taken, mut total) = (Vec::with_capacity(TAKEN_AT_ONCE), 0_u64);
    for now in 0..HORIZON_MS {
        loop {
            taken.clear();
            wheel.take_until(Millis(now), TAKEN_AT_ONCE, &mut taken);
            total = total.saturating_add(taken.len() as u64);
            if taken.len() < TAKEN_AT_ONCE {
                break;
            }
        }
    }
    let time = started.elapsed();
    if total != pending {
        return Err(Failure(format!("{total} of {pending} entries came out of the wheel")));
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e9 / pending as f64;
    let expired = time.saturating_sub(inserted);
    Ok(Figures::from([("value", each(time)), ("insert_ns", each(inserted)), ("expire_ns", each(expired))]))
}
