//! Reading the ready messages of a subject by their numbers, without a group: no acknowledgement, nothing on disk, and
//! nothing is kept for a reader.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use delaymq_core::error::{Error, Result};
use delaymq_core::record::limits::check_qmq_subject;
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::ReadFollowed;
use delaymq_core::units::{ReadyNumber, SegmentNumber, SubjectNumber};

use crate::consume::delivery::{Delivered, DeliveryKey};
use crate::consume::member::MAIN;
use crate::drive::driver::OwnerGuard;
use crate::event_loop::listener::Listener;
use crate::held;
use crate::names::Subject;
use crate::shared::Shared;
use crate::sync::Mutex;

/// The messages of a subject from a number on.
#[derive(Clone, Debug)]
pub enum ReadNumbers {
    /// Messages with neighbouring numbers. `first` is above the number that was asked for only if the messages between
    /// are damaged or have expired.
    Messages {
        /// The number of the first.
        first: ReadyNumber,
        /// The messages, at least one.
        messages: Vec<Delivered>,
    },
    /// Nothing yet from that number on; `next` is the next number that there will be. The listener is woken then.
    Nothing {
        /// The number to go on with.
        next: ReadyNumber,
    },
    /// All groups have finished the messages that were asked for, and they are not kept any more: go on at `floor`.
    BelowFloor {
        /// The first number that is kept.
        floor: ReadyNumber,
    },
    /// It would have to wait. Use [`SubjectReader::read`], which never returns this.
    WouldWait,
}

/// The subject readers that are in use.
pub(crate) type SubjectReaders = Mutex<HashMap<SubjectNumber, Weak<SubjectReader>>>;

/// See the module. The newest messages are kept in memory for it for as long as it lives, so that one
/// that keeps up misses none that groups have finished before it came. Everybody who asks for the same
/// subject has the same reader.
pub struct SubjectReader {
    shared: Arc<Shared>,
    subject: Subject,
    began_at: ReadyNumber,
    /// The subject is followed for as long as this lives.
    _follower: Arc<()>,
}

/// The result of reading some entries.
enum Taken {
    Messages {
        first: ReadyNumber,
        messages: Vec<Delivered>,
    },
    /// The first one would have to wait.
    Later,
    /// All are damaged or have expired; go on behind them.
    Passed(ReadyNumber),
}

impl SubjectReader {
    /// The reader of this subject; see [`crate::Store::subject_reader`].
    pub(crate) fn of(shared: &Arc<Shared>, subject: &str) -> Result<Arc<Self>> {
        shared.check()?;
        check_qmq_subject("subject", subject)?;
        let subject = shared.names.subject_within(subject, shared.named.limits().subjects_max)?;
        let mut readers = held(&shared.readers);
        if let Some(there) = readers.get(&subject.number).and_then(Weak::upgrade) {
            return Ok(there);
        }
        readers.retain(|number, reader| {
            let is_read = reader.strong_count() > 0;
            if !is_read {
                shared.subscribers.unwatch_subject(*number);
            }
            is_read
        });
        let follower = Arc::new(());
        // All that is visible is applied first, so that the reader begins behind what was published before this call.
        let mut guard = shared.lock_owner()?;
        let locked = guard.get()?;
        let woken = shared.apply_inbox(locked);
        let began_at = locked.owner.follow(subject.number, &follower);
        drop(guard);
        shared.subscribers.tell(&woken.inspect_err(|error| shared.fail(error))?);
        let number = subject.number;
        let reader = Self { shared: Arc::clone(shared), subject, began_at, _follower: follower };
        let reader = Arc::new(reader);
        readers.insert(number, Arc::downgrade(&reader));
        Ok(reader)
    }

    /// The number of the subject.
    pub fn subject_number(&self) -> SubjectNumber {
        self.subject.number
    }

    /// The number that the next message had when the reader began.
    pub fn began_at(&self) -> ReadyNumber {
        self.began_at
    }

    /// From now on this listener is woken, under this token, when the subject gets messages. Each subject has one
    /// listener and token; the last one counts.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn watch_by(&self, listener: &Listener, token: u64) -> Result<()> {
        self.shared.guard.check()?;
        self.shared.subscribers.watch_subject(self.subject.number, listener.notifier(), token);
        Ok(())
    }

    /// Up to `count_max` messages from `from` on. Their payloads have at most `bytes_max` together, or there is one
    /// message more. Never waits.
    pub fn try_read(&self, from: ReadyNumber, count_max: usize, bytes_max: usize) -> Result<ReadNumbers> {
        self.shared.check()?;
        let near = Some(self.shared.nearest());
        let Some(guard) = self.shared.try_lock_owner()? else { return Ok(ReadNumbers::WouldWait) };
        match self.look(guard, from, count_max)? {
            ReadFollowed::Entries(entries) => match self.take(&entries, bytes_max, near)? {
                Taken::Messages { first, messages } => Ok(ReadNumbers::Messages { first, messages }),
                Taken::Later | Taken::Passed(_) => Ok(ReadNumbers::WouldWait),
            },
            ReadFollowed::Load(_) => Ok(ReadNumbers::WouldWait),
            ReadFollowed::Nothing { next } => Ok(ReadNumbers::Nothing { next }),
            ReadFollowed::BelowFloor { floor } => Ok(ReadNumbers::BelowFloor { floor }),
        }
    }

    /// As [`Self::try_read`], but waits for the disk, though not for messages.
    ///
    /// # Errors
    /// As [`Self::try_read`]; `Storage` if the first cannot be read now.
    pub fn read(&self, from: ReadyNumber, count_max: usize, bytes_max: usize) -> Result<ReadNumbers> {
        let mut from = from;
        loop {
            self.shared.check()?;
            let entries = match self.look(self.shared.lock_owner()?, from, count_max)? {
                ReadFollowed::Entries(entries) => entries,
                ReadFollowed::Load(load) => load.read()?.entries,
                ReadFollowed::Nothing { next } => return Ok(ReadNumbers::Nothing { next }),
                ReadFollowed::BelowFloor { floor } => return Ok(ReadNumbers::BelowFloor { floor }),
            };
            match self.take(&entries, bytes_max, None)? {
                Taken::Messages { first, messages } => return Ok(ReadNumbers::Messages { first, messages }),
                Taken::Passed(next) => from = next.max(from.next()),
                // Without `near` nothing is left for later.
                Taken::Later => return Ok(ReadNumbers::WouldWait),
            }
        }
    }

    fn look(&self, mut guard: OwnerGuard<'_>, from: ReadyNumber, count_max: usize) -> Result<ReadFollowed> {
        let locked = guard.get()?;
        let woken = if self.shared.inbox.is_urgent() { Some(self.shared.apply_inbox(locked)) } else { None };
        let found = locked.owner.read_followed(self.subject.number, from, count_max);
        drop(guard);
        if let Some(woken) = woken {
            let woken = woken.inspect_err(|error| self.shared.fail(error))?;
            self.shared.subscribers.tell(&woken);
        }
        Ok(found)
    }

    /// The first run of these messages that can be read and have not expired. Damaged ones are not voided, and expired
    /// ones not finished: a consumer of a group does that.
    fn take(&self, entries: &[(ReadyNumber, Entry)], bytes_max: usize, near: Option<SegmentNumber>) -> Result<Taken> {
        let (mut messages, mut bytes) = (Vec::new(), 0_usize);
        let mut first = ReadyNumber(0);
        let mut expected = None;
        let mut payloads = self.shared.payloads.reader();
        for (number, entry) in entries {
            let is_apart = expected.is_some_and(|expected| expected != *number);
            if !messages.is_empty() && (is_apart || bytes >= bytes_max.max(1)) {
                break;
            }
            expected = Some(number.next());
            if near.is_some_and(|near| entry.location().segment().is_none_or(|segment| segment < near)) {
                return Ok(if messages.is_empty() { Taken::Later } else { Taken::Messages { first, messages } });
            }
            match payloads.read(entry.location(), entry.payload_sequence()) {
                // A run has neighbouring numbers, so it ends before a message that has expired.
                Ok(stored) if self.shared.has_expired(&stored, &self.subject) => {
                    if !messages.is_empty() {
                        break;
                    }
                }
                Ok(stored) => {
                    if messages.is_empty() {
                        first = *number;
                    }
                    bytes = bytes.saturating_add(stored.payload.all().len());
                    let key = DeliveryKey { queue: MAIN, offset: number.0 };
                    messages.push(self.shared.delivered(key, entry, u32::from(entry.attempt()), stored, &self.subject));
                }
                Err(_) if !messages.is_empty() => break,
                Err(_) if near.is_some() => return Ok(Taken::Later),
                Err(Error::DamagedPayload { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if messages.is_empty() {
            return Ok(Taken::Passed(expected.unwrap_or_default()));
        }
        self.shared.metrics.delivered.add(messages.len() as u64);
        Ok(Taken::Messages { first, messages })
    }
}
