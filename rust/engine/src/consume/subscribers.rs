//! The subscriber set: which members of this process consume what, so that a woken group finds them.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::planted::{Planted, is_on};
use delaymq_core::store::{Selection, State};
use delaymq_core::units::{GroupNumber, Millis, SubjectNumber};

use crate::clock::consumer_presence::ConsumerState;
use crate::consume::ended_deliveries::Settled;
use crate::consume::member::{Member, Noted};
use crate::event_loop::notifier::Notifier;
use crate::held;
use crate::sync::{AtomicU64, AtomicUsize, Mutex};

/// A listener that is woken for each event.
struct Watch {
    notifier: Arc<Notifier>,
    token: u64,
}

/// A member, and the queue by which it consumes from a group.
type MemberQueue = (Arc<Member>, u32);

#[derive(Default)]
struct Table {
    groups: HashMap<GroupNumber, Watch>,
    by_group: HashMap<GroupNumber, Vec<MemberQueue>>,
    /// Woken groups without a member here. They are looked up again when a member is added.
    of_nobody: HashSet<GroupNumber>,
    /// Members by their retry subjects.
    by_retries: HashMap<SubjectNumber, Vec<MemberQueue>>,
    /// Members that also consume the subjects that are made later.
    by_prefix: Vec<Arc<Member>>,
    /// Members by address, which is unique while the member is here.
    all: HashMap<usize, Arc<Member>>,
    /// Members with ended deliveries that are not sent.
    settling: Vec<Arc<Member>>,
    /// Members whose users may have a message for a limited time only.
    limited: Vec<Arc<Member>>,
}

fn address(member: &Arc<Member>) -> usize {
    Arc::as_ptr(member).addr()
}

/// Removes a member from one of the lists of a table. An empty list is removed.
fn take_out<K: Eq + Hash>(lists: &mut HashMap<K, Vec<MemberQueue>>, key: &K, member: &Arc<Member>) {
    if let Some(list) = lists.get_mut(key) {
        list.retain(|(other, _)| !Arc::ptr_eq(other, member));
        if list.is_empty() {
            lists.remove(key);
        }
    }
}

/// When a hold of any member ends, or earlier; `u64::MAX` if there is none.
pub(crate) struct NextHold(AtomicU64);

impl Default for NextHold {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl NextHold {
    /// A hold ends then. True if that is earlier than what was known.
    pub(crate) fn note(&self, end_ms: u64) -> bool {
        self.0.fetch_min(end_ms, Ordering::SeqCst) > end_ms
    }

    /// That time.
    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::SeqCst)).filter(|end_ms| *end_ms < u64::MAX)
    }

    /// From now on only holds that are noted again are known.
    fn forget(&self) {
        self.0.store(u64::MAX, Ordering::SeqCst);
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Subscribers {
    table: Mutex<Table>,
    /// How many calls of `introduce` are without their call of `tell`.
    untold: AtomicUsize,
    /// When the driver must look for messages that were held for too long.
    pub(crate) next_hold: NextHold,
}

impl Subscribers {
    /// Adds a member. One with a prefix hears of each subject that is made from now on.
    pub(crate) fn add(&self, member: &Arc<Member>) {
        let mut table = held(&self.table);
        table.all.insert(address(member), Arc::clone(member));
        if matches!(member.selection, Selection::Prefix(_)) {
            table.by_prefix.push(Arc::clone(member));
        }
        if member.is_limited {
            table.limited.push(Arc::clone(member));
        }
    }

    /// The member consumes from this group by this queue, and is notified of it from now on.
    pub(crate) fn consumes(&self, member: &Arc<Member>, queue: u32, group: GroupNumber, retry_subject: SubjectNumber) {
        let mut table = held(&self.table);
        table.by_retries.entry(retry_subject).or_default().push((Arc::clone(member), queue.saturating_add(1)));
        table.by_group.entry(group).or_default().push((Arc::clone(member), queue));
        // Its retry group may be among those without a member.
        table.of_nobody.clear();
    }

    /// The retry subject of a member that was added has this group already. The other members of the group learn it,
    /// too: the group may not have been woken yet, and `introduce` passes over a group that has a member.
    pub(crate) fn joins_retries(&self, member: &Arc<Member>, retry_subject: SubjectNumber, group: GroupNumber) {
        let mut table = held(&self.table);
        let Table { by_group, by_retries, .. } = &mut *table;
        let members = by_group.entry(group).or_default();
        let is_new = |one: &&MemberQueue| one.0.group == member.group && one.0.retry_group(one.1) != Some(group);
        for (taker, queue) in by_retries.get(&retry_subject).into_iter().flatten().filter(is_new) {
            taker.with_queues(|queues| queues.set_retry_group(*queue, group));
            members.push((Arc::clone(taker), *queue));
        }
    }

    /// Removes a member.
    pub(crate) fn remove(&self, member: &Arc<Member>) {
        let groups: Vec<GroupNumber> = member.with_queues(|queues| queues.groups().collect());
        let places = member.places();
        let mut table = held(&self.table);
        table.all.remove(&address(member));
        table.by_prefix.retain(|other| !Arc::ptr_eq(other, member));
        table.settling.retain(|other| !Arc::ptr_eq(other, member));
        table.limited.retain(|other| !Arc::ptr_eq(other, member));
        for place in places.iter() {
            take_out(&mut table.by_retries, &place.retry_subject.number, member);
        }
        for group in &groups {
            take_out(&mut table.by_group, group, member);
        }
    }

    /// These subjects were made. Members with a prefix that selects one hear of it.
    pub(crate) fn meet(&self, named: &[SubjectNumber], state: &State) {
        if named.is_empty() {
            return;
        }
        let table = held(&self.table);
        for subject in named.iter().filter_map(|number| state.subjects.get(*number)) {
            for member in table.by_prefix.iter().filter(|member| member.selection.begins(&subject.name)) {
                member.meet(&subject.name);
                member.news.notify_all();
            }
        }
    }

    /// Wakes the queues of these groups, under the owner lock: who asks next finds them. Looks up groups that were not
    /// woken before: a retry subject gets its group with the first message that is given
    /// back. The caller calls `tell` with the groups next.
    pub(crate) fn introduce(&self, woken: &[GroupNumber], state: &State) {
        if woken.is_empty() {
            return;
        }
        self.untold.fetch_add(1, Ordering::SeqCst);
        let mut table = held(&self.table);
        let Table { by_group, of_nobody, by_retries, .. } = &mut *table;
        for number in woken {
            if let Some(members) = by_group.get(number) {
                for (member, queue) in members {
                    member.wake(*queue);
                }
                continue;
            }
            let Some(group) = state.groups.get(number).filter(|_| !of_nobody.contains(number)) else { continue };
            let takers = by_retries.get(&group.subject).into_iter().flatten();
            let members: Vec<_> = takers.filter(|(one, _)| *one.group == *group.name).cloned().collect();
            for (member, queue) in &members {
                if let Some(before) = member.retry_group(*queue).filter(|before| before != number) {
                    take_out(by_group, &before, member);
                }
                member.with_queues(|queues| queues.set_retry_group(*queue, *number));
            }
            if members.is_empty() {
                of_nobody.insert(*number);
            } else {
                by_group.insert(*number, members);
            }
        }
    }

    /// Notifies the members of these groups. Call it without the owner lock.
    pub(crate) fn tell(&self, groups: &[GroupNumber]) {
        if groups.is_empty() {
            return;
        }
        let table = held(&self.table);
        let awaiting = groups.iter().filter_map(|group| table.by_group.get(group)).flatten();
        let mut told_last: Option<&Arc<Member>> = None;
        for (member, _) in awaiting.filter(|_| !is_on(Planted::ConsumersNotTold)) {
            // A member of many subjects is told once of neighbours.
            if !told_last.is_some_and(|last| Arc::ptr_eq(last, member)) {
                member.news.notify_all();
            }
            told_last = Some(member);
        }
        for Watch { notifier, token } in groups.iter().filter_map(|group| table.groups.get(group)) {
            notifier.watched(*token);
        }
        self.untold.fetch_sub(1, Ordering::SeqCst);
    }

    /// From now on this listener, and no other, is woken for the group.
    pub(crate) fn watch_group(&self, group: GroupNumber, notifier: Arc<Notifier>, token: u64) {
        held(&self.table).groups.insert(group, Watch { notifier, token });
    }

    /// No listener is woken for the group any more.
    pub(crate) fn unwatch_group(&self, group: GroupNumber) {
        held(&self.table).groups.remove(&group);
    }

    /// The state of all consuming threads, except the calling one.
    pub(crate) fn consumer_state(&self, patience: Duration) -> ConsumerState {
        if self.untold.load(Ordering::SeqCst) > 0 {
            return ConsumerState::Busy;
        }
        held(&self.table)
            .all
            .values()
            .map(|member| member.presence.consumer_state(member.news.count(), patience))
            .max()
            .unwrap_or(ConsumerState::Nobody)
    }

    /// How many threads consume, except the calling one, as far as the clock knows.
    pub(crate) fn consuming_threads(&self) -> usize {
        held(&self.table).all.values().map(|member| member.presence.count()).sum()
    }

    /// Notifies all members.
    pub(crate) fn notify_all(&self) {
        for member in held(&self.table).all.values() {
            member.news.notify_all();
        }
    }

    /// This member has ended deliveries to send.
    pub(crate) fn settles(&self, member: &Arc<Member>) {
        held(&self.table).settling.push(Arc::clone(member));
    }

    /// Lets all members pass on what their users have had for too long, to be ready at `due`. Returns when the next hold
    /// ends.
    pub(crate) fn pass_on(&self, now_ms: u64, due: Millis) -> Option<u64> {
        let mut table = held(&self.table);
        // A hold that begins meanwhile is noted after this, or is seen below.
        self.next_hold.forget();
        let Table { limited, settling, .. } = &mut *table;
        let mut first_ms = None;
        for member in limited {
            let (noted, next_ms) = member.pass_on(now_ms, due);
            if noted == Noted::First {
                settling.push(Arc::clone(member));
            }
            first_ms = first_ms.into_iter().chain(next_ms).min();
        }
        if let Some(first_ms) = first_ms {
            self.next_hold.note(first_ms);
        }
        first_ms
    }

    /// All ended deliveries that are not sent.
    pub(crate) fn take_settled(&self) -> Vec<Settled> {
        let waiting = std::mem::take(&mut held(&self.table).settling);
        waiting.iter().flat_map(|member| member.take_settled()).collect()
    }
}
