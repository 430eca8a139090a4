//! Reads the ready messages of a subject in pieces, so that the owner is not locked while the disk is read. It changes
//! nothing.

use std::sync::Arc;

use crate::dispatch_log::{Posting, ReadPostings, read_postings};
use crate::error::Result;
use crate::run::Run;
use crate::schedule_log::Entry;
use crate::store::owner::Owner;
use crate::units::{ReadyNumber, SubjectNumber};

/// Messages in one piece, at most.
const PIECE_MAX: u64 = 4_096;

/// The place of a reader of ready messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyCursor {
    subject: SubjectNumber,
    next: ReadyNumber,
    end: ReadyNumber,
}

impl ReadyCursor {
    /// Reads the numbers from `first` up to but not including `end`.
    pub fn new(subject: SubjectNumber, first: ReadyNumber, end: ReadyNumber) -> Self {
        Self { subject, next: first, end }
    }
}

/// One piece of the ready messages.
#[derive(Debug)]
pub enum ReadyPiece {
    /// Messages, by number, ascending.
    Entries(Vec<(ReadyNumber, Entry)>),
    /// Messages in a run, to be read while the owner goes on.
    Load(ReadyLoad),
    /// There are no more.
    End,
}

/// Messages in a run.
#[derive(Clone, Debug)]
pub struct ReadyLoad {
    subject: SubjectNumber,
    first: ReadyNumber,
    run: Arc<Run>,
    count: u64,
}

impl ReadyLoad {
    pub(in crate::store) fn new(subject: SubjectNumber, first: ReadyNumber, run: Arc<Run>, count: u64) -> Self {
        Self { subject, first, run, count }
    }

    /// Reads the messages. Slow. Damaged rows are left out, and named in the result.
    ///
    /// # Errors
    /// `Storage` if the run could not be read.
    pub fn read(&self) -> Result<ReadPostings> {
        read_postings(&self.run, self.subject, self.first, self.count)
    }
}

impl Owner {
    /// A cursor over the unfinished ready messages of a subject, as of now, without those that a group reads again.
    pub fn ready_cursor(&self, subject: SubjectNumber) -> ReadyCursor {
        let dispatch = &self.state.dispatch;
        ReadyCursor::new(subject, dispatch.listed_from(subject), dispatch.next_number(subject))
    }

    /// Returns the next piece. Messages that were finished meanwhile are skipped.
    pub fn look_at_ready(&self, cursor: &mut ReadyCursor) -> ReadyPiece {
        let dispatch = &self.state.dispatch;
        let subject = cursor.subject;
        cursor.next = cursor.next.max(dispatch.listed_from(subject));
        let mut entries = Vec::new();
        let end = cursor.end.min(cursor.next.plus(PIECE_MAX));
        while cursor.next < end {
            match dispatch.posting(subject, cursor.next) {
                Posting::Entry(entry) => entries.push((cursor.next, entry)),
                Posting::InRun { run, count } if entries.is_empty() => {
                    let count = count.min(end.since(cursor.next));
                    let first = cursor.next;
                    cursor.next = first.plus(count);
                    return ReadyPiece::Load(ReadyLoad::new(subject, first, run, count));
                }
                Posting::InRun { .. } => break,
                Posting::InLog | Posting::Gone => {}
            }
            cursor.next = cursor.next.next();
        }
        if entries.is_empty() && cursor.next >= cursor.end { ReadyPiece::End } else { ReadyPiece::Entries(entries) }
    }
}
