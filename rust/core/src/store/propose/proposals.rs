//! Facts proposed for the log. They change nothing until they are durable and applied.

/// Encoded facts in the order decided, in groups that must not be split.
#[derive(Clone, Debug, Default)]
pub struct Proposals {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    end: usize,
    record_count: u32,
    must_sync: bool,
}

/// One proposal: records for one submission.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    /// Encoded records. Their checks do not include their sequences yet.
    pub records: &'a [u8],
    /// How many.
    pub record_count: u32,
    /// True if the facts may be used only after an `fdatasync`, even with the durability `os`.
    pub must_sync: bool,
}

impl Proposals {
    /// Adds one proposal of `record_count` records that `encode` appends.
    pub fn push(&mut self, record_count: u32, must_sync: bool, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.bytes);
        self.marks.push(Mark { end: self.bytes.len(), record_count, must_sync });
    }

    /// The proposals, in order.
    pub fn iter(&self) -> impl Iterator<Item = Proposal<'_>> {
        let mut start = 0;
        self.marks.iter().filter_map(move |mark| {
            let records = self.bytes.get(start..mark.end)?;
            start = mark.end;
            Some(Proposal { records, record_count: mark.record_count, must_sync: mark.must_sync })
        })
    }

    /// The proposals from this one on. Neighbours that need the same sync are one, as far as they take at most so many
    /// bytes. Also returns how many are joined.
    pub fn joined(&self, from: usize, bytes_max: usize) -> impl Iterator<Item = (Proposal<'_>, usize)> {
        let mut start = from.checked_sub(1).and_then(|last| self.marks.get(last)).map_or(0, |mark| mark.end);
        let mut rest = self.marks.get(from..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (first, others) = rest.split_first()?;
            let (mut record_count, mut end, must_sync) = (first.record_count, first.end, first.must_sync);
            let fits = |mark: &&Mark| mark.must_sync == must_sync && mark.end.saturating_sub(start) <= bytes_max;
            let mut joined = 1_usize;
            for mark in others.iter().take_while(fits) {
                (record_count, end) = (record_count.saturating_add(mark.record_count), mark.end);
                joined = joined.saturating_add(1);
            }
            let records = self.bytes.get(start..end)?;
            start = end;
            rest = rest.get(joined..).unwrap_or_default();
            Some((Proposal { records, record_count, must_sync }, joined))
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// True if there is no proposal.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Removes all proposals, and keeps the memory for reuse.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_up_to_their_bytes_and_where_their_syncs_are_the_same() {
        let mut proposals = Proposals::default();
        for (bytes, must_sync) in [(4, false), (4, false), (4, false), (2, true), (2, true), (9, false), (1, false)] {
            proposals.push(bytes, must_sync, |out| out.extend((0..bytes).map(|_| b'x')));
        }
        let joined = |from, bytes_max| -> Vec<(usize, u32, bool, usize)> {
            let all = proposals.joined(from, bytes_max);
            all.map(|(one, joined)| (one.records.len(), one.record_count, one.must_sync, joined)).collect()
        };
        assert_eq!(
            joined(0, 8),
            [(8, 8, false, 2), (4, 4, false, 1), (4, 4, true, 2), (9, 9, false, 1), (1, 1, false, 1)]
        );
        assert_eq!(joined(2, 100), [(4, 4, false, 1), (4, 4, true, 2), (10, 10, false, 2)]);
        assert_eq!(joined(0, 0).len(), proposals.len());
        assert_eq!([joined(7, 8), joined(8, 8)], [vec![], vec![]]);
    }
}
