//! Pieces of work on several threads. The results do not depend on the threads.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use delaymq_core::planted::Planted;

use crate::planted::Plant;

/// Does pieces of work on so many threads, with a planted fault on each. Returns the results in order.
pub(crate) fn in_parallel<T: Send>(
    pieces: u64,
    threads: usize,
    planted: Option<Planted>,
    work: impl Fn(u64) -> T + Sync,
) -> impl Iterator<Item = T> {
    let (next, results) = (Mutex::new(0), Mutex::new(BTreeMap::new()));
    let take = || {
        let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
        *next += 1;
        Some(*next - 1).filter(|piece| *piece < pieces)
    };
    let run = || {
        let _plant = Plant::new(planted);
        while let Some(piece) = take() {
            let result = work(piece);
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(piece, result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(run);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values()
}
