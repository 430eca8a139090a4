//! Limit of `memory`: an array of what cannot be left out: 8 bytes of an entry in the window, two bits
//! of one in a run, 32 bytes of one that is in no run yet.

use crate::case::{Case, Failure, Figures, figure};
use crate::memory::{MIB, anonymous_bytes};

/// So many arrays in one, so that the allocator's own share does not show.
const TIMES: u64 = 32;

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let messages = case.count("messages")?;
    let before = anonymous_bytes();
    let words = TIMES * if case.flag("beyond") { messages.div_ceil(32) } else { messages };
    let array = std::hint::black_box(vec![1_u64; usize::try_from(words).unwrap_or(0)]);
    let after = anonymous_bytes();
    drop(array);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    Ok(Figures::from([("value", (after - before) / (TIMES * messages) as f64)]))
}

/// Of recent entries there are as many as a checkpoint waits for.
pub(crate) fn recent(case: &Case) -> Result<Figures, Failure> {
    let entries = case.count("messages")?.min(case.count("recent_max")?);
    let before = anonymous_bytes();
    let array = std::hint::black_box(vec![[1_u64; 4]; usize::try_from(entries).unwrap_or(0)]);
    let after = anonymous_bytes();
    drop(array);
    Ok(Figures::from([("value", (after - before) / MIB)]))
}

/// Of each connection or held pull 80 bytes in one array, touched so often that it is more than a page.
pub(crate) fn standing(case: &Case) -> Result<Figures, Failure> {
    let (count, before) = (case.count("standing")?, anonymous_bytes());
    let array = std::hint::black_box(vec![[1_u64; 10 * TIMES as usize]; usize::try_from(count).unwrap_or(0)]);
    let after = anonymous_bytes();
    drop(array);
    Ok(Figures::from([("value", (after - before) / (MIB * figure(TIMES)))]))
}
