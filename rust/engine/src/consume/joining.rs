//! How a subscription begins, and how it comes to consume more: retries of its group, and subjects that its prefix
//! selects and that were made since.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::store::{Selection, retry_subject};
use delaymq_core::units::GroupNumber;

use crate::clock::consumer_presence::ConsumerPresence;
use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::Registering;
use crate::consume::member::{GroupConsumer, Member, Place};
use crate::consume::queues::Queues;
use crate::consume::subscription::Subscription;
use crate::invalid;
use crate::names::{Subject, check_name};
use crate::options::{StartAt, SubscribeOptions};
use crate::store::Store;

/// The most subjects that are registered by one submission.
const TOGETHER_MAX: usize = 512;
/// The facts of one subject are no longer than this.
const FACTS_BYTES: usize = 4 << 10;

impl Store {
    /// Subscribes a group to a subject, or to all subjects with a prefix: see [`Selection`]. Returns when group and
    /// consumer are durable.
    ///
    /// # Errors
    /// As [`Self::subscribe_to`].
    pub fn subscribe(&self, subject: &str, group: &str, options: SubscribeOptions) -> Result<Arc<Subscription>> {
        self.shared.check()?;
        self.subscribe_to(Selection::of(&[subject])?, group, options)
    }

    /// Subscribes a group to these subjects. Returns when all groups and consumers are durable.
    ///
    /// # Errors
    /// `InvalidArgument` naming `group` or `in_flight_max`; `TooLarge` naming `subjects` if a prefix selects too many;
    /// `DiskFull`, `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn subscribe_to(
        &self,
        selection: Selection,
        group: &str,
        options: SubscribeOptions,
    ) -> Result<Arc<Subscription>> {
        let shared = &self.shared;
        shared.check()?;
        check_name("group", group)?;
        options.check()?;
        let start = options.start;
        let is_one = matches!(&selection, Selection::Listed(names) if names.len() == 1);
        if matches!(start, StartAt::Message(_)) && !is_one {
            return Err(invalid("start", "no receipt where there may be more than one subject", "a receipt"));
        }
        let presence = ConsumerPresence::new(shared.time.activity());
        let member = Arc::new(Member::new(selection, group, options, presence));
        let subscription = Subscription::new(Arc::clone(shared), Arc::clone(&member));
        let names = {
            // Each subject with the prefix is either listed here or met later.
            let mut guard = shared.lock_owner()?;
            let subjects = &guard.get()?.owner.state().subjects;
            let names = match &member.selection {
                Selection::Listed(names) => names.clone(),
                Selection::Prefix(_) => {
                    let all = subjects.iter().map(|(_, subject)| &subject.name);
                    all.filter(|name| member.selection.begins(name)).cloned().collect()
                }
            };
            member.begins_with(names.len());
            shared.subscribers.add(&member);
            names
        };
        member.check_selected()?;
        let is_new = subscription.consume(&names, start, None)?;
        subscription.starts_group.store(is_new, Ordering::SeqCst);
        Ok(Arc::new(subscription))
    }
}

impl Subscription {
    /// Becomes a consumer of these subjects. Returns true if the group of one of them is new.
    fn consume(&self, names: &[String], start: StartAt, class: Option<Class>) -> Result<bool> {
        let shared = &self.shared;
        let together = (shared.submission_bytes_max() / FACTS_BYTES).clamp(1, TOGETHER_MAX);
        let mut is_new = false;
        for names in names.chunks(together) {
            let registering = |name: &String| {
                let retries = shared.names.subject(&retry_subject(name, &self.member.group))?;
                Ok(Registering { subject: shared.names.subject(name)?, retries })
            };
            let subjects = names.iter().map(registering).collect::<Result<Vec<_>>>()?;
            let begun = shared.register_in_groups(&subjects, &self.member.group, start, class)?;
            is_new |= begun.iter().any(|(_, is_new)| *is_new);
            let consuming: Vec<GroupConsumer> = begun.into_iter().map(|(consuming, _)| consuming).collect();
            self.begin(subjects, &consuming)?;
        }
        Ok(is_new)
    }

    /// These consumers exist: they are asked and notified from now on.
    fn begin(&self, subjects: Vec<Registering>, consuming: &[GroupConsumer]) -> Result<()> {
        let (member, subscribers) = (&self.member, &self.shared.subscribers);
        // Their facts are in the log now.
        let in_log = |one: Subject| Subject { needs_fact: false, ..one };
        let places = subjects
            .into_iter()
            .map(|Registering { subject, retries }| Place { subject: in_log(subject), retry_subject: in_log(retries) });
        let queues = member.add(places.zip(consuming.iter().copied()));
        for (queue, consuming) in queues.iter().zip(consuming) {
            let Some(place) = member.place(*queue) else { continue };
            subscribers.consumes(member, *queue, consuming.group, place.retry_subject.number);
        }
        let mut guard = self.shared.lock_owner()?;
        let state = guard.get()?.owner.state();
        for place in queues.iter().filter_map(|queue| member.place(*queue)) {
            if let Some(group) = state.group_named(place.retry_subject.number, &member.group) {
                subscribers.joins_retries(member, place.retry_subject.number, group);
            }
        }
        drop(guard);
        // Messages may have come before the groups were known here.
        for queue in &queues {
            member.wake(*queue);
        }
        Ok(())
    }

    /// Becomes a consumer of what was found since: the retries of its group, and subjects that its prefix selects.
    pub(crate) fn join(&self) -> Result<()> {
        if !self.member.has_to_join() {
            return Ok(());
        }
        self.member.check_selected()?;
        let met = self.member.take_met();
        if !met.is_empty() {
            // They are read from their first message. Consuming them gives room back, so a full disk does not prevent it.
            self.consume(&met, StartAt::Earliest, Some(Class::Finishing)).inspect_err(|_| self.meet_again(&met))?;
        }
        self.join_retries()?;
        self.member.joined();
        // Another thread may have found nothing meanwhile.
        self.member.news.notify_all();
        if self.closed.load(Ordering::SeqCst) { self.end_again() } else { Ok(()) }
    }

    /// Becomes a consumer of the retries of its group. After a failure, the next pull joins the rest.
    fn join_retries(&self) -> Result<()> {
        let mut left = self.member.with_queues(Queues::take_to_join);
        while !left.is_empty() {
            let together = left.len().min(TOGETHER_MAX);
            let groups: Vec<GroupNumber> = left.iter().take(together).map(|(_, group)| *group).collect();
            let found = self.shared.register_consumers(&groups);
            let found = found.inspect_err(|_| self.member.with_queues(|all| all.join_again(&left)))?;
            self.member.with_queues(|all| {
                for ((queue, group), consumer) in left.drain(..together).zip(found) {
                    // A group that is gone has no messages.
                    let Some(consumer) = consumer else { continue };
                    all.set_consuming(queue, Some(GroupConsumer { group, consumer }));
                }
            });
        }
        Ok(())
    }

    /// The next pull joins those of these subjects that are not joined yet.
    fn meet_again(&self, names: &[String]) {
        let places = self.member.places();
        let is_joined = |name: &&String| places.iter().any(|place| *place.subject.name == ***name);
        self.member.meet_again(names.iter().filter(|name| !is_joined(name)).cloned());
    }

    /// The subscription was closed while it joined more.
    fn end_again(&self) -> Result<()> {
        self.shared.subscribers.remove(&self.member);
        let mut guard = self.shared.lock_owner()?;
        let locked = guard.get()?;
        for GroupConsumer { group, consumer } in self.member.consuming() {
            locked.owner.end_consumer(group, consumer, &mut locked.proposals);
        }
        self.shared.send(locked, CommitUrgency::URGENT)?;
        Err(Error::Closed)
    }
}
