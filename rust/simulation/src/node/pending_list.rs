//! Lists of pending messages.

use delaymq_core::error::Result;
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{PendingLook, PendingOf, PendingPiece, PendingQuery, PendingScan};
use delaymq_core::units::DueKey;

use super::Node;

impl Node {
    /// One page of a list; `None` at its end.
    pub fn list_page(&mut self, scan: &mut PendingScan, limit: usize) -> Result<Option<PendingPiece>> {
        loop {
            match self.owner.look_at_pending(scan) {
                PendingLook::Again => {}
                PendingLook::View(view) => return scan.read(view, limit).map(Some),
                PendingLook::End => return Ok(None),
            }
        }
    }

    /// All that is pending, listed in pages of so many, and whether all of it could be read.
    pub fn list_pending(&mut self, limit: usize) -> Result<(Vec<DueKey>, bool)> {
        self.list(&PendingQuery { of: PendingOf::Prefix(String::new()), ..PendingQuery::default() }, limit)
    }

    /// All that was asked for, listed in pages of so many, and whether all of it could be read.
    pub fn list(&mut self, query: &PendingQuery, limit: usize) -> Result<(Vec<DueKey>, bool)> {
        let mut scan = PendingScan::new(self.identity.stream.id, query)?;
        let (mut keys, mut is_whole) = (Vec::new(), true);
        while let Some(page) = self.list_page(&mut scan, limit)? {
            keys.extend(page.entries.iter().map(Entry::key));
            is_whole &= page.hidden.is_empty();
        }
        Ok((keys, is_whole))
    }

    /// Asks for the forecast of each subject. Runs whose rows had to be read for it are counted again.
    pub fn ask_for_forecast(&mut self) {
        let state = self.owner.state();
        if state.subjects.iter().any(|(subject, _)| state.horizon(Some(subject)).reads_rows()) {
            self.owner.count_again();
        }
    }
}
