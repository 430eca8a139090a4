//! Replies that wait for the log: to publishes, cancels, subscriptions, and all settlements.

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{self, Planted};
use delaymq_core::record::name::GroupStart;
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::{GroupNumber, Millis, Sequence};
use delaymq_core::wire::connection::RequestId;
use delaymq_core::wire::extension::consume::{Subscribe, Subscribed};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::publish::{Cancelled, DueTime, Publish, put_outcomes, put_receipts};
use delaymq_core::wire::frame::answer::SUCCESS;

use super::Server;
use super::changes::Change;
use super::recurring::Wish;
use super::subscription::{Place, Standing};
use crate::connected::account::LinkId;
use crate::connected::unless_full;
use crate::node::{Due, NewMessage, Node};

/// A message, kept until the log's queue has room for it.
pub(super) struct Kept {
    subject: String,
    due: Due,
    body: Vec<u8>,
}

/// A subscription on its way.
pub(super) struct Wanted {
    number: u32,
    subject: String,
    group: String,
    in_flight_max: u32,
    credit: u32,
}

/// See the module.
pub(super) enum Promise {
    /// Answered with this once everything below is visible.
    Visible { link: LinkId, id: RequestId, end: Sequence, body: Vec<u8> },
    /// What was settled before is to be sent, and then visible.
    Settled { link: LinkId, id: RequestId },
    /// To be stored.
    Store { link: LinkId, id: RequestId, messages: Vec<Kept> },
    /// To be cancelled.
    Cancel { link: LinkId, id: RequestId, receipt: Receipt },
    /// Told by what applying the command finds.
    Cancelling { link: LinkId, id: RequestId, command: Sequence },
    /// To be asked for a consumer of this group.
    Consumer { link: LinkId, id: RequestId, wanted: Wanted, group: GroupNumber },
    /// Its consumer is asked for.
    Beginning { link: LinkId, id: RequestId, wanted: Wanted, group: GroupNumber, fact: Sequence },
    /// A message is to be moved, or to be stored once.
    Change { link: LinkId, id: RequestId, change: Change },
    /// A series is to begin.
    Recur { link: LinkId, id: RequestId, wish: Wish },
    /// A series is to end.
    EndSeries { link: LinkId, id: RequestId, subject: String, name: String },
    /// Told by what applying the fact of a series finds.
    Series { link: LinkId, id: RequestId, fact: Sequence, subject: String, name: String },
    /// The consumer of a retry subject is asked for.
    Joined { link: LinkId, number: u32, group: GroupNumber, fact: Sequence },
}

impl Promise {
    pub(super) fn settled(link: LinkId, id: RequestId) -> Self {
        Self::Settled { link, id }
    }

    pub(super) fn link(&self) -> LinkId {
        match self {
            Self::Visible { link, .. }
            | Self::Settled { link, .. }
            | Self::Store { link, .. }
            | Self::Cancel { link, .. }
            | Self::Cancelling { link, .. }
            | Self::Change { link, .. }
            | Self::Recur { link, .. }
            | Self::EndSeries { link, .. }
            | Self::Series { link, .. }
            | Self::Consumer { link, .. }
            | Self::Beginning { link, .. }
            | Self::Joined { link, .. } => *link,
        }
    }

    /// The request that waits for it.
    fn id(&self) -> Option<RequestId> {
        match self {
            Self::Visible { id, .. }
            | Self::Settled { id, .. }
            | Self::Store { id, .. }
            | Self::Cancel { id, .. }
            | Self::Cancelling { id, .. }
            | Self::Change { id, .. }
            | Self::Recur { id, .. }
            | Self::EndSeries { id, .. }
            | Self::Series { id, .. }
            | Self::Consumer { id, .. }
            | Self::Beginning { id, .. } => Some(*id),
            Self::Joined { .. } => None,
        }
    }

    /// True where a consumer comes of it that must be ended, though its client is gone; and what was asked
    /// to be stored, moved or cancelled is.
    pub(super) fn is_kept_for_nobody(&self) -> bool {
        match self {
            Self::Store { .. } | Self::Cancel { .. } | Self::Beginning { .. } | Self::Joined { .. } => true,
            Self::Change { change, .. } => change.is_kept_for_nobody(),
            _ => false,
        }
    }
}

impl Server {
    pub(super) fn publish(
        &mut self,
        node: &mut Node,
        link: LinkId,
        id: RequestId,
        publish: &Publish<'_>,
    ) -> Result<()> {
        let mut messages = Vec::with_capacity(publish.messages.len());
        for message in &publish.messages {
            if let Err(error) = message.check() {
                return self.refuse(link, id, node.reading().now, &RemoteError::from(&error));
            }
            let due = due_of(message.due);
            messages.push(Kept { subject: message.subject.to_owned(), due, body: message.body.to_vec() });
        }
        self.promises.push_back(Promise::Store { link, id, messages });
        self.keep_promises(node)
    }

    pub(super) fn cancel(&mut self, node: &mut Node, link: LinkId, id: RequestId, receipts: &[Receipt]) -> Result<()> {
        let [receipt] = receipts else {
            let words = "these histories cancel one message at a time";
            return self.refuse(link, id, node.reading().now, &RemoteError::new(ErrorCode::Other, words));
        };
        match node.may_be_here(receipt) {
            Ok(true) => self.promises.push_back(Promise::Cancel { link, id, receipt: *receipt }),
            Ok(false) => {
                let mut body = Vec::new();
                put_outcomes(&mut body, &[Cancelled::NotFound])?;
                return self.answer(link, id, node.reading().now, &body);
            }
            Err(error) => return self.refuse(link, id, node.reading().now, &RemoteError::from(&error)),
        }
        self.keep_promises(node)
    }

    pub(super) fn subscribe(
        &mut self,
        node: &mut Node,
        link: LinkId,
        id: RequestId,
        subscribe: &Subscribe<'_>,
    ) -> Result<()> {
        let state = node.owner().state();
        let (subject, group) = (subscribe.name.subject, subscribe.name.group);
        let found = state.subjects.number(subject).and_then(|number| state.group_named(number, group));
        let refused = self.peers.get(&link).and_then(|peer| peer.subscriptions.check_new(subscribe.subscription).err());
        let (Some(found), None, GroupStart::Earliest) = (found, &refused, subscribe.start) else {
            let unknown = RemoteError::new(ErrorCode::Other, "these histories make their groups before they begin");
            return self.refuse(link, id, node.reading().now, refused.as_ref().unwrap_or(&unknown));
        };
        let wanted = Wanted {
            number: subscribe.subscription,
            subject: subject.to_owned(),
            group: group.to_owned(),
            in_flight_max: subscribe.in_flight_max,
            credit: subscribe.credit,
        };
        self.promises.push_back(Promise::Consumer { link, id, wanted, group: found });
        self.keep_promises(node)
    }

    /// Answers whom it can.
    pub(in crate::connected) fn keep_promises(&mut self, node: &mut Node) -> Result<()> {
        let mut failed = Ok(());
        for promise in std::mem::take(&mut self.promises) {
            let (link, id) = (promise.link(), promise.id());
            match self.keep(node, promise) {
                Ok(Some(promise)) => self.promises.push_back(promise),
                Ok(None) => {}
                Err(error) => {
                    if let Some(id) = id {
                        self.refuse(link, id, node.reading().now, &RemoteError::from(&error))?;
                    }
                    failed = if matches!(error, Error::DiskFull) { failed } else { Err(error) };
                }
            }
        }
        failed
    }

    /// The store has ended: what was promised cannot be kept any more.
    pub(super) fn break_promises(&mut self, node: &Node, error: &Error) -> Result<()> {
        for promise in std::mem::take(&mut self.promises) {
            if let Some(id) = promise.id() {
                self.refuse(promise.link(), id, node.reading().now, &RemoteError::from(error))?;
            }
        }
        Ok(())
    }

    /// Takes a promise one step further; gives it back where there is more to be done.
    fn keep(&mut self, node: &mut Node, promise: Promise) -> Result<Option<Promise>> {
        match promise {
            Promise::Visible { link, id, end, body } => {
                if node.commits().visible().sequence < end && !planted::is_on(Planted::AnswerBeforeVisible) {
                    return Ok(Some(Promise::Visible { link, id, end, body }));
                }
                self.answer(link, id, node.reading().now, &body).map(|()| None)
            }
            Promise::Settled { link, id } => {
                if !unless_full(node.send())? {
                    return Ok(Some(Promise::Settled { link, id }));
                }
                let end = node.commits().next_sequence();
                self.keep(node, Promise::Visible { link, id, end, body: Vec::new() })
            }
            Promise::Store { link, id, messages } => {
                let new = messages.iter();
                let new = new.map(|one| NewMessage { subject: &one.subject, due: one.due, body: &one.body });
                let Some(published) = node.publish(&new.collect::<Vec<_>>())? else {
                    return Ok(Some(Promise::Store { link, id, messages }));
                };
                let mut body = Vec::new();
                put_receipts(&mut body, published.receipts.into_iter())?;
                self.keep(node, Promise::Visible { link, id, end: published.end, body })
            }
            Promise::Cancel { link, id, receipt } => Ok(Some(match unless_full(node.cancel(&receipt))? {
                Some(command) => Promise::Cancelling { link, id, command },
                None => Promise::Cancel { link, id, receipt },
            })),
            Promise::Cancelling { link, id, command } => self.keep_cancel(node, link, id, command),
            Promise::Change { link, id, change } => self.keep_change(node, (link, id), change),
            Promise::Recur { link, id, wish } => Self::keep_recur(node, link, id, wish).map(Some),
            Promise::EndSeries { link, id, subject, name } => Self::keep_end(node, (link, id), subject, name).map(Some),
            Promise::Series { link, id, fact, subject, name } => {
                self.keep_series(node, (link, id), fact, subject, name)
            }
            Promise::Consumer { link, id, wanted, group } => {
                self.consumers = self.consumers.saturating_add(1);
                let name = format!("{}-{}", node.epoch(), self.consumers);
                Ok(Some(match unless_full(node.begin_consumer(group, &name, wanted.in_flight_max))? {
                    Some(fact) => Promise::Beginning { link, id, wanted, group, fact },
                    None => Promise::Consumer { link, id, wanted, group },
                }))
            }
            Promise::Beginning { link, id, wanted, group, fact } => match node.take_outcome(fact) {
                None => Ok(Some(Promise::Beginning { link, id, wanted, group, fact })),
                Some(Outcome::Consumer(consumer)) => {
                    self.begun(node, (link, id), &wanted, (group, consumer)).map(|()| None)
                }
                Some(other) => Err(unexpected(other)),
            },
            Promise::Joined { link, number, group, fact } => match node.take_outcome(fact) {
                None => Ok(Some(Promise::Joined { link, number, group, fact })),
                Some(Outcome::Consumer(consumer)) => {
                    let standing = self.peers.get_mut(&link).and_then(|peer| peer.standings.get_mut(&number));
                    match standing {
                        Some(standing) => standing.joined(Some((group, consumer))),
                        None => unless_full(node.end_consumer(group, consumer, 0))?,
                    }
                    Ok(None)
                }
                Some(other) => Err(unexpected(other)),
            },
        }
    }

    fn keep_cancel(
        &mut self,
        node: &mut Node,
        link: LinkId,
        id: RequestId,
        command: Sequence,
    ) -> Result<Option<Promise>> {
        let outcome = match node.take_outcome(command) {
            None => return Ok(Some(Promise::Cancelling { link, id, command })),
            Some(Outcome::Done) => Cancelled::Done,
            Some(Outcome::AlreadyDispatched) => Cancelled::AlreadyDispatched,
            Some(Outcome::NotFound) => Cancelled::NotFound,
            Some(other) => return Err(unexpected(other)),
        };
        let mut body = Vec::new();
        put_outcomes(&mut body, &[outcome])?;
        self.answer(link, id, node.reading().now, &body).map(|()| None)
    }

    fn begun(&mut self, node: &mut Node, to: (LinkId, RequestId), wanted: &Wanted, place: Place) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&to.0) else { return unless_full(node.end_consumer(place.0, place.1, 0)) };
        let opened = peer.subscriptions.open(wanted.number, (), wanted.in_flight_max, wanted.credit);
        if let Err(((), error)) = opened {
            unless_full(node.end_consumer(place.0, place.1, 0))?;
            return self.refuse(to.0, to.1, node.reading().now, &error);
        }
        let standing = Standing::new(&wanted.subject, &wanted.group, wanted.in_flight_max, place);
        peer.standings.insert(wanted.number, standing);
        let mut body = Vec::new();
        Subscribed { consumer: String::new(), is_new: false }.put(&mut body)?;
        self.answer(to.0, to.1, node.reading().now, &body)
    }

    /// Answers that it is done.
    pub(super) fn answer(&mut self, link: LinkId, id: RequestId, now: Millis, body: &[u8]) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
        peer.connection.answer(id, SUCCESS, now, |out| {
            out.extend_from_slice(body);
            Ok(())
        })?;
        Ok(())
    }

    pub(super) fn refuse(&mut self, link: LinkId, id: RequestId, now: Millis, error: &RemoteError) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
        peer.connection.answer_error(id, error, now).map(drop)
    }

    pub(super) fn done_or(
        &mut self,
        link: LinkId,
        id: RequestId,
        now: Millis,
        result: std::result::Result<(), RemoteError>,
    ) -> Result<()> {
        match result {
            Ok(()) => self.answer(link, id, now, &[]),
            Err(error) => self.refuse(link, id, now, &error),
        }
    }

    pub(super) fn no_subscription(&mut self, link: LinkId, id: RequestId, now: Millis) -> Result<()> {
        self.refuse(link, id, now, &RemoteError::new(ErrorCode::UnknownSubscription, "there is no such subscription"))
    }
}

pub(super) fn unexpected(outcome: Outcome) -> Error {
    Error::corrupt("", 0, "an outcome of what was asked", format!("{outcome:?}"))
}

/// When the node has it due.
pub(super) fn due_of(due: DueTime) -> Due {
    match due {
        DueTime::After(delay_ms) => Due::After(delay_ms),
        DueTime::At(time) => Due::At(time),
    }
}
