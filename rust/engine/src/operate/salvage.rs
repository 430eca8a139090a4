//! Salvage: what can be read of a damaged store is written into a new store. The damaged store is only read.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::storage::Storage;
use delaymq_core::store::{Salvage, SalvagedMessage, retry_subject, salvage};

use crate::files::storage::FileStorage;
use crate::files::store_lock::StoreLock;
use crate::files::system_errors::storage_error;
use crate::invalid;
use crate::operate::salvaged_dead_letters::{DeadLetterWriter, dead_letter_of};
use crate::options::Options;
use crate::publish::batch::PublishBatch;
use crate::store::Store;

/// How many messages, and about as many bytes, are written at once.
const BATCH_MESSAGES: usize = 1000;

/// The progress of a salvage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SalvageProgress {
    /// Messages written.
    pub written: u64,
    /// Messages to write.
    pub whole: u64,
}

/// What is lost and what can be salvaged of the store in `path`. Changes nothing.
///
/// # Errors
/// `Locked` if it is open, `NotAStore`, `NewerFormat`, `Storage`.
pub fn preview_salvage(path: &Path) -> Result<Salvage> {
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::read_only(path)?);
    let _lock = StoreLock::share(path)?;
    salvage(&storage)
}

/// Salvages the store in `path` into a new store in `into`, which must be absent or empty. Due times stay. A message
/// that only some groups have not finished goes to those groups, as one of their retries. Dead letters keep their
/// reasons, as far as these can be read. Attempts begin at 1 again. Series go on behind their last message. `progress`
/// ends the salvage by returning false.
///
/// # Errors
/// As [`preview_salvage`]; `InvalidArgument` naming `into`; `Closed` if it was ended; errors of the new store, which is
/// incomplete then and is to be removed.
pub fn salvage_into(path: &Path, into: &Path, progress: &mut dyn FnMut(SalvageProgress) -> bool) -> Result<Salvage> {
    refuse_what_is_there(into)?;
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::read_only(path)?);
    let _lock = StoreLock::share(path)?;
    let found = salvage(&storage)?;
    let options = Options::default();
    let delay_ms_max = options.delay_ms_max.max(found.delay_ms_max);
    let store = Store::open(into, Options { delay_ms_max, ..options }, &mut |_| {})?;
    let mut writing = Writing { store: &store, batch: store.batch(), groups: BTreeSet::new() };
    for group in &found.groups {
        writing.begin(&group.subject, &group.name)?;
    }
    let whole = found.saved();
    let mut written = 0_u64;
    let mut tell = || {
        written = written.saturating_add(1);
        if progress(SalvageProgress { written, whole }) { Ok(()) } else { Err(Error::Closed) }
    };
    if found.reasons_count() > 0 {
        // The store has nothing yet that a consumer could get.
        let mut dead_letters = DeadLetterWriter::new(&store);
        found.each(&mut |message| if dead_letters.take(message)? { tell() } else { Ok(()) })?;
        dead_letters.finish()?;
    }
    found.each(&mut |message| {
        if dead_letter_of(message).is_some() {
            return Ok(());
        }
        writing.write(message)?;
        tell()
    })?;
    writing.publish()?;
    for series in &found.series {
        store.begin_salvaged(series)?;
    }
    store.close()?;
    Ok(found)
}

fn refuse_what_is_there(into: &Path) -> Result<()> {
    match std::fs::read_dir(into) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(storage_error("list", &into.display().to_string(), &error)),
        Ok(mut entries) => entries.next().map_or(Ok(()), |_| {
            let found = format!("{} with something in it", into.display());
            Err(invalid("into", "a folder that is new or empty", found))
        }),
    }
}

/// The new store, as it is filled.
struct Writing<'a> {
    store: &'a Store,
    batch: PublishBatch,
    groups: BTreeSet<(String, String)>,
}

impl Writing<'_> {
    fn write(&mut self, message: &SalvagedMessage<'_>) -> Result<()> {
        if message.groups.is_empty() {
            return self.push(message.subject, message);
        }
        for group in &message.groups {
            let retries = retry_subject(message.subject, group);
            self.begin(&retries, group)?;
            self.push(&retries, message)?;
        }
        Ok(())
    }

    /// Creates a group that starts with the earliest message, if it does not exist.
    fn begin(&mut self, subject: &str, group: &str) -> Result<()> {
        if self.groups.insert((subject.to_owned(), group.to_owned())) {
            self.store.begin_named_group(subject, group)?;
        }
        Ok(())
    }

    fn push(&mut self, subject: &str, message: &SalvagedMessage<'_>) -> Result<()> {
        if self.batch.len() >= BATCH_MESSAGES {
            self.publish()?;
        }
        match self.batch.push_salvaged(subject, message.due, &message.message) {
            Err(Error::TooLarge { .. }) if !self.batch.is_empty() => {
                self.publish()?;
                self.batch.push_salvaged(subject, message.due, &message.message)
            }
            other => other,
        }
    }

    fn publish(&mut self) -> Result<()> {
        self.store.publish(&mut self.batch).map(drop)
    }
}
