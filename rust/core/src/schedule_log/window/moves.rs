//! Entries that were moved to another due time, and where their payloads are found.
//!
//! Moving reads nothing from the disk. An entry in memory is copied with its new key. For an entry in a run,
//! the move makes an *unresolved* entry: it names its *origin*, the row that says where the payload is. The
//! entry is resolved before it leaves the schedule: when the feed loads it, when it is looked up, or at the
//! latest when the next checkpoint writes it into a run. All rows in runs are therefore resolved, and an
//! origin is always one step away.
//!
//! The origin's row exists until then, even if no entry of its run is pending any more:
//!
//! 1. A checkpoint *needs* a run while an entry is pending in it, or while an entry in the checkpoint's own
//!    parts has its origin there ([`Schedule::is_needed`], evaluated at the freeze).
//! 2. Take an unresolved entry, and the last freeze before its fact. Either its target was pending in the run
//!    at that freeze (or in the part that became the run). Or it is a copy of another unresolved entry, which
//!    was in a part of that freeze, or came later and is of the same kind. In each case the checkpoint of that
//!    freeze needs the run, by 1. If that checkpoint was abandoned, its parts and their entries are in the next
//!    one.
//! 3. The next freeze that becomes a checkpoint resolves the entry. Until then, the newest kept checkpoint is
//!    that of 2, or the one before it if none was completed since. Files that a kept checkpoint needs are not
//!    removed, and the window is not released ([`Schedule::release`], [`Schedule::retire`]).
//!
//! If an entry leaves a frozen part, moved or ready, its payload is where the entry in that part says. The
//! run made of the part may hold a copy, and no longer need that file. The previous run may not need it
//! either, if the message left a part both times: moved twice, or ready, given back and ready again. The
//! files of entries that left since the freeze are therefore held until the next checkpoint is installed
//! ([`Schedule::left_files`]). That checkpoint writes these entries, and names the files that they need. A
//! recovery needs none of these files: it finds the row in the run.
//!
//! After an opening, all entries after its checkpoint are in the open window. By 1 and 2, the checkpoint
//! names the files that the replayed entries need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Body, Window};
use crate::planted::{Planted, is_on};
use crate::run::DamagedBlock;
use crate::schedule_log::entry::Entry;
use crate::schedule_log::schedule::Schedule;
use crate::schedule_log::window::origins::{OriginRun, Origins};
use crate::units::{DueKey, Location, LocationFile, Sequence, SubjectNumber};

impl Schedule {
    /// Returns the entry that a pending one becomes with another key. This changes nothing except that the
    /// origin is held. `subject` and `size` are used for an entry that is not in memory.
    pub fn moved(&mut self, target: DueKey, key: DueKey, subject: SubjectNumber, size: Option<u32>) -> Entry {
        let entry = match self.in_memory(target) {
            Some(entry) => {
                self.hold(target, &entry);
                entry.moved_to(key)
            }
            None => Entry::unresolved(key, target, subject).with_size(size),
        };
        if let Some(origin) = entry.origin()
            && let Some(window) = self.window_at(origin.sequence).and_then(|at| self.windows.get_mut(at))
        {
            window.origin_until = window.origin_until.max(key.sequence);
        }
        entry
    }

    /// Holds the file of the payload of an entry that is moved out of a frozen part. The part's run may have
    /// a copy of the payload and no longer hold that file.
    fn hold(&mut self, target: DueKey, entry: &Entry) {
        let is_frozen = target.sequence < self.open_bits.first();
        if is_frozen && entry.origin().is_none() && entry.location() != Location::NOWHERE {
            self.left_files.insert(entry.location().file());
        }
    }

    /// Notes that an entry became ready. If it is in a frozen part, its file is held for the same reason. An
    /// entry whose own fact has the payload needs no hold: the checkpoint before the freeze keeps the log
    /// from there on.
    #[inline]
    pub fn note_ready(&mut self, entry: &Entry) {
        let is_frozen = entry.sequence() < self.open_bits.first();
        if is_frozen && entry.payload_sequence() != entry.sequence() && !is_on(Planted::ReadyForgetsCopied) {
            let window = self.window_at(entry.sequence()).and_then(|at| self.windows.get(at));
            if window.is_some_and(Window::is_in_memory) && entry.location() != Location::NOWHERE {
                self.left_files.insert(entry.location().file());
            }
        }
    }

    /// The files that entries in memory need in addition to those of the last frozen checkpoint.
    pub fn left_files(&self) -> &BTreeSet<LocationFile> {
        &self.left_files
    }

    /// True if a checkpoint that is frozen now needs the window's run: an entry is pending in it, or an entry
    /// in memory has its origin there.
    pub fn is_needed(&self, window: &Window) -> bool {
        window.pending() > 0 || self.is_origin(window)
    }

    /// The same entry with the location of its payload.
    ///
    /// # Errors
    /// The block of a run that cannot be read; see [`Self::patch`].
    pub fn resolved(&mut self, entry: Entry) -> std::result::Result<Entry, Box<DamagedBlock>> {
        match entry.origin() {
            None => Ok(entry),
            Some(origin) => Ok(entry.with_payload_of(self.raw_row(origin)?)),
        }
    }

    /// Resolves all entries, and reads each block once.
    pub(in crate::schedule_log) fn resolve_all(
        &mut self,
        entries: &mut [Entry],
    ) -> std::result::Result<(), Box<DamagedBlock>> {
        let unresolved = |(place, entry): (usize, &Entry)| Some((entry.origin()?, place));
        let mut origins: Vec<(DueKey, usize)> = entries.iter().enumerate().filter_map(unresolved).collect();
        origins.sort_unstable();
        for (_, place) in origins {
            if let Some(entry) = entries.get_mut(place) {
                *entry = self.resolved(*entry)?;
            }
        }
        Ok(())
    }

    /// The runs in which entries in memory have their origins.
    pub(in crate::schedule_log) fn origins(&self) -> Origins {
        let of = |window: &Window| match &window.body {
            Body::Run { run, patches } if self.is_origin(window) => Some(OriginRun {
                first: window.first(),
                end: window.end(),
                run: Arc::clone(run),
                patches: patches.clone(),
            }),
            _ => None,
        };
        Origins { runs: self.windows.iter().filter_map(of).collect() }
    }

    /// All pending unresolved entries in memory, by the sequence of their origin.
    pub(in crate::schedule_log) fn unresolved(&self) -> BTreeMap<Sequence, Vec<Entry>> {
        let mut found: BTreeMap<Sequence, Vec<Entry>> = BTreeMap::new();
        if !self.windows.iter().any(|window| self.is_origin(window)) {
            return found;
        }
        self.each_in_memory(&mut |entry| {
            if let Some(origin) = entry.origin() {
                found.entry(origin.sequence).or_default().push(*entry);
            }
        });
        found
    }

    /// True if an entry in memory may have its origin in the window's run.
    pub(in crate::schedule_log) fn is_origin(&self, window: &Window) -> bool {
        window.origin_until > Sequence(0) && window.origin_until >= self.memory_from()
    }

    /// The first sequence that is in memory.
    pub(super) fn memory_from(&self) -> Sequence {
        self.windows.iter().find(|window| window.is_in_memory()).map_or(self.open_bits.first(), Window::first)
    }

    /// The entry with this key, if it is in memory.
    fn in_memory(&self, key: DueKey) -> Option<Entry> {
        let found = if key.sequence >= self.open_bits.first() {
            self.open.find(key.sequence)
        } else {
            match self.window_at(key.sequence).and_then(|at| self.windows.get(at)).map(|window| &window.body) {
                Some(Body::Memory { entries, .. }) => entries.find(key.sequence),
                _ => None,
            }
        };
        found.filter(|entry| entry.due() == key.due)
    }
}
