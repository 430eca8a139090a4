//! Compares two histories of one stream by their epochs, without reading them.
//!
//! An epoch has one writer, and all copies have a beginning of what it wrote. So two histories are the same up to the
//! last epoch that both have, and within it up to where the first of them leaves it.

use crate::record::batch::BatchHeader;
use crate::units::{Epoch, Sequence};

/// The beginning of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEntry {
    /// Its number.
    pub epoch: Epoch,
    /// The sequence of its first fact.
    pub first_sequence: Sequence,
    /// The chain of the last batch before it.
    pub chain_before: u32,
}

/// Adds the epoch of a batch with facts to a table, if the table has no such epoch yet. The batches come in order.
pub fn note_epoch(table: &mut Vec<EpochEntry>, header: &BatchHeader) {
    let epoch = Epoch(header.epoch.get());
    if table.last().is_none_or(|last| last.epoch < epoch) {
        let first_sequence = Sequence(header.base_sequence.get());
        table.push(EpochEntry { epoch, first_sequence, chain_before: header.chain_before.get() });
    }
}

/// A place in a history, after a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistoryEnd {
    /// The last sequence. 0 before the first fact.
    pub sequence: Sequence,
    /// The chain of the last batch.
    pub chain: u32,
}

/// How far two histories are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Agreement {
    /// They are the same up to here, if their chains are the same here, and differ from here on.
    UpTo {
        /// The last epoch that both have; 0 if there is none.
        epoch: Epoch,
        /// The last sequence that both can have.
        sequence: Sequence,
        /// The chain there, as our history has it. `None` if our table does not say.
        ours: Option<u32>,
        /// The same of the other history. One of them is known.
        theirs: Option<u32>,
    },
    /// An epoch has one writer, and here it seems to have two: a fault of a program, or damage.
    Diverged {
        /// The first such epoch.
        epoch: Epoch,
    },
}

/// Returns how far two histories can be the same. A table has all epochs of a history, in order.
pub fn agreement(ours: &[EpochEntry], our_end: HistoryEnd, theirs: &[EpochEntry], their_end: HistoryEnd) -> Agreement {
    let same = ours.iter().zip(theirs).take_while(|(our, their)| our == their).count();
    let (our_rest, their_rest) = (ours.get(same..).unwrap_or_default(), theirs.get(same..).unwrap_or_default());
    let is_theirs = |our: &&EpochEntry| their_rest.iter().any(|their| their.epoch == our.epoch);
    if let Some(both) = our_rest.iter().find(is_theirs) {
        return Agreement::Diverged { epoch: both.epoch };
    }
    let epoch = same.checked_sub(1).and_then(|last| ours.get(last)).map_or(Epoch(0), |entry| entry.epoch);
    let (our_last, their_last) = (leaves(our_rest, our_end), leaves(their_rest, their_end));
    let sequence = our_last.sequence.min(their_last.sequence);
    let chain_of = |last: HistoryEnd| (last.sequence == sequence).then_some(last.chain);
    match (chain_of(our_last), chain_of(their_last)) {
        (Some(our), Some(their)) if our != their => Agreement::Diverged { epoch },
        (ours, theirs) => Agreement::UpTo { epoch, sequence, ours, theirs },
    }
}

/// Where a history leaves the epoch before these, or ends.
fn leaves(rest: &[EpochEntry], end: HistoryEnd) -> HistoryEnd {
    rest.first().map_or(end, |next| HistoryEnd {
        sequence: Sequence(next.first_sequence.0.saturating_sub(1)),
        chain: next.chain_before,
    })
}

#[cfg(test)]
#[path = "epoch_table_tests.rs"]
mod tests;
