//! Postings that must be read before messages are delivered: a request that needs no owner, and its result.

use std::sync::Arc;

use crate::dispatch_log::{ReadPostings, prefetch_postings, read_postings};
use crate::error::Result;
use crate::run::Run;
use crate::store::history::{HistoryPiece, HistoryRequest};
use crate::units::{GroupNumber, ReadyNumber, SubjectNumber};

/// Postings of one subject that lie in a run, or in the log alone.
#[derive(Debug)]
pub struct LoadRequest {
    pub(super) group: GroupNumber,
    pub(super) subject: SubjectNumber,
    pub(super) source: LoadSource,
}

#[derive(Debug)]
pub(super) enum LoadSource {
    Run {
        first: ReadyNumber,
        run: Arc<Run>,
        count: u64,
        /// How many more postings after these will be wanted from the run.
        beyond: u64,
    },
    Log(Box<HistoryRequest>),
}

/// The result of a load.
#[derive(Debug)]
pub struct LoadedPostings {
    /// The group that waits.
    pub group: GroupNumber,
    /// The subject of the postings.
    pub subject: SubjectNumber,
    /// Entries by number, and the numbers whose rows are damaged. Empty for a piece of the log, which the owner numbers.
    pub found: ReadPostings,
    /// A piece of the log.
    pub(in crate::store) piece: Option<Box<HistoryPiece>>,
}

impl LoadRequest {
    /// Reads the postings. This is slow, so hold no lock. A damaged block loses only its own rows. The postings after
    /// these are prefetched while these are delivered.
    ///
    /// # Errors
    /// `Storage` if the run could not be read. The pull may be tried again.
    pub fn read(self) -> Result<LoadedPostings> {
        let Self { group, subject, source } = self;
        let (found, piece) = match source {
            LoadSource::Run { first, run, count, beyond } => {
                let found = read_postings(&run, subject, first, count)?;
                prefetch_postings(&run, subject, first.plus(count), beyond.min(count));
                (found, None)
            }
            LoadSource::Log(request) => (ReadPostings::default(), Some(Box::new(request.read()?))),
        };
        Ok(LoadedPostings { group, subject, found, piece })
    }
}
