//! Messages whose bytes are damaged: another copy may have them whole. Otherwise each is voided by a durable fact and reported, and all
//! others go on.

use delaymq_core::error::{Error, Result};
use delaymq_core::run::run_path;
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{Delivery, LoadRequest, Rescue};
use delaymq_core::units::{ReadyNumber, SubjectNumber};

use crate::commit::inbox::CommitUrgency;
use crate::drive::driver::LockedOwner;
use crate::files::payload_reader::{PayloadReader, Stored};
use crate::query::report::Report;
use crate::shared::Shared;

impl Shared {
    /// Reads the payload of an entry. If it is damaged here, another copy may give it back, for which this waits if `may_wait`.
    ///
    /// # Errors
    /// As [`PayloadReader::read`].
    pub(crate) fn read_whole(&self, payloads: &mut PayloadReader<'_>, entry: &Entry, may_wait: bool) -> Result<Stored> {
        let read = payloads.read(entry.location(), entry.payload_sequence());
        let is_mended = || self.copies.as_ref().is_some_and(|copies| (copies.mend)(entry));
        match read {
            Err(Error::DamagedPayload { .. }) if may_wait && is_mended() => {
                payloads.read(entry.location(), entry.payload_sequence())
            }
            read => read,
        }
    }

    /// Reads postings from a run. That is slow, so no lock is held meanwhile. Postings that cannot be read are searched
    /// in the log under the owner lock, which is rare and slower.
    pub(crate) fn load(&self, load: LoadRequest) -> Result<()> {
        let loaded = load.read()?;
        self.payloads.prefetch(loaded.found.entries.iter().map(|(_, entry)| entry.location()));
        let (subject, error, damaged) = (loaded.subject, loaded.found.error.clone(), loaded.found.damaged.len());
        let mut guard = self.lock_owner()?;
        let locked = guard.get()?;
        let LockedOwner { owner, proposals, .. } = locked;
        let lost = owner.loaded(loaded, proposals)?;
        let sent = self.send(locked, CommitUrgency::URGENT).map(drop);
        drop(guard);
        if let Some(error) = error.filter(|_| damaged > 0) {
            self.report_damage(subject, &error, damaged, &lost);
        }
        sent
    }

    fn report_damage(&self, subject: SubjectNumber, error: &Error, damaged: usize, lost: &[ReadyNumber]) {
        let found = damaged.saturating_sub(lost.len());
        let path = if let Error::Corrupt { path, .. } = error { path.clone() } else { String::new() };
        let reason = format!("{error}; {found} ready messages found again in the log");
        self.reports.add(Report::RunDamaged { path, reason: reason.clone() });
        self.metrics.voided.add(lost.len() as u64);
        let subject = self.names.name_of(subject).to_string();
        for number in lost {
            self.reports.add(Report::VoidedReady { subject: subject.clone(), number: *number, reason: reason.clone() });
        }
    }

    pub(crate) fn report_rescues(&self, rescues: &[Rescue]) {
        for rescue in rescues {
            self.metrics.voided.add(rescue.lost.len() as u64);
            let reason = format!("{}; {} entries found again in the log", rescue.error, rescue.found);
            self.reports.add(Report::RunDamaged { path: run_path(rescue.run), reason: reason.clone() });
            for sequence in &rescue.lost {
                let subject = String::new();
                self.reports.add(Report::Voided { subject, sequence: *sequence, reason: reason.clone() });
            }
        }
    }

    pub(crate) fn report_step_failure(&self, error: &Error) {
        let path = match error {
            Error::Corrupt { path, .. } | Error::Storage { path, .. } | Error::MissingFile { path, .. } => path.clone(),
            _ => String::new(),
        };
        self.reports.add(Report::RunDamaged { path, reason: error.to_string() });
    }

    /// Voids a ready message whose payload is damaged.
    pub(crate) fn void_ready(&self, delivery: &Delivery, error: &Error) -> Result<()> {
        let subject = delivery.entry.subject();
        let mut guard = self.lock_owner()?;
        let locked = guard.get()?;
        let LockedOwner { owner, proposals, .. } = locked;
        owner.void_ready(subject, delivery.number, proposals);
        self.send(locked, CommitUrgency::URGENT)?;
        drop(guard);
        self.committer.raise();
        self.metrics.voided.add(1);
        self.reports.add(Report::Voided {
            subject: self.names.name_of(subject).to_string(),
            sequence: delivery.entry.payload_sequence(),
            reason: error.to_string(),
        });
        Ok(())
    }
}
