//! Replies that wait for the log. Each goes on step by step until it is answered.

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{self, Planted};
use delaymq_core::store::{Outcome, Selection, StartAt};
use delaymq_core::wire::extension::consume::{Subscribe, Subscribed};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::publish::{Publish, put_receipts};
use delaymq_core::wire::extension::terms::TermsAsked;
use delaymq_core::wire::frame::answer::SUCCESS;

use super::Server;
use super::changes::store_once;
use super::recurring::{begin_series, end_series};
use super::steps::{Asker, Kept, Pending, Step, Wanted, due_of, unexpected};
use super::subscription::Standing;
use crate::node::{NewMessage, Node, Place, unless_full};

impl Server {
    pub(super) fn publish(
        &mut self,
        node: &mut Node,
        asker: Asker,
        publish: &Publish<'_>,
        terms: &[TermsAsked<'_>],
    ) -> Result<()> {
        let mut messages = Vec::with_capacity(publish.messages.len());
        for (message, place) in publish.messages.iter().zip(0..) {
            if let Err(error) = message.check() {
                return self.refuse(asker, &RemoteError::from(&error));
            }
            let due = due_of(message.due);
            let (subject, meta) = (message.subject.to_owned(), message.meta.to_vec());
            let expires = terms.iter().find(|terms| terms.place == place).and_then(|terms| terms.expires);
            messages.push(Kept { subject, due, meta, body: message.body.to_vec(), expires });
        }
        self.promise(node, asker, Step::Store(messages))
    }

    pub(super) fn subscribe(&mut self, node: &mut Node, asker: Asker, subscribe: &Subscribe<'_>) -> Result<()> {
        let state = node.owner().state();
        let selection = match Selection::of(&subscribe.subjects) {
            Ok(selection) => selection,
            Err(error) => return self.refuse(asker, &RemoteError::from(&error)),
        };
        let group = subscribe.group;
        let first = match &selection {
            Selection::Listed(names) => names.first().cloned(),
            Selection::Prefix(_) => {
                let mut names = state.subjects.iter().map(|(_, subject)| &subject.name);
                names.find(|name| selection.begins(name)).cloned()
            }
        };
        let subject = first.unwrap_or_default();
        let found = state.subjects.number(&subject).and_then(|number| state.group_named(number, group));
        let peer = self.peers.get(&asker.link);
        let refused = peer.and_then(|peer| peer.subscriptions.check_new(subscribe.subscription).err());
        let (Some(found), None, StartAt::Unfinished | StartAt::Earliest) = (found, &refused, subscribe.start) else {
            let unknown = RemoteError::new(ErrorCode::Other, "these histories make their groups before they begin");
            return self.refuse(asker, refused.as_ref().unwrap_or(&unknown));
        };
        let wanted = Wanted {
            number: subscribe.subscription,
            selection,
            subject,
            group: group.to_owned(),
            in_flight_max: subscribe.in_flight_max,
            credit: subscribe.credit,
            filters: subscribe.filters.clone(),
        };
        self.promise(node, asker, Step::Consumer(wanted, found))
    }

    /// Takes the first step of a request.
    pub(super) fn promise(&mut self, node: &mut Node, asker: Asker, step: Step) -> Result<()> {
        self.pending.push(Pending::Reply(asker, step));
        self.keep_promises(node)
    }

    /// Takes all requests as far as they can go now.
    pub(super) fn keep_promises(&mut self, node: &mut Node) -> Result<()> {
        let mut failed = Ok(());
        for pending in std::mem::take(&mut self.pending) {
            let (asker, kept) = match pending {
                Pending::Reply(asker, step) => {
                    let next = self.keep(node, asker, step);
                    (Some(asker), next.map(|next| next.map(|step| Pending::Reply(asker, step))))
                }
                Pending::Joining(joining) => (None, self.keep_joining(node, joining)),
            };
            match kept {
                Ok(next) => self.pending.extend(next),
                Err(error) => {
                    if let Some(asker) = asker {
                        self.refuse(asker, &RemoteError::from(&error))?;
                    }
                    failed = if matches!(error, Error::DiskFull) { failed } else { Err(error) };
                }
            }
        }
        failed
    }

    /// The store has ended: all requests fail.
    pub(super) fn break_promises(&mut self, error: &Error) -> Result<()> {
        for pending in std::mem::take(&mut self.pending) {
            if let Pending::Reply(asker, _) = pending {
                self.refuse(asker, &RemoteError::from(error))?;
            }
        }
        Ok(())
    }

    /// Takes a request one step further. Returns its next step, or `None` if it was answered.
    fn keep(&mut self, node: &mut Node, asker: Asker, step: Step) -> Result<Option<Step>> {
        let next = match step {
            Step::Visible(end, body) => {
                if node.commits().visible().sequence >= end || planted::is_on(Planted::AnswerBeforeVisible) {
                    return self.answer_bytes(asker, &body).map(|()| None);
                }
                Step::Visible(end, body)
            }
            Step::Settled if unless_full(node.send())? => {
                let end = node.commits().next_sequence();
                return self.keep(node, asker, Step::Visible(end, Vec::new()));
            }
            Step::Settled => Step::Settled,
            Step::Store(messages) => {
                let new = messages.iter();
                let new = new.map(|one| NewMessage {
                    subject: &one.subject,
                    due: one.due,
                    body: &one.body,
                    expires: one.expires,
                    meta: &one.meta,
                });
                let Some(published) = node.publish(&new.collect::<Vec<_>>())? else {
                    return Ok(Some(Step::Store(messages)));
                };
                let mut body = Vec::new();
                put_receipts(&mut body, published.receipts.into_iter())?;
                return self.keep(node, asker, Step::Visible(published.end, body));
            }
            Step::StoreOnce(subject, messages) => store_once(node, subject, messages)?,
            Step::StoringOnce(terms, receipts) => return self.keep_stored_once(node, asker, terms, receipts),
            Step::Cancel(receipt) => match unless_full(node.cancel(&receipt))? {
                Some(command) => Step::Cancelling(command),
                None => Step::Cancel(receipt),
            },
            Step::Cancelling(command) => return self.keep_cancel(node, asker, command),
            Step::Move(receipt, due) => match unless_full(node.move_to(&receipt, due))? {
                Some(key) => Step::Moving(receipt, key.sequence),
                None => Step::Move(receipt, due),
            },
            Step::Moving(receipt, command) => return self.keep_move(node, asker, receipt, command),
            Step::BeginSeries(wish) => begin_series(node, wish)?,
            Step::EndSeries(named) => end_series(node, named)?,
            Step::Series(named, fact) => return self.keep_series(node, asker, named, fact),
            Step::Consumer(wanted, group) => {
                self.consumers = self.consumers.saturating_add(1);
                let name = format!("{}-{}", node.epoch(), self.consumers);
                match unless_full(node.begin_consumer(group, &name, wanted.in_flight_max))? {
                    Some(fact) => Step::Beginning(wanted, group, fact),
                    None => Step::Consumer(wanted, group),
                }
            }
            Step::Beginning(wanted, group, fact) => match node.take_outcome(fact) {
                None => Step::Beginning(wanted, group, fact),
                Some(Outcome::Consumer(consumer)) => {
                    return self.begun(node, asker, wanted, (group, consumer)).map(|()| None);
                }
                Some(other) => return Err(unexpected(other)),
            },
        };
        Ok(Some(next))
    }

    fn begun(&mut self, node: &mut Node, asker: Asker, wanted: Wanted, place: Place) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&asker.link) else {
            return unless_full(node.end_consumer(place.0, place.1, 0));
        };
        let opened = peer.subscriptions.open(wanted.number, (), wanted.in_flight_max, wanted.credit);
        if let Err(((), error)) = opened {
            unless_full(node.end_consumer(place.0, place.1, 0))?;
            return self.refuse(asker, &error);
        }
        peer.standings.insert(wanted.number, Standing::new(wanted, place));
        let consumer = format!("consumer-{}", place.1.0);
        self.answer(asker, |out| Subscribed { consumer, is_new: false }.put(out))
    }

    /// Answers a request with what `fill` writes.
    pub(super) fn answer(&mut self, asker: Asker, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&asker.link) else { return Ok(()) };
        peer.connection.answer(asker.id, SUCCESS, self.now, fill).map(drop)
    }

    pub(super) fn answer_bytes(&mut self, asker: Asker, body: &[u8]) -> Result<()> {
        self.answer(asker, |out| {
            out.extend_from_slice(body);
            Ok(())
        })
    }

    pub(super) fn refuse(&mut self, asker: Asker, error: &RemoteError) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&asker.link) else { return Ok(()) };
        peer.connection.answer_error(asker.id, error, self.now).map(drop)
    }

    /// Refuses a request that no client of these histories makes.
    pub(super) fn unsupported(&mut self, asker: Asker, words: &str) -> Result<()> {
        self.refuse(asker, &RemoteError::new(ErrorCode::Other, words))
    }

    pub(super) fn no_subscription(&mut self, asker: Asker) -> Result<()> {
        let words = "there is no such subscription";
        self.refuse(asker, &RemoteError::new(ErrorCode::UnknownSubscription, words))
    }
}
