//! The last moves. A command that is repeated because its answer was lost gets the answer of the first time. Part of
//! the state: every copy of the stream remembers the same moves.
//!
//! The last [`LAST_MOVES`] are remembered regardless of their age. Earlier ones are remembered if they are younger than
//! [`MOVES_KEPT_MS`] by the log's trusted time, up to [`RECENT_MOVES_MAX`] in total. A move that is no longer
//! remembered never is again, so removing it from memory changes no answer, and is done in small pieces.
//!
//! Moves are stored in pieces that a frozen checkpoint shares: freezing copies no piece, and later moves copy the last
//! piece once.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::command::Move;
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::store::names::keys::Shards;
use crate::units::{DueKey, Millis, Sequence};

/// The number of moves that are remembered regardless of their age.
pub const LAST_MOVES: usize = 65_536;
/// How long each move is remembered, in milliseconds: ten minutes, the same as for an id.
pub const MOVES_KEPT_MS: u64 = 600_000;
/// The maximum number of remembered moves.
pub const RECENT_MOVES_MAX: usize = 1_048_576;
/// The number of moves in a piece.
const PIECE_MOVES: u64 = 1_024;
/// The maximum number of moves to forget with each new move.
const FORGOTTEN_AT_ONCE: usize = 64;
/// The maximum number of moves to forget with each batch of any kind: about 30 microseconds. If no more moves arrive,
/// only batches forget moves; a million are forgotten within four thousand batches.
const FORGOTTEN_BY_BATCH: usize = 256;
/// Bytes of one move in a checkpoint.
const SAVED_BYTES: usize = 36;

/// A move that took effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Moved {
    /// The entry that was moved; an entry is moved once.
    target: Sequence,
    /// The entry that it became.
    key: DueKey,
    /// The requested delay; `None` if a time was requested.
    delay_ms: Option<u64>,
    /// The trusted time of its batch.
    time: Millis,
}

/// The remembered moves: see the module.
#[derive(Clone, Debug, Default)]
pub struct RecentMoves {
    /// The moves in log order. The first move of the first piece has the number `first`, rounded down to a whole piece.
    pieces: VecDeque<Arc<Vec<Moved>>>,
    /// The number of the first move in memory. Moves are numbered in order.
    first: u64,
    /// The number of the next move.
    next: u64,
    /// The move number for each moved sequence; empty in a frozen copy.
    numbers: Shards<Sequence, u64>,
}

impl RecentMoves {
    /// Remembers a move that made `key`, and forgets a bounded number of moves that are over.
    pub(in crate::store) fn note(&mut self, moved: &Move, key: DueKey, now: Millis) {
        self.push(Moved { target: moved.target.sequence, key, delay_ms: moved.delay_ms, time: now });
        self.forget_over(now, FORGOTTEN_AT_ONCE);
    }

    fn push(&mut self, moved: Moved) {
        if self.next.is_multiple_of(PIECE_MOVES) {
            self.pieces.push_back(Arc::default());
        }
        let Some(last) = self.pieces.back_mut() else { return };
        Arc::make_mut(last).push(moved);
        self.numbers.insert(moved.target, self.next);
        self.next = self.next.saturating_add(1);
    }

    /// Removes moves that are no longer remembered from memory, the oldest first, at most `at_most`. No answer changes.
    fn forget_over(&mut self, now: Millis, at_most: usize) {
        for _ in 0..at_most {
            let Some(oldest) = self.at(self.first).filter(|_| !self.is_remembered(self.first, now)) else { return };
            self.numbers.remove(oldest.target);
            self.first = self.first.saturating_add(1);
            if self.first.is_multiple_of(PIECE_MOVES) {
                self.pieces.pop_front();
            }
        }
    }

    /// Forgets a bounded number of moves after each batch, since no more moves may arrive.
    pub(in crate::store) fn forget_by_batch(&mut self, now: Millis) {
        self.forget_over(now, FORGOTTEN_BY_BATCH);
    }

    fn at(&self, number: u64) -> Option<&Moved> {
        let piece = (number / PIECE_MOVES).checked_sub(self.first / PIECE_MOVES)?;
        self.pieces.get(usize::try_from(piece).ok()?)?.get((number % PIECE_MOVES) as usize)
    }

    fn is_remembered(&self, number: u64, now: Millis) -> bool {
        let younger = self.next.saturating_sub(number) as usize;
        let is_young = || self.at(number).is_some_and(|moved| now.since(moved.time) < MOVES_KEPT_MS);
        younger <= LAST_MOVES || (younger <= RECENT_MOVES_MAX && is_young())
    }

    /// The entry that the target became, if an earlier move asked for the same.
    pub(in crate::store) fn repeated(&self, moved: &Move, now: Millis) -> Option<DueKey> {
        let number = self.numbers.get(moved.target.sequence).filter(|_| !is_on(Planted::MoveForgotten))?;
        let before = self.at(number).filter(|_| self.is_remembered(number, now))?;
        moved.asks_the_same(before.key.due, before.delay_ms).then_some(before.key)
    }

    /// The number of moves in memory.
    pub fn len(&self) -> usize {
        self.next.saturating_sub(self.first) as usize
    }

    /// True if no move is in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if both agree on the moves that both remember. The times of moves are not compared, and one of the two may
    /// have forgotten moves that are over.
    pub(in crate::store) fn agrees_with(&self, other: &Self) -> bool {
        let same = self.len().min(other.len()) as u64;
        let of = |one: &Self| {
            let last = (one.next.saturating_sub(same)..one.next).filter_map(|number| one.at(number));
            last.map(|moved| Moved { time: Millis(0), ..*moved }).collect::<Vec<_>>()
        };
        (self.len() == other.len() || same >= LAST_MOVES as u64) && of(self) == of(other)
    }

    /// The copy that a checkpoint shares.
    pub(in crate::store) fn frozen(&self) -> Self {
        Self { pieces: self.pieces.clone(), first: self.first, next: self.next, numbers: Shards::default() }
    }

    /// Writes a count, then for each move remembered at `now` `target u64 | due_ms u64 | sequence u64 | how u32 |
    /// delay_ms u64`. Bit 0 of `how` is 1 if a delay was requested; the other bits are the age at `now` in
    /// milliseconds, at most [`MOVES_KEPT_MS`].
    pub(in crate::store) fn write(&self, out: &mut FieldWriter, now: Millis) {
        let remembered = (self.first..self.next).find(|number| self.is_remembered(*number, now));
        let from = remembered.unwrap_or(self.next);
        out.count(self.next.saturating_sub(from) as usize);
        for moved in (from..self.next).filter_map(|number| self.at(number)) {
            out.u64(moved.target.0);
            out.u64(moved.key.due.0);
            out.u64(moved.key.sequence.0);
            let age_ms = now.since(moved.time).min(MOVES_KEPT_MS) as u32;
            out.u32(age_ms << 1 | u32::from(moved.delay_ms.is_some()));
            out.u64(moved.delay_ms.unwrap_or_default());
        }
    }

    /// Reads what [`Self::write`] wrote, in a checkpoint whose next sequence is `next` and whose time is `now`.
    ///
    /// # Errors
    /// `Corrupt` if there are more than can be remembered, or they are out of order.
    pub(in crate::store) fn read(from: &mut FieldReader<'_>, next: Sequence, now: Millis) -> Result<Self> {
        let count = from.count(SAVED_BYTES)?;
        if count > RECENT_MOVES_MAX {
            return Err(from.malformed("the moves that are remembered, and no more"));
        }
        let mut read = Self::default();
        let mut last = (Sequence(0), u64::MAX);
        for _ in 0..count {
            let target = Sequence(from.u64()?);
            let key = DueKey { due: Millis(from.u64()?), sequence: Sequence(from.u64()?) };
            let how = from.u32()?;
            let (is_relative, age_ms) = (how & 1 != 0, u64::from(how >> 1));
            let delay_ms = Some(from.u64()?).filter(|_| is_relative);
            let follows = key.sequence > last.0 && age_ms <= last.1.min(MOVES_KEPT_MS);
            let is_new = target < key.sequence && key.sequence < next && read.numbers.get(target).is_none();
            if !follows || !is_new {
                return Err(from.malformed("moves in the order of the log, each of another message"));
            }
            last = (key.sequence, age_ms);
            read.push(Moved { target, key, delay_ms, time: Millis(now.0.saturating_sub(age_ms)) });
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

    /// Makes moves of the targets from 1 on, each a millisecond after the one before.
    fn many(count: u64) -> RecentMoves {
        let mut moves = RecentMoves::default();
        for target in 1..=count {
            let delay_ms = Some(3).filter(|_| target % 2 == 0);
            moves.note(&moved(target, 7, delay_ms), key(7, count * 2 + target), Millis(target));
        }
        moves
    }

    fn saved(moves: &RecentMoves, now: u64) -> Vec<u8> {
        let mut out = FieldWriter::default();
        moves.frozen().write(&mut out, Millis(now));
        out.bytes
    }

    fn read(bytes: &[u8], next: u64, now: u64) -> Result<RecentMoves> {
        RecentMoves::read(&mut FieldReader::new("checkpoint", bytes), Sequence(next), Millis(now))
    }

    const LAST: u64 = LAST_MOVES as u64;

    #[test]
    fn a_command_that_comes_again_is_told_from_another_one() {
        let mut moves = RecentMoves::default();
        moves.note(&moved(1, 100, None), key(100, 10), Millis(0));
        moves.note(&moved(2, 100, Some(50)), key(100, 11), Millis(0));
        let repeated = |asked| moves.repeated(&asked, Millis(MOVES_KEPT_MS * 9));
        assert_eq!(repeated(moved(1, 100, None)), Some(key(100, 10)));
        assert_eq!(repeated(moved(1, 101, None)), None, "another time");
        assert_eq!(repeated(moved(1, 100, Some(50))), None, "a delay, and not a time");
        assert_eq!(repeated(moved(2, 170, Some(50))), Some(key(100, 11)), "the same delay, later");
        assert_eq!(repeated(moved(2, 100, Some(49))), None, "another delay");
        assert_eq!(repeated(moved(2, 100, None)), None, "a time, and not a delay");
        assert_eq!(repeated(moved(3, 100, None)), None);
    }

    #[test]
    fn more_than_the_last_ones_are_known_for_as_long_as_they_are_young() {
        let moves = many(LAST + 5_000);
        assert_eq!(moves.len(), LAST_MOVES + 5_000, "all were made within ten minutes");
        for target in [1, 5_000, 5_001, LAST + 5_000] {
            let asked = moved(target, 7, Some(3).filter(|_| target % 2 == 0));
            let found = Some(key(7, (LAST + 5_000) * 2 + target));
            assert_eq!(moves.repeated(&asked, Millis(MOVES_KEPT_MS)), found, "{target}");
            let later = found.filter(|_| target > 5_000);
            assert_eq!(moves.repeated(&asked, Millis(MOVES_KEPT_MS + 5_000)), later, "{target}");
        }
    }

    #[test]
    fn the_oldest_of_too_many_is_forgotten_however_young() {
        let most = RECENT_MOVES_MAX as u64;
        let mut moves = RecentMoves::default();
        for target in 1..=most + 1_500 {
            moves.note(&moved(target, 7, None), key(7, most * 2 + target), Millis(9));
        }
        assert_eq!((moves.len(), moves.numbers.len()), (RECENT_MOVES_MAX, RECENT_MOVES_MAX));
        assert_eq!(moves.pieces.len(), RECENT_MOVES_MAX / PIECE_MOVES as usize + 1);
        assert_eq!(moves.repeated(&moved(1_500, 7, None), Millis(9)), None);
        assert_eq!(moves.repeated(&moved(1_501, 7, None), Millis(9)), Some(key(7, most * 2 + 1_501)));
        let bytes = saved(&moves, 9);
        assert_eq!(bytes.len(), 8 + SAVED_BYTES * RECENT_MOVES_MAX);
        assert!(read(&bytes, most * 4, 9).unwrap().agrees_with(&moves));
    }

    #[test]
    fn what_is_over_goes_in_small_pieces_and_changes_no_answer() {
        let mut moves = many(LAST + 3_000);
        let now = Millis(MOVES_KEPT_MS + 2_000);
        let before = saved(&moves, now.0);
        let frozen = moves.frozen();
        moves.forget_over(now, 500);
        assert_eq!(moves.len(), LAST_MOVES + 2_500);
        assert_eq!(saved(&moves, now.0), before, "of these, 2,000 are over");
        moves.forget_over(now, usize::MAX);
        assert_eq!((moves.len(), moves.numbers.len()), (LAST_MOVES + 1_000, LAST_MOVES + 1_000));
        assert_eq!(saved(&moves, now.0), before);
        assert_eq!(frozen.len(), LAST_MOVES + 3_000, "a frozen copy keeps what it was taken of");
        moves.forget_over(Millis(u64::MAX), usize::MAX);
        assert_eq!(moves.len(), LAST_MOVES);
    }

    #[test]
    fn a_million_of_them_goes_within_four_thousand_batches_and_gives_its_memory_back() {
        let most = RECENT_MOVES_MAX as u64;
        let mut moves = RecentMoves::default();
        for target in 1..=most {
            moves.note(&moved(target, 7, None), key(7, most * 2 + target), Millis(9));
        }
        let room = moves.numbers.room();
        let now = Millis(9 + MOVES_KEPT_MS);
        moves.forget_by_batch(Millis(now.0 - 1));
        assert_eq!(moves.len(), RECENT_MOVES_MAX, "none is over yet");
        for _ in 0..4_000 {
            moves.forget_by_batch(now);
        }
        assert_eq!((moves.len(), moves.numbers.len()), (LAST_MOVES, LAST_MOVES));
        assert_eq!(moves.pieces.len(), LAST_MOVES / PIECE_MOVES as usize);
        assert!(moves.numbers.room() * 3 < room, "{} of {room} are left", moves.numbers.room());
    }

    #[test]
    fn what_is_saved_reads_back_and_is_as_old_as_it_was() {
        let moves = many(LAST + 10);
        let now = MOVES_KEPT_MS + 4;
        let read_back = read(&saved(&moves, now), LAST * 4, now).unwrap();
        assert_eq!(read_back.len(), LAST_MOVES + 6, "four are over");
        assert_eq!(saved(&read_back, now), saved(&moves, now));
        assert_eq!(saved(&read_back, now + 3), saved(&moves, now + 3));
        assert!(read_back.agrees_with(&moves) && !read_back.agrees_with(&many(LAST + 9)));
        assert!(read(&saved(&moves, now), LAST * 3, now).is_err(), "it ends behind what is known");
    }

    #[test]
    fn what_an_earlier_release_saved_is_as_young_as_its_checkpoint() {
        let mut bytes = saved(&many(3), 1_000);
        for place in 0..3 {
            let how = 8 + SAVED_BYTES * place + 24;
            bytes[how + 1..how + 4].fill(0);
            bytes[how] &= 1;
        }
        let read_back = read(&bytes, 10, 5_000).unwrap();
        assert_eq!(read_back.at(0).map(|moved| moved.time), Some(Millis(5_000)));
        assert!(read_back.agrees_with(&many(3)));
    }

    #[test]
    fn ages_that_grow_or_are_too_high_are_refused() {
        let bytes = saved(&many(2), 2);
        assert!(read(&bytes, 10, 2).is_ok());
        for age_ms in [2_u32, 600_001] {
            let mut other = bytes.clone();
            other[8 + SAVED_BYTES + 24..][..4].copy_from_slice(&(age_ms << 1).to_le_bytes());
            assert!(read(&other, 10, 2).is_err(), "{age_ms}");
        }
    }
}
