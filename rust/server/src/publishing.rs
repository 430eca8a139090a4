//! PUBLISH and SEND: batches on their way into the log, and what their senders were promised.

use std::rc::Rc;

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::wire::extension::errors::{Attribute, RemoteError};
use delaymq_core::wire::extension::publish::{DueTime, Publish, put_receipts};
use delaymq_core::wire::frame::{Frame, answer};
use delaymq_core::wire::request::send_code;
use delaymq_core::wire::send::{Failure, SendCode, Sent, put_failures, read_send};
use delaymq_engine::{Due, PublishBatch, Receipts};
use tokio::sync::oneshot;

use crate::asking::Asking;
use crate::hub::Hub;

/// A batch that is not in the log's queue yet.
pub(crate) struct Publishing {
    asking: Asking,
    batch: PublishBatch,
    kind: Kind,
    /// Bytes of the request, which it keeps in memory.
    pub(crate) bytes: usize,
}

enum Kind {
    Own { wants_receipts: bool },
    Qmq { refused: Vec<Failure>, frame: Frame },
}

/// What is done once the log is durable so far.
pub(crate) enum Promise {
    /// A request is answered.
    Answer(Asking, Told),
    /// A task goes on.
    Task(oneshot::Sender<Result<()>>),
}

/// What an answer tells.
pub(crate) enum Told {
    Nothing,
    NoReceipts,
    Receipts(Receipts),
    Failures { refused: Vec<Failure>, frame: Frame },
}

/// Takes a batch of delaymq's own: it is stored whole or not at all.
pub(crate) fn publish(asking: Asking, publish: &Publish<'_>, bytes: usize) {
    let mut batch = asking.hub().batch();
    for (index, message) in publish.messages.iter().enumerate() {
        let due = match message.due {
            DueTime::After(delay_ms) => Due::After(delay_ms),
            DueTime::At(time) => Due::At(time),
        };
        let pushed = message.check();
        let pushed =
            pushed.and_then(|check| batch.push_checked(message.subject, due, (message.meta, message.body), check));
        if let Err(error) = pushed {
            asking.hub().give_back(batch);
            return asking.refused(&RemoteError::from(&error).with(Attribute::Index, index as u64));
        }
    }
    let kind = Kind::Own { wants_receipts: publish.wants_receipts };
    let hub = Rc::clone(asking.hub());
    hub.publish(Publishing { asking, batch, kind, bytes });
}

/// Takes messages of a QMQ client: each is stored or listed.
pub(crate) fn send(asking: Asking, sent: &[Sent<'_>], frame: Frame) {
    let mut batch = asking.hub().batch();
    let mut refused = Vec::new();
    let undelayed_ms = asking.hub().options.undelayed_ms;
    for one in sent {
        if let Err(failure) = one.judge() {
            refused.push(failure);
        } else if let Err(error) =
            batch.push_qmq(one.message.subject, one.message.due(), undelayed_ms, one.message.whole)
        {
            // What finds no room beside others has it in a request of its own.
            let is_crowded = matches!(error, Error::TooLarge { argument: "messages", .. }) && !batch.is_empty();
            let code = if is_crowded { SendCode::StoreError } else { send_code(&error) };
            refused.push(one.failure(code, &error));
        }
    }
    let bytes = frame.body.len();
    let hub = Rc::clone(asking.hub());
    hub.publish(Publishing { asking, batch, kind: Kind::Qmq { refused, frame }, bytes });
}

impl Publishing {
    /// Hands the batch to the log's queue; gives itself back where there is no room for it now.
    pub(crate) fn begin(mut self, hub: &Hub) -> Option<Self> {
        match hub.store.try_publish(&mut self.batch) {
            Ok(None) => return Some(self),
            Ok(Some(ticket)) => {
                let told = match self.kind {
                    Kind::Own { wants_receipts: true } => Told::Receipts(ticket.receipts().clone()),
                    Kind::Own { wants_receipts: false } => Told::NoReceipts,
                    Kind::Qmq { refused, frame } => Told::Failures { refused, frame },
                };
                hub.promise(ticket.end(), Promise::Answer(self.asking, told));
            }
            Err(error) => match self.kind {
                Kind::Own { .. } => self.asking.failed(&error),
                Kind::Qmq { frame, .. } => not_stored(self.asking, &frame, &error),
            },
        }
        hub.give_back(self.batch);
        None
    }

    /// There is no room for it to wait.
    pub(crate) fn busy(self, hub: &Hub) {
        hub.give_back(self.batch);
        self.asking.busy();
    }
}

impl Promise {
    /// Tells that it was done.
    pub(crate) fn of(asking: Asking) -> Self {
        Self::Answer(asking, Told::Nothing)
    }

    pub(crate) fn keep(self) {
        match self {
            Self::Answer(asking, told) => told.tell(asking),
            // Where the task has gone, nobody waits.
            Self::Task(task) => drop(task.send(Ok(()))),
        }
    }

    /// It cannot be kept any more.
    pub(crate) fn break_with(self, error: &Error) {
        match self {
            Self::Answer(asking, Told::Failures { frame, .. }) => not_stored(asking, &frame, error),
            Self::Answer(asking, Told::Nothing | Told::NoReceipts | Told::Receipts(_)) => asking.failed(error),
            Self::Task(task) => drop(task.send(Err(error.clone()))),
        }
    }
}

impl Told {
    fn tell(self, asking: Asking) {
        match self {
            Self::Nothing => asking.done(),
            Self::NoReceipts => asking.told(|out| put_receipts(out, std::iter::empty())),
            Self::Receipts(receipts) => asking.told(|out| put_receipts(out, receipts.iter())),
            Self::Failures { refused, .. } if !refused.is_empty() && is_on(Planted::BatchFailsWhole) => {
                asking.code(answer::BROKER_ERROR);
            }
            Self::Failures { refused, .. } => asking.told(|out| put_failures(out, &refused)),
        }
    }
}

/// Lists every message of a SEND, those that were refused by themselves with why.
fn not_stored(asking: Asking, frame: &Frame, error: &Error) {
    let sent = match read_send(&frame.body) {
        Ok(sent) => sent,
        Err(malformed) => return asking.malformed(&malformed),
    };
    let failure = |one: &Sent<'_>| one.judge().err().unwrap_or_else(|| one.failure(send_code(error), error));
    let failures: Vec<Failure> = sent.iter().map(failure).collect();
    asking.told(|out| put_failures(out, &failures));
}
