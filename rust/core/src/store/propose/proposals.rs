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
