//! The account: the answers and the messages that users got over their connections, in maps. It judges every promise
//! to a client by these alone, and not by the state of the server or its store.

mod changes;
mod counts;
mod expiring;
mod known;
mod recurring;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::record::expire::{Expires, OnExpiry};
use delaymq_core::units::{Millis, Sequence};

pub use self::counts::Counts;
use self::known::{Cancel, Move, Series};
use super::labels::Wants;
use super::link::LinkId;

/// The reason of the dead letters that clients make.
pub(super) const DEAD_REASON: &str = "cannot be handled";
/// A connection that is never lost.
const NOBODY: LinkId = 0;

/// A message as its user knows it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) subject: String,
    pub(super) body: Vec<u8>,
    /// It may not come before.
    not_before: Millis,
    /// How often it was sent.
    asked: usize,
    /// The copies that answers or deliveries have shown.
    copies: BTreeSet<Sequence>,
    /// The earliest time by its last publish.
    last_not_before: Millis,
    /// It is stored once, however often it is sent.
    is_once: bool,
    /// When it expires, and the effect.
    pub(super) expires: Option<(Expires, OnExpiry)>,
}

impl Sent {
    pub(super) fn new(subject: String, body: Vec<u8>, not_before: Millis) -> Self {
        Self {
            subject,
            body,
            not_before,
            asked: 0,
            copies: BTreeSet::new(),
            last_not_before: not_before,
            is_once: false,
            expires: None,
        }
    }

    /// As [`Self::new`], with an id that identifies repetitions.
    pub(super) fn once(subject: String, body: Vec<u8>, not_before: Millis) -> Self {
        Self { is_once: true, ..Self::new(subject, body, not_before) }
    }
}

/// The state of one copy of a message in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// A consumer has it.
    Held(LinkId),
    /// Its consumer released it.
    Free,
    /// It was given back, to come again at this time.
    GivenBack(LinkId, Millis),
    /// It was made a dead letter.
    Dead(LinkId),
    /// It was acknowledged, and the outcome is not known.
    Acknowledging(LinkId),
    /// It is finished.
    Done,
}

/// A copy of a message that came to a group.
#[derive(Clone, Copy, Debug)]
struct Owed {
    place: Place,
    /// The last connection that the server gave it to, and the server's time then.
    link: LinkId,
    given: Millis,
}

/// A message that came to a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came<'a> {
    pub(super) link: LinkId,
    pub(super) group: &'a str,
    pub(super) subject: &'a str,
    pub(super) sequence: Sequence,
    pub(super) is_retry: bool,
    pub(super) redelivered: bool,
    pub(super) due: Millis,
    pub(super) now: Millis,
    pub(super) body: &'a [u8],
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Account {
    sent: BTreeMap<u64, Sent>,
    /// Copies whose storing was answered.
    stored: BTreeSet<Sequence>,
    of: BTreeMap<Sequence, u64>,
    /// Messages whose answer was lost.
    ambiguous: BTreeSet<u64>,
    cancels: BTreeMap<Sequence, Cancel>,
    moves: BTreeMap<Sequence, Move>,
    /// By the receipts of moves, the sequences of their messages.
    moved_from: BTreeMap<Sequence, Sequence>,
    /// The due time of each receipt.
    dues: BTreeMap<Sequence, Millis>,
    /// The due times of messages that came.
    came_dues: BTreeMap<Sequence, Millis>,
    /// Messages with a cancel whose outcome is not known.
    maybe_cancelled: BTreeSet<Sequence>,
    places: BTreeMap<(String, Sequence), Owed>,
    lost: BTreeSet<LinkId>,
    /// How many messages may come again, since lost consumers had so many in flight.
    repeats_max: u64,
    series: Series,
    /// The groups that have filters.
    wants: BTreeMap<String, Wants>,
    /// No clock of the server is ahead of this time.
    pub(super) now: Millis,
    pub(super) counts: Counts,
    violations: Vec<String>,
}

impl Account {
    /// An account of groups, some of which have filters.
    pub(super) fn of_groups(wants: BTreeMap<String, Wants>) -> Self {
        Self { wants, ..Self::default() }
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    pub(super) fn blame(&mut self, what: String) {
        self.violations.push(what);
    }

    /// A message is published, for the first time or again.
    pub(super) fn publish_asked(&mut self, number: u64, sent: impl FnOnce() -> Sent) {
        let sent = sent();
        let known = self.sent.entry(number).or_insert_with(|| sent.clone());
        known.asked += 1;
        // A delay counts from the publish, at which the clock may be behind.
        known.not_before = known.not_before.min(sent.not_before);
        known.last_not_before = sent.not_before;
    }

    pub(super) fn sent(&self, number: u64) -> Option<&Sent> {
        self.sent.get(&number)
    }

    /// The answer says that it is stored.
    pub(super) fn published(&mut self, number: u64, sequence: Sequence, due: Millis) {
        self.counts.published += 1;
        let Some(sent) = self.sent.get(&number) else { return };
        let is_new = self.stored.insert(sequence);
        let told = self.dues.insert(sequence, due).or(self.came_dues.get(&sequence).copied());
        let other = told.is_some_and(|before| before != due);
        // The answer is about an earlier publish. If it is the first answer, the earlier one was lost.
        self.counts.told_again += u64::from(sent.is_once && !is_new);
        self.counts.told_late += u64::from(sent.is_once && is_new && due < sent.last_not_before);
        if due < sent.not_before || other || !is_new && !sent.is_once {
            self.blame(format!("message {number} was answered with sequence {sequence} due at {due}"));
        }
        self.found_copy(number, sequence);
    }

    /// A publish is sent once more, or only now.
    pub(super) fn publish_repeated(&mut self, number: u64, not_before: Millis) {
        if let Some(sent) = self.sent.get_mut(&number) {
            sent.not_before = sent.not_before.min(not_before);
            sent.last_not_before = not_before;
        }
    }

    /// A publish was never sent.
    pub(super) fn publish_unasked(&mut self, number: u64) {
        if let Some(sent) = self.sent.get_mut(&number) {
            sent.asked = sent.asked.saturating_sub(1);
        }
    }

    /// The answer to a publish was lost.
    pub(super) fn publish_lost(&mut self, numbers: impl Iterator<Item = u64>) {
        for number in numbers {
            self.counts.ambiguous += 1;
            self.ambiguous.insert(number);
        }
    }

    fn found_copy(&mut self, number: u64, sequence: Sequence) {
        let before = *self.of.entry(sequence).or_insert(number);
        let Some(sent) = self.sent.get_mut(&number) else {
            return self.blame(format!("phantom: nobody sent message {number}"));
        };
        sent.copies.insert(sequence);
        let (copies, asked) = (sent.copies.len(), sent.asked);
        if before != number || copies > sent.stored_max() {
            self.blame(format!("{copies} copies of message {number}, asked for {asked} times; {sequence} is {before}"));
        }
    }

    /// A message came.
    pub(super) fn came(&mut self, came: &Came<'_>) {
        self.counts.delivered += 1;
        let number = came.body.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if self.series.is_of(number) {
            self.occurrence_came(number, came);
        } else {
            self.message_came(number, came);
        }
        // Occurrences have no labels, and pass no filter.
        if !self.is_wanted(came.group, number) {
            self.blame(format!("it does not pass the filters of its group: {came:?}"));
        }
        if self.is_cancelled(came.sequence) {
            self.blame(format!("cancelled: {came:?}"));
        }
        if !self.stored.contains(&came.sequence) && self.ambiguous.remove(&number) {
            self.counts.ambiguous_stored += 1;
        }
        let key = (came.group.to_owned(), came.sequence);
        let before = self.places.get(&key).copied();
        let is_later = |before: Owed| came.link != before.link && came.now <= before.given;
        if before.is_some_and(is_later) && self.lost.contains(&came.link) {
            // The server gave it to a connection that is lost and then to another, and they arrive in the other order.
            // The acknowledgements of the lost connection reach no server.
            return self.repeated(came);
        }
        self.places.insert(key, Owed { place: Place::Held(came.link), link: came.link, given: came.now });
        if let Some(before) = before {
            self.came_again(came, before.place);
        } else if came.redelivered && self.repeats_max == 0 {
            self.blame(format!("marked as a repetition, and nothing was lost: {came:?}"));
        }
    }

    fn message_came(&mut self, number: u64, came: &Came<'_>) {
        self.found_copy(number, came.sequence);
        let fits = self.sent.get(&number).is_some_and(|sent| sent.body == came.body && sent.subject == came.subject);
        if !fits || came.due > came.now {
            self.blame(format!("corrupt or early: {came:?}, sent {:?}", self.sent.get(&number)));
        }
        if !came.is_retry {
            self.judge_the_due(number, came);
        }
        self.judge_the_expiry(number, came);
    }

    fn came_again(&mut self, came: &Came<'_>, before: Place) {
        let is_lost = |link: &LinkId| self.lost.contains(link);
        let may = match before {
            Place::Held(link) | Place::Acknowledging(link) | Place::Dead(link) => is_lost(&link),
            Place::Free => true,
            Place::GivenBack(link, due) => is_lost(&link) || (came.is_retry && came.due >= due),
            Place::Done => false,
        };
        if !may || !came.redelivered {
            self.blame(format!("it came again, being {before:?}: {came:?}"));
        }
        if matches!(before, Place::GivenBack(..)) && came.is_retry {
            self.counts.retried += 1;
        } else {
            self.repeated(came);
        }
    }

    fn repeated(&mut self, came: &Came<'_>) {
        self.counts.repeated += 1;
        if self.counts.repeated > self.repeats_max {
            let most = self.repeats_max;
            self.blame(format!("more than {most} repetitions, which were in flight at a loss: {came:?}"));
        }
    }

    fn put(&mut self, group: &str, sequence: Sequence, place: Place) {
        if let Some(owed) = self.places.get_mut(&(group.to_owned(), sequence)) {
            owed.place = place;
        }
    }

    fn place(&self, group: &str, sequence: Sequence) -> Option<Place> {
        self.places.get(&(group.to_owned(), sequence)).map(|owed| owed.place)
    }

    /// A consumer acknowledges what it holds. False if the message is not the consumer's any more.
    pub(super) fn acknowledge_asked(&mut self, link: LinkId, group: &str, sequence: Sequence) -> bool {
        let is_held = self.place(group, sequence) == Some(Place::Held(link));
        if is_held {
            self.put(group, sequence, Place::Acknowledging(link));
        }
        is_held
    }

    /// An answer says that the acknowledgement is durable.
    pub(super) fn acknowledged(&mut self, link: LinkId, group: &str, sequence: Sequence) {
        match self.place(group, sequence) {
            Some(Place::Acknowledging(by)) if by == link => self.put(group, sequence, Place::Done),
            Some(Place::Done) => {}
            place => self.blame(format!("{sequence} is told to be finished by {link} in {group}, and is {place:?}")),
        }
    }

    /// An answer says that it is durable that a message was given back or made a dead letter: the loss of the
    /// connection does not bring it.
    pub(super) fn given_back(&mut self, link: LinkId, group: &str, sequence: Sequence) {
        match self.place(group, sequence) {
            Some(Place::GivenBack(by, due)) if by == link => {
                self.put(group, sequence, Place::GivenBack(NOBODY, due));
            }
            Some(Place::Dead(by)) if by == link => self.put(group, sequence, Place::Dead(NOBODY)),
            _ => {}
        }
    }

    /// A consumer makes a dead letter of what it holds.
    pub(super) fn dead_letter_asked(&mut self, link: LinkId, group: &str, sequence: Sequence) {
        if self.place(group, sequence) == Some(Place::Held(link)) {
            self.put(group, sequence, Place::Dead(link));
        }
    }

    /// A consumer gives back what it holds, to come again no earlier than `due`.
    pub(super) fn give_back_asked(&mut self, link: LinkId, group: &str, sequence: Sequence, due: Millis) {
        if self.place(group, sequence) == Some(Place::Held(link)) {
            self.put(group, sequence, Place::GivenBack(link, due));
        }
    }

    /// A consumer ends in order and releases its messages.
    pub(super) fn let_go(
        &mut self,
        link: LinkId,
        group: &str,
        held: impl Iterator<Item = Sequence>,
        in_flight_max: u32,
    ) {
        self.repeats_max += u64::from(in_flight_max);
        for sequence in held {
            if self.place(group, sequence) == Some(Place::Held(link)) {
                self.put(group, sequence, Place::Free);
            }
        }
    }

    /// A connection is lost, also if neither side has noticed. So many messages may have been in flight on it.
    pub(super) fn link_lost(&mut self, link: LinkId, in_flight_max: u32) {
        if self.lost.insert(link) {
            self.repeats_max += u64::from(in_flight_max);
        }
    }

    /// At the end, at this time of the server: each group must have received and finished all promised messages.
    pub(super) fn judge_the_end(&mut self, groups: &[(String, String)], now: Millis) {
        let (mut wrong, mut kept_back) = (Vec::new(), 0);
        for (sequence, number) in &self.of {
            let Some(sent) = self.sent.get(number) else { continue };
            let cancel = self.cancels.get(sequence);
            for (_, group) in groups.iter().filter(|(subject, _)| *subject == sent.subject) {
                let place = self.place(group, *sequence);
                let is_wanted = self.is_wanted(group, *number);
                kept_back += u64::from(!is_wanted);
                let is_fine = match place {
                    None if !is_wanted => true,
                    Some(Place::Done | Place::Acknowledging(_) | Place::Dead(_)) => true,
                    _ if self.may_have_expired(*number, *sequence, place, now) => true,
                    Some(_) => false,
                    // A lost cancel may have been done, and then no group gets the message.
                    None => self.may_be_cancelled(*sequence),
                };
                if !is_fine {
                    wrong.push(format!(
                        "lost: message {number} as {sequence} in {group} is {place:?}, cancel {cancel:?}"
                    ));
                }
            }
        }
        self.counts.kept_back += kept_back;
        self.violations.extend(wrong);
        self.judge_the_series(groups);
    }
}
