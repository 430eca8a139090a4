//! Beside `wheel`: the same entries through the standard library's heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::case::{Case, Failure, Figures};
use crate::wheel::{HORIZON_MS, due_of};

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let pending = case.count("pending")?;
    let started = Instant::now();
    let mut heap = BinaryHeap::new();
    for number in 0..pending {
        heap.push(Reverse((due_of(number), number)));
    }
    let mut total = 0_u64;
    for now in 0..HORIZON_MS {
        while heap.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            heap.pop();
            total = total.saturating_add(1);
        }
    }
    let time = started.elapsed();
    if total != pending {
        return Err(Failure(format!("{total} of {pending} entries came out of the heap")));
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    Ok(Figures::from([("value", time.as_secs_f64() * 1e9 / pending as f64)]))
}
