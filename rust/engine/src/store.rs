//! The facade: a store opened in this process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::storage::Storage;
use delaymq_core::store::Receipt;

use crate::options::{Options, SubscribeOptions};
use crate::publish::{PublishBatch, Receipts, Ticket};
use crate::report::{RecoveryProgress, Report, Status, VerifyReport};
use crate::shared::Shared;
use crate::subscription::Subscription;

/// What became of a message that was to be cancelled. The answer is durable when it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CancelOutcome {
    /// It is cancelled and will not be delivered, by this call or an earlier one.
    Done,
    /// It became ready before.
    AlreadyDispatched,
    /// This store never gave out such a receipt, or no longer knows its message.
    NotFound,
}

/// A store opened in this process. All methods may be called from any thread.
pub struct Store {
    shared: Arc<Shared>,
}

impl Store {
    /// Opens the store in the folder `path`, with recovery. `progress` is called on this thread.
    ///
    /// # Errors
    /// `Locked`, `NotAStore`, `NewerFormat`, `Corrupt`, `MissingFile`: nothing was touched.
    /// `Storage` where the file system refuses. `InvalidArgument` for an option out of range.
    pub fn open(path: &Path, options: Options, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Arc<Self>> {
        todo!()
    }

    /// As [`Self::open`], over a storage that stands between the store and its files in `path`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_on(
        storage: Arc<dyn Storage>,
        path: &Path,
        options: Options,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<Arc<Self>> {
        todo!()
    }

    /// An empty batch to fill and publish; keep it and use it again.
    pub fn batch(&self) -> PublishBatch {
        PublishBatch::new(Arc::clone(&self.shared))
    }

    /// Publishes all messages of the batch or none, and returns when they are durable. The batch is
    /// empty afterwards, unless it was refused.
    ///
    /// # Errors
    /// `DiskFull`, `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn publish(&self, batch: &mut PublishBatch) -> Result<Receipts> {
        todo!()
    }

    /// As [`Self::publish`], without waiting.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn submit(&self, batch: &mut PublishBatch) -> Result<Ticket> {
        todo!()
    }

    /// Cancels a message.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn cancel(&self, receipt: &Receipt) -> Result<CancelOutcome> {
        todo!()
    }

    /// Cancels messages; the outcomes are in the order of the receipts.
    ///
    /// # Errors
    /// As [`Self::cancel`].
    pub fn cancel_many(&self, receipts: &[Receipt]) -> Result<Vec<CancelOutcome>> {
        todo!()
    }

    /// Begins to consume a subject for a group. Returns when both are durable.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `group` or `in_flight_max`; `Poisoned`, `Closed`,
    /// `ForkedProcess`.
    pub fn subscribe(&self, subject: &str, group: &str, options: SubscribeOptions) -> Result<Arc<Subscription>> {
        todo!()
    }

    /// A snapshot of the store. Answers also when it is poisoned or closed.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn status(&self) -> Result<Status> {
        todo!()
    }

    /// The next event worth a line in a log, waiting for one up to `wait`. Answers also when the
    /// store is poisoned or closed.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn next_report(&self, wait: Duration) -> Result<Option<Report>> {
        todo!()
    }

    /// Takes a checkpoint now and returns when it is durable.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`; `Storage` where it could not be written, which harms
    /// nothing.
    pub fn checkpoint(&self) -> Result<()> {
        todo!()
    }

    /// Stops taking work, makes durable what was taken, stops the threads, seals the log and gives
    /// the lock back. A second call changes nothing. Dropping the store does the same.
    ///
    /// # Errors
    /// `Poisoned` where the end could not be written; `ForkedProcess`.
    pub fn close(&self) -> Result<()> {
        todo!()
    }

    /// Reads every byte of a closed store and checks it.
    ///
    /// # Errors
    /// `Locked`, `NotAStore`, `NewerFormat`, `Storage`. What is damaged is in the report.
    pub fn verify(path: &Path) -> Result<VerifyReport> {
        todo!()
    }
}
