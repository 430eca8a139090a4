//! The last moves, so that a command that comes again, since its answer was lost, is answered as the first
//! time. Part of the state: every copy of the stream remembers the same ones.

use std::collections::{HashMap, VecDeque};

use super::codec::{FieldReader, FieldWriter};
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::command::Move;
use crate::units::{DueKey, Millis, Sequence};

/// Moves that are remembered.
pub const RECENT_MOVES_MAX: usize = 65_536;
/// Bytes of one in a checkpoint.
const SAVED_BYTES: usize = 36;

/// One move that was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Moved {
    /// What was moved; a sequence is moved once.
    target: Sequence,
    /// What it became.
    key: DueKey,
    /// The delay that was asked for; `None` where a time was.
    delay_ms: Option<u64>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct RecentMoves {
    /// In the order of the log.
    moves: VecDeque<Moved>,
    keys: HashMap<Sequence, (DueKey, Option<u64>)>,
}

impl PartialEq for RecentMoves {
    fn eq(&self, other: &Self) -> bool {
        self.moves == other.moves
    }
}

impl RecentMoves {
    /// Remembers a move that was done under `key`; the one that was done first of too many is forgotten.
    pub(super) fn note(&mut self, moved: &Move, key: DueKey) {
        self.push(Moved { target: moved.target.sequence, key, delay_ms: moved.delay_ms });
    }

    fn push(&mut self, moved: Moved) {
        self.keys.insert(moved.target, (moved.key, moved.delay_ms));
        self.moves.push_back(moved);
        while self.moves.len() > RECENT_MOVES_MAX {
            let Some(oldest) = self.moves.pop_front() else { break };
            self.keys.remove(&oldest.target);
        }
    }

    /// What the target became, where the same was asked for before.
    pub(super) fn repeated(&self, moved: &Move) -> Option<DueKey> {
        let (key, delay_ms) = self.keys.get(&moved.target.sequence).filter(|_| !is_on(Planted::MoveForgotten))?;
        moved.asks_the_same(key.due, *delay_ms).then_some(*key)
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.moves.len()
    }

    /// True where none is.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// A count, then for each `target u64 | due_ms u64 | sequence u64 | is_relative u32 | delay_ms u64`.
    pub(super) fn write(&self, out: &mut FieldWriter) {
        out.count(self.moves.len());
        for moved in &self.moves {
            out.u64(moved.target.0);
            out.u64(moved.key.due.0);
            out.u64(moved.key.sequence.0);
            out.u32(u32::from(moved.delay_ms.is_some()));
            out.u64(moved.delay_ms.unwrap_or_default());
        }
    }

    /// Reads what [`Self::write`] wrote, in a checkpoint whose next sequence is `next`.
    ///
    /// # Errors
    /// `Corrupt` where there are more than are remembered, or they are out of order.
    pub(super) fn read(from: &mut FieldReader<'_>, next: Sequence) -> Result<Self> {
        let count = from.count(SAVED_BYTES)?;
        if count > RECENT_MOVES_MAX {
            return Err(from.malformed("the moves that are remembered, and no more"));
        }
        let mut read = Self::default();
        let mut last = Sequence(0);
        for _ in 0..count {
            let target = Sequence(from.u64()?);
            let key = DueKey { due: Millis(from.u64()?), sequence: Sequence(from.u64()?) };
            let is_relative = from.u32()? != 0;
            let delay_ms = Some(from.u64()?).filter(|_| is_relative);
            if key.sequence <= last || target >= key.sequence || key.sequence >= next || read.keys.contains_key(&target)
            {
                return Err(from.malformed("moves in the order of the log, each of another message"));
            }
            last = key.sequence;
            read.push(Moved { target, key, delay_ms });
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SubjectNumber;

    fn moved(target: u64, due: u64, delay_ms: Option<u64>) -> Move {
        let target = DueKey { due: Millis(5), sequence: Sequence(target) };
        Move { target, due: Millis(due), delay_ms, subject: SubjectNumber(1), size: 0 }
    }

    fn key(due: u64, sequence: u64) -> DueKey {
        DueKey { due: Millis(due), sequence: Sequence(sequence) }
    }

    #[test]
    fn a_command_that_comes_again_is_told_from_another_one() {
        let mut moves = RecentMoves::default();
        moves.note(&moved(1, 100, None), key(100, 10));
        moves.note(&moved(2, 100, Some(50)), key(100, 11));
        assert_eq!(moves.repeated(&moved(1, 100, None)), Some(key(100, 10)));
        assert_eq!(moves.repeated(&moved(1, 101, None)), None, "another time");
        assert_eq!(moves.repeated(&moved(1, 100, Some(50))), None, "a delay, and not a time");
        assert_eq!(moves.repeated(&moved(2, 170, Some(50))), Some(key(100, 11)), "the same delay, later");
        assert_eq!(moves.repeated(&moved(2, 100, Some(49))), None, "another delay");
        assert_eq!(moves.repeated(&moved(2, 100, None)), None, "a time, and not a delay");
        assert_eq!(moves.repeated(&moved(3, 100, None)), None);
    }

    #[test]
    fn the_oldest_of_too_many_is_forgotten_and_what_is_saved_is_read_again() {
        let mut moves = RecentMoves::default();
        let most = RECENT_MOVES_MAX as u64;
        for target in 1..=most + 1 {
            moves.note(&moved(target, 7, Some(3).filter(|_| target % 2 == 0)), key(7, most * 2 + target));
        }
        assert_eq!((moves.len(), moves.keys.len()), (RECENT_MOVES_MAX, RECENT_MOVES_MAX));
        assert_eq!(moves.repeated(&moved(1, 7, None)), None);
        assert_eq!(moves.repeated(&moved(3, 7, None)), Some(key(7, most * 2 + 3)));
        let mut out = FieldWriter::default();
        moves.write(&mut out);
        let mut from = FieldReader::new("checkpoint", &out.bytes);
        assert_eq!(RecentMoves::read(&mut from, Sequence(most * 4)).unwrap(), moves);
        assert!(RecentMoves::read(&mut FieldReader::new("checkpoint", &out.bytes), Sequence(most * 3)).is_err());
    }
}
