//! Limit of `backlog`: every byte of the store's files read once, by as many threads as consume.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::read::{files, read};
use crate::case::{Case, Failure, Figures, rate};

/// Messages a second.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (files, next, started) = (files(case)?, AtomicUsize::new(0), Instant::now());
    let read_some = || -> Result<(), Failure> {
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            read(path, u64::MAX)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..case.count("consumers")?).map(|_| scope.spawn(read_some)).collect();
        read_some()?;
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Failure("it panicked".to_owned()))));
        ended.collect::<Result<Vec<()>, Failure>>()
    })?;
    Ok(Figures::from([("value", rate(case.count("messages")?, started.elapsed()))]))
}
