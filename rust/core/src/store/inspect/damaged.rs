//! Inspects a store that cannot be opened: reports what is certain up to the first lost fact, and what is damaged or
//! missing. No file is changed.

use std::sync::Arc;

use super::inspection::{Found, Inspection, picture, register_of};
use crate::error::{Error, Result};
use crate::message_log::Identity;
use crate::storage::Storage;
use crate::store::recovery::newest::newest_checkpoints;
use crate::store::retention::finished_age::KeepFinished;
use crate::store::retention::pins::Pin;
use crate::store::salvage::base::{Base, base, committed_end};
use crate::store::salvage::stream_of;

/// The maximum number of damaged places and gaps to report; the rest is counted.
const TOLD_MAX: usize = 1_000;

/// Reads what is readable of a store that an open would refuse with `refused`. `pins` are the pins to report. `keep`
/// is the retention of the process that opens the store.
///
/// # Errors
/// `NotAStore` if no file gives the stream that the files belong to; `NewerFormat`, `Storage`.
pub fn inspect_damaged(
    storage: &Arc<dyn Storage>,
    refused: Error,
    pins: &[Pin],
    keep: &KeepFinished,
) -> Result<Inspection> {
    let (stream, no_identity) = stream_of(storage.as_ref())?;
    let chosen = newest_checkpoints(storage.as_ref(), &stream)?;
    let identity = Identity::read(storage.as_ref()).ok().flatten();
    let is_copy = identity.is_some_and(|identity| identity.clustered);
    let visible = if is_copy { Some(committed_end(storage, stream)?) } else { None };
    let Base { owner, gaps, damage, is_blind, applied, late_facts, .. } =
        base(storage, stream, chosen.first(), visible)?;
    let state = owner.state();
    let found = Found {
        epoch: identity.map_or(state.position.epoch, |identity| identity.promised_epoch),
        register: identity.as_ref().and_then(register_of),
        sealed: false,
        behind: applied,
        facts_unconfirmed: late_facts,
    };
    let mut inspection = picture(storage.as_ref(), state, &chosen, &found, pins, keep)?;
    let mut words: Vec<String> = no_identity.iter().chain(&damage).map(ToString::to_string).collect();
    if is_blind {
        words.push("no checkpoint can be read, and the beginning of the log is gone: nothing is certain".to_owned());
    }
    words.extend(gaps.iter().map(|gap| {
        let last = gap.first.plus(gap.count.saturating_sub(1));
        format!("{} facts are gone, sequences {} to {last}", gap.count, gap.first)
    }));
    words.append(&mut inspection.damaged);
    let untold = words.len().saturating_sub(TOLD_MAX);
    words.truncate(TOLD_MAX);
    if untold > 0 {
        words.push(format!("and {untold} more"));
    }
    Ok(Inspection { damaged: words, refused: Some(refused), ..inspection })
}
