//! Who consumes what in this process, so that news of a group or a subject finds who waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delaymq_core::store::State;
use delaymq_core::units::{GroupNumber, SubjectNumber};

use crate::attendance::Rest;
use crate::held;
use crate::member::Member;
use crate::notifier::Notifier;
use crate::settled::Settled;

/// What has something new.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Woken {
    pub(crate) groups: Vec<GroupNumber>,
    /// Of the subjects that somebody follows.
    pub(crate) subjects: Vec<SubjectNumber>,
}

/// Who is told whenever there is news.
struct Watch {
    notifier: Arc<Notifier>,
    token: u64,
}

#[derive(Default)]
struct Table {
    groups: HashMap<GroupNumber, Watch>,
    subjects: HashMap<SubjectNumber, Watch>,
    /// Groups that were heard of; those of nobody here have nobody.
    by_group: HashMap<GroupNumber, Vec<Arc<Member>>>,
    all: Vec<Arc<Member>>,
    /// Those that have ended deliveries, which are to be sent.
    settling: Vec<Arc<Member>>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Subscribers {
    table: Mutex<Table>,
    /// How often somebody was introduced to news and has not told it yet.
    untold: AtomicUsize,
}

impl Subscribers {
    /// Adds a member, and hears of its group from now on.
    pub(crate) fn add(&self, member: &Arc<Member>, group: GroupNumber) {
        let mut table = held(&self.table);
        table.all.push(Arc::clone(member));
        table.by_group.entry(group).or_default().push(Arc::clone(member));
        // Its retry group may be known as nobody's.
        table.by_group.retain(|_, members| !members.is_empty());
    }

    /// Forgets a member.
    pub(crate) fn remove(&self, member: &Arc<Member>) {
        let is_other = |other: &Arc<Member>| !Arc::ptr_eq(other, member);
        let mut table = held(&self.table);
        table.all.retain(is_other);
        table.settling.retain(is_other);
        for members in table.by_group.values_mut() {
            members.retain(is_other);
        }
    }

    /// Looks up groups that were not heard of before: a group's retry subject gets its group by
    /// the first message that is given back. Whoever does so tells the groups next.
    pub(crate) fn introduce(&self, woken: &[GroupNumber], state: &State) {
        if woken.is_empty() {
            return;
        }
        self.untold.fetch_add(1, Ordering::SeqCst);
        let mut table = held(&self.table);
        for number in woken {
            if table.by_group.contains_key(number) {
                continue;
            }
            let Some(group) = state.groups.get(number) else { continue };
            let members: Vec<_> =
                table.all.iter().filter(|one| one.retries_in(group.subject, &group.name)).cloned().collect();
            for member in &members {
                member.set_retry_group(*number);
            }
            table.by_group.insert(*number, members);
        }
    }

    /// There is something new in these groups. Call it without holding the owner.
    pub(crate) fn tell(&self, woken: &Woken) {
        let Woken { groups, subjects } = woken;
        if groups.is_empty() && subjects.is_empty() {
            return;
        }
        let table = held(&self.table);
        for member in groups.iter().filter_map(|group| table.by_group.get(group)).flatten() {
            member.news.tell_all();
        }
        let watched = groups.iter().filter_map(|group| table.groups.get(group));
        for Watch { notifier, token } in watched.chain(subjects.iter().filter_map(|one| table.subjects.get(one))) {
            notifier.watched(*token);
        }
        if !groups.is_empty() {
            self.untold.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// From now on this one is told of a group's news, and nobody who was before.
    pub(crate) fn watch_group(&self, group: GroupNumber, notifier: Arc<Notifier>, token: u64) {
        held(&self.table).groups.insert(group, Watch { notifier, token });
    }

    /// Nobody is told of a group's news any more.
    pub(crate) fn unwatch_group(&self, group: GroupNumber) {
        held(&self.table).groups.remove(&group);
    }

    /// From now on this one is told of the news of a subject that is followed.
    pub(crate) fn watch_subject(&self, subject: SubjectNumber, notifier: Arc<Notifier>, token: u64) {
        held(&self.table).subjects.insert(subject, Watch { notifier, token });
    }

    /// Nobody is told of a subject's news any more.
    pub(crate) fn unwatch_subject(&self, subject: SubjectNumber) {
        held(&self.table).subjects.remove(&subject);
    }

    /// How everybody who consumes is, but for the calling thread.
    pub(crate) fn rest(&self, patience: Duration) -> Rest {
        if self.untold.load(Ordering::SeqCst) > 0 {
            return Rest::Awaited;
        }
        held(&self.table).all.iter().map(|member| member.rest(patience)).max().unwrap_or(Rest::Nobody)
    }

    /// How many threads beside the calling one consume, as far as the clock knows.
    pub(crate) fn attendants(&self) -> usize {
        held(&self.table).all.iter().map(|member| member.attendants()).sum()
    }

    /// Lets everybody look up.
    pub(crate) fn tell_all(&self) {
        for member in &held(&self.table).all {
            member.news.tell_all();
        }
    }

    /// This member has ended deliveries, which are to be sent.
    pub(crate) fn settles(&self, member: &Arc<Member>) {
        held(&self.table).settling.push(Arc::clone(member));
    }

    /// All ended deliveries that wait to be sent.
    pub(crate) fn take_settled(&self) -> Vec<Settled> {
        let waiting = std::mem::take(&mut held(&self.table).settling);
        waiting.iter().flat_map(|member| member.take_settled()).collect()
    }
}
