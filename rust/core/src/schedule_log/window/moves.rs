//! Entries that were moved to another due time, and where their payloads are found.
//!
//! Moving reads nothing from disk. What is in memory is copied under its new key. What lies in a run
//! leaves an *unresolved* entry: it names the row, its *origin*, that says where the payload is. It is
//! resolved before anything but the schedule sees it: when the feed loads it, when somebody looks it up,
//! and, at the latest, when the next checkpoint writes it into a run. So rows in runs are resolved, and an
//! origin is a row of a run, one step away.
//!
//! The origin's row is there until then, although nothing may be pending in its run any more:
//!
//! 1. A checkpoint *needs* a run while an entry is pending in it, or while one that its own parts hold has its
//!    origin there ([`Schedule::is_needed`], asked at the freeze).
//! 2. Take an unresolved entry, and the last freeze before its fact. Either its target was pending in the run
//!    then (or in the part that became that run), or it is a copy of an unresolved entry, which was in a part
//!    of that freeze, or came later and is of the same kind. In each case the checkpoint of that freeze needs
//!    the run by 1; where that one was given up, its parts come with the next, and so do the entries in them.
//! 3. The next freeze that becomes a checkpoint resolves the entry. Until then the checkpoint of 2, or where
//!    none was finished since, the one before it, is the newest that is kept, and files that a kept checkpoint
//!    needs are not removed; nor is the window let go of ([`Schedule::release`], [`Schedule::retire`]).
//!
//! What leaves a frozen part, moved or ready, has its payload where the entry in that part has it. The run that is made
//! of the part may have a copy and need that file no more, and the one before it, too, where the message left a part both
//! times: moved twice, or ready, given back and ready again. So the files of what left since the freeze are held until the
//! next checkpoint is installed ([`Schedule::left_files`]); that one writes these entries, and names what they need. A
//! recovery needs none of them: it finds the row in the run.
//!
//! An opening has all entries behind its checkpoint in the open window, and the checkpoint names, by 1 and 2,
//! what those need that it replays.

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
    /// The entry that a pending one becomes under another key; nothing is changed but that its origin is held.
    /// `subject` and `size` are what is believed of one that is not in memory.
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

    /// An entry that is moved out of a frozen part says where its payload was, and the part's run may have a copy of it
    /// and hold that file no more.
    fn hold(&mut self, target: DueKey, entry: &Entry) {
        let is_frozen = target.sequence < self.open_bits.first();
        if is_frozen && entry.origin().is_none() && entry.location() != Location::NOWHERE {
            self.left_files.insert(entry.location().file());
        }
    }

    /// An entry has become ready: where it is in a frozen part, the same is true of it. One whose payload came by its
    /// own fact is held without this: the checkpoint before the freeze keeps the log from there on.
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

    /// The files that entries in memory need beside what the checkpoint does that was frozen last.
    pub fn left_files(&self) -> &BTreeSet<LocationFile> {
        &self.left_files
    }

    /// True where a checkpoint that is frozen now needs the window's run: something is pending in it, or
    /// an entry in memory has its origin there.
    pub fn is_needed(&self, window: &Window) -> bool {
        window.pending() > 0 || self.is_origin(window)
    }

    /// The same entry, with its payload where that is.
    ///
    /// # Errors
    /// The block of a run that cannot be read; see [`Self::patch`].
    pub fn resolved(&mut self, entry: Entry) -> std::result::Result<Entry, Box<DamagedBlock>> {
        match entry.origin() {
            None => Ok(entry),
            Some(origin) => Ok(entry.with_payload_of(self.raw_row(origin)?)),
        }
    }

    /// Resolves all of these, reading each block once.
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

    /// The runs in which what is in memory has its origins.
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

    /// Every unresolved entry in memory that is pending, by the sequence of its origin.
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

    /// True where an entry in memory may have its origin in the window's run.
    pub(in crate::schedule_log) fn is_origin(&self, window: &Window) -> bool {
        window.origin_until > Sequence(0) && window.origin_until >= self.memory_from()
    }

    /// The first sequence that is in memory.
    pub(super) fn memory_from(&self) -> Sequence {
        self.windows.iter().find(|window| window.is_in_memory()).map_or(self.open_bits.first(), Window::first)
    }

    /// The entry with this key, where it is in memory.
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
