//! Two bits for each sequence of a range: the state of its entry.
//!
//! The bits are in pages that clones share and a write copies, so that a checkpoint takes the states of a
//! hundred million sequences between two steps.

use std::sync::Arc;

use crate::units::Sequence;

/// The state of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum EntryState {
    /// No entry has this sequence: its fact is not a message, or the entry was moved.
    Nothing = 0,
    /// The entry waits for its due time.
    Pending = 1,
    /// The entry became ready.
    Dispatched = 2,
    /// The entry was cancelled.
    Cancelled = 3,
}

impl EntryState {
    fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            1 => Self::Pending,
            2 => Self::Dispatched,
            3 => Self::Cancelled,
            _ => Self::Nothing,
        }
    }
}

const STATES_PER_WORD: u64 = 32;
const PAGE_WORDS: usize = 256;
const STATES_PER_PAGE: u64 = STATES_PER_WORD * PAGE_WORDS as u64;

type Page = [u64; PAGE_WORDS];

/// The states of a dense range of sequences.
#[derive(Clone, Debug)]
pub struct TwoBits {
    first: Sequence,
    length: u64,
    pages: Vec<Arc<Page>>,
}

impl TwoBits {
    /// An empty range that begins at `first`.
    pub fn new(first: Sequence) -> Self {
        Self { first, length: 0, pages: Vec::new() }
    }

    /// A range in which every sequence is pending.
    pub fn all_pending(first: Sequence, length: u64) -> Self {
        let mut bits = Self::new(first);
        bits.fill_to(first.plus(length));
        let mut left = length;
        for word in bits.pages.iter_mut().flat_map(|page| Arc::make_mut(page).iter_mut()) {
            let here = left.min(STATES_PER_WORD);
            // The low bit of each state.
            let all = 0x5555_5555_5555_5555_u64;
            *word = if here == STATES_PER_WORD { all } else { all & !(u64::MAX << (here * 2)) };
            left = left.saturating_sub(here);
        }
        bits
    }

    /// A range read back from [`Self::words`]. `None` if the words do not fit `length`.
    pub fn from_words(first: Sequence, length: u64, words: &[u64]) -> Option<Self> {
        if u64::try_from(words.len()).ok()? != length.div_ceil(STATES_PER_WORD) {
            return None;
        }
        let used_in_last = length % STATES_PER_WORD;
        if used_in_last != 0 && words.last()? >> (used_in_last * 2) != 0 {
            return None;
        }
        let pages = words.chunks(PAGE_WORDS).map(|chunk| {
            let mut page = [0; PAGE_WORDS];
            for (to, from) in page.iter_mut().zip(chunk) {
                *to = *from;
            }
            Arc::new(page)
        });
        Some(Self { first, length, pages: pages.collect() })
    }

    /// The states, 32 in a word, the first in the lowest bits. The bits after the last state are zero.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let count = usize::try_from(self.length.div_ceil(STATES_PER_WORD)).unwrap_or(usize::MAX);
        self.pages.iter().flat_map(|page| page.iter().copied()).take(count)
    }

    /// The first sequence of the range.
    pub fn first(&self) -> Sequence {
        self.first
    }

    /// The sequence after the last.
    pub fn end(&self) -> Sequence {
        self.first.plus(self.length)
    }

    /// The number of sequences.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// True if the range is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds the state of the next sequence.
    #[inline]
    pub fn push(&mut self, state: EntryState) {
        if self.length.is_multiple_of(STATES_PER_PAGE) {
            self.pages.push(Arc::new([0; PAGE_WORDS]));
        }
        let at = self.length;
        self.length = self.length.saturating_add(1);
        if state != EntryState::Nothing {
            self.write(at, state);
        }
    }

    /// Adds `Nothing` for each sequence up to `end`, exclusive.
    pub fn fill_to(&mut self, end: Sequence) {
        self.length = self.length.max(end.since(self.first));
        let pages = usize::try_from(self.length.div_ceil(STATES_PER_PAGE)).unwrap_or(usize::MAX);
        if pages > self.pages.len() {
            self.pages.resize_with(pages, || Arc::new([0; PAGE_WORDS]));
        }
    }

    /// Adds another range that begins at the end of this one or later. Sequences between the two are
    /// `Nothing`. Costs one step for each 32 sequences of the other range.
    pub fn append(&mut self, other: &Self) {
        debug_assert!(other.first >= self.end(), "a range from {} on follows one up to {}", other.first, self.end());
        self.fill_to(other.first);
        let start = self.length;
        self.fill_to(other.end());
        let shift = (start % STATES_PER_WORD) * 2;
        for (word, at) in other.words().zip(start / STATES_PER_WORD..) {
            self.add_word(at, word << shift);
            if shift > 0 {
                self.add_word(at.saturating_add(1), word >> (u64::from(u64::BITS) - shift));
            }
        }
    }

    /// The state of a sequence; `Nothing` for one outside the range.
    #[inline]
    pub fn get(&self, sequence: Sequence) -> EntryState {
        let Some(at) = self.index_of(sequence) else { return EntryState::Nothing };
        let (page, word, shift) = place_of(at);
        let word = self.pages.get(page).and_then(|page| page.get(word)).copied().unwrap_or_default();
        EntryState::from_bits(word >> shift)
    }

    /// Changes the state of a sequence and returns the previous one. A sequence outside the range is ignored.
    #[inline]
    pub fn set(&mut self, sequence: Sequence, state: EntryState) -> EntryState {
        match self.index_of(sequence) {
            Some(at) => self.write(at, state),
            None => EntryState::Nothing,
        }
    }

    /// The states of `length` sequences from `from` on. `None` if they are not all in the range, if they do
    /// not begin at a word, or if they end neither with a word nor with the range.
    pub fn part(&self, from: Sequence, length: u64) -> Option<Self> {
        let skipped = from.0.checked_sub(self.first.0)?;
        let end = from.0.checked_add(length)?;
        let is_whole = length.is_multiple_of(STATES_PER_WORD) || end == self.end().0;
        if !skipped.is_multiple_of(STATES_PER_WORD) || end > self.end().0 || !is_whole {
            return None;
        }
        let first = usize::try_from(skipped / STATES_PER_WORD).ok()?;
        let count = usize::try_from(length.div_ceil(STATES_PER_WORD)).ok()?;
        let pages = self.pages.get(first / PAGE_WORDS..).unwrap_or_default();
        let words = pages.iter().flat_map(|page| page.iter().copied()).skip(first % PAGE_WORDS).take(count);
        let words: Vec<u64> = words.collect();
        Self::from_words(from, length, &words)
    }

    /// Removes the pages that end at `floor` or below. The range then begins after them.
    pub fn forget_below(&mut self, floor: Sequence) {
        let below = floor.since(self.first).min(self.length) / STATES_PER_PAGE;
        let pages = usize::try_from(below).unwrap_or(usize::MAX).min(self.pages.len());
        self.pages.drain(..pages);
        let gone = STATES_PER_PAGE.saturating_mul(pages as u64);
        (self.first, self.length) = (self.first.plus(gone), self.length.saturating_sub(gone));
    }

    /// The number of sequences with this state.
    pub fn count(&self, state: EntryState) -> u64 {
        let low_bits = 0x5555_5555_5555_5555_u64;
        let (low, high) = (state as u64 & 1, state as u64 >> 1);
        let mut count = 0_u64;
        for word in self.words() {
            let low_matches = if low == 1 { word } else { !word };
            let high_matches = if high == 1 { word >> 1 } else { !(word >> 1) };
            count = count.saturating_add(u64::from((low_matches & high_matches & low_bits).count_ones()));
        }
        let beyond = self.length.div_ceil(STATES_PER_WORD).saturating_mul(STATES_PER_WORD).saturating_sub(self.length);
        if state == EntryState::Nothing { count.saturating_sub(beyond) } else { count }
    }

    /// The pending sequences, in order.
    pub fn pending(&self) -> impl Iterator<Item = Sequence> + '_ {
        self.places(|word| word & !(word >> 1))
    }

    /// The sequences that became ready, in order.
    pub fn dispatched(&self) -> impl Iterator<Item = Sequence> + '_ {
        self.places(|word| !word & (word >> 1))
    }

    /// The sequences for which `chosen` sets the low bit of the state.
    fn places(&self, chosen: fn(u64) -> u64) -> impl Iterator<Item = Sequence> + '_ {
        self.words().zip(0_u64..).flat_map(move |(word, at)| {
            let mut left = chosen(word) & 0x5555_5555_5555_5555;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| u64::from(left.trailing_zeros()))?;
                left &= left.wrapping_sub(1);
                Some(self.first.plus(at.saturating_mul(STATES_PER_WORD).saturating_add(bit / 2)))
            })
        })
    }

    /// Bytes of memory, shared pages included.
    pub fn memory_bytes(&self) -> usize {
        let page = size_of::<Page>().saturating_add(2 * size_of::<usize>());
        self.pages.len().saturating_mul(page).saturating_add(self.pages.capacity().saturating_mul(size_of::<usize>()))
    }

    #[inline]
    fn index_of(&self, sequence: Sequence) -> Option<u64> {
        sequence.0.checked_sub(self.first.0).filter(|at| *at < self.length)
    }

    /// Sets the bits of `word` in the word at a place, in which these bits are zero.
    fn add_word(&mut self, at: u64, word: u64) {
        if word == 0 {
            return;
        }
        let (page, place, _) = place_of(at.saturating_mul(STATES_PER_WORD));
        if let Some(into) = self.pages.get_mut(page).and_then(|page| Arc::make_mut(page).get_mut(place)) {
            *into |= word;
        }
    }

    #[inline]
    fn write(&mut self, at: u64, state: EntryState) -> EntryState {
        let (page, word, shift) = place_of(at);
        let Some(word) = self.pages.get_mut(page).and_then(|page| Arc::make_mut(page).get_mut(word)) else {
            return EntryState::Nothing;
        };
        let before = EntryState::from_bits(*word >> shift);
        *word = (*word & !(3 << shift)) | ((state as u64) << shift);
        before
    }
}

#[inline]
fn place_of(at: u64) -> (usize, usize, u64) {
    let page = usize::try_from(at / STATES_PER_PAGE).unwrap_or(usize::MAX);
    let word = ((at / STATES_PER_WORD) % PAGE_WORDS as u64) as usize;
    (page, word, (at % STATES_PER_WORD) * 2)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const STATES: [EntryState; 4] =
        [EntryState::Nothing, EntryState::Pending, EntryState::Dispatched, EntryState::Cancelled];

    #[test]
    fn a_range_of_which_all_is_pending_is_one_to_which_each_was_added() {
        for length in [0, 1, 31, 32, 33, 64, 1_000, STATES_PER_PAGE - 1, STATES_PER_PAGE, STATES_PER_PAGE + 5] {
            let mut pushed = TwoBits::new(Sequence(7));
            (0..length).for_each(|_| pushed.push(EntryState::Pending));
            let all = TwoBits::all_pending(Sequence(7), length);
            assert_eq!((all.first(), all.len(), all.count(EntryState::Pending)), (Sequence(7), length, length));
            assert!(all.words().eq(pushed.words()), "{length}");
        }
    }

    #[test]
    fn a_clone_does_not_see_what_is_set_later() {
        let mut bits = TwoBits::new(Sequence(10));
        bits.push(EntryState::Pending);
        let frozen = bits.clone();
        assert_eq!(bits.set(Sequence(10), EntryState::Cancelled), EntryState::Pending);
        assert_eq!(frozen.get(Sequence(10)), EntryState::Pending);
        assert_eq!(bits.get(Sequence(10)), EntryState::Cancelled);
    }

    #[test]
    fn outside_the_range_there_is_nothing() {
        let mut bits = TwoBits::new(Sequence(10));
        bits.push(EntryState::Pending);
        for outside in [0, 9, 11, u64::MAX] {
            assert_eq!(bits.set(Sequence(outside), EntryState::Pending), EntryState::Nothing);
            assert_eq!(bits.get(Sequence(outside)), EntryState::Nothing);
        }
        assert_eq!(bits.count(EntryState::Pending), 1);
    }

    #[test]
    fn words_that_do_not_fit_are_refused() {
        assert!(TwoBits::from_words(Sequence(1), 33, &[0]).is_none());
        assert!(TwoBits::from_words(Sequence(1), 31, &[1 << 62]).is_none());
        assert!(TwoBits::from_words(Sequence(1), 32, &[1 << 62]).is_some());
    }

    proptest! {
        #[test]
        fn what_is_appended_reads_as_before(
            first in prop::collection::vec(0_usize..4, 0..70),
            gap in prop::sample::select(vec![0_u64, 1, 31, 32, 33, 8_192, 9_000]),
            second in prop::collection::vec(0_usize..4, 0..9_000),
        ) {
            let of = |from: u64, states: &[usize]| {
                let mut bits = TwoBits::new(Sequence(from));
                for state in states {
                    bits.push(STATES[*state]);
                }
                bits
            };
            let (mut left, right) = (of(7, &first), of(7 + first.len() as u64 + gap, &second));
            let before = left.clone();
            left.append(&right);
            prop_assert_eq!((left.first(), left.end()), (Sequence(7), right.end()));
            for sequence in (0..right.end().0 + 40).map(Sequence) {
                let expected = if sequence < right.first() { before.get(sequence) } else { right.get(sequence) };
                prop_assert_eq!(left.get(sequence), expected);
            }
            let words: Vec<u64> = left.words().collect();
            prop_assert!(TwoBits::from_words(left.first(), left.len(), &words).is_some());
        }

        #[test]
        fn it_agrees_with_a_map(
            first in 1_u64..100,
            pushed in prop::collection::vec(0_usize..4, 0..200),
            gap in prop::sample::select(vec![0_u64, 1, 31, 8_190, 8_192, 20_000]),
            sets in prop::collection::vec((0_u64..21_000, 0_usize..4), 0..60),
        ) {
            let mut bits = TwoBits::new(Sequence(first));
            let mut map = BTreeMap::new();
            for state in &pushed {
                map.insert(bits.end(), STATES[*state]);
                bits.push(STATES[*state]);
            }
            let end = bits.end().plus(gap);
            while bits.end() < end && gap < 100 {
                map.insert(bits.end(), EntryState::Nothing);
                bits.push(EntryState::Nothing);
            }
            bits.fill_to(end);
            for (sequence, state) in sets {
                bits.set(Sequence(sequence), STATES[state]);
                if (Sequence(first)..end).contains(&Sequence(sequence)) {
                    map.insert(Sequence(sequence), STATES[state]);
                }
            }
            let words: Vec<u64> = bits.words().collect();
            let read = TwoBits::from_words(Sequence(first), bits.len(), &words).unwrap();
            for sequence in (0..first + 20_400).map(Sequence) {
                let expected = map.get(&sequence).copied().unwrap_or(EntryState::Nothing);
                prop_assert_eq!(read.get(sequence), expected);
            }
            for state in &STATES[1..] {
                prop_assert_eq!(read.count(*state), map.values().filter(|found| *found == state).count() as u64);
            }
            let total: u64 = STATES.iter().map(|state| read.count(*state)).sum();
            prop_assert_eq!(total, read.len());
            let pending: Vec<Sequence> = map.iter().filter(|(_, state)| **state == EntryState::Pending).map(|(sequence, _)| *sequence).collect();
            prop_assert_eq!(read.pending().collect::<Vec<_>>(), pending);
        }
    }
}
