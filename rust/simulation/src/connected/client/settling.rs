//! How a client settles the messages that it holds, and those that lost connections delivered.

use delaymq_client::session::SubscriptionId;
use delaymq_core::units::Sequence;

use super::{Call, Client, Repeats, Settled, is_passing_failure};
use crate::connected::account::{Account, DEAD_REASON};
use crate::connected::link::LinkId;
use crate::connected::users::Shared;

/// The longest delay of a message that is given back, in milliseconds.
const BACK_MS_MAX: u64 = 1_500;
/// The bits of a key that are the number of its subscription.
const NUMBER: u128 = (u64::MAX as u128) & !((1 << NUMBER_SHIFT) - 1);
const NUMBER_SHIFT: u32 = 45;

/// The number of the subscription that a message of this key came to; all numbers of a history are small.
pub(super) fn number_of(key: u128) -> u32 {
    u32::try_from((key & NUMBER) >> NUMBER_SHIFT).unwrap_or(u32::MAX)
}

impl Client {
    pub(super) fn flush(&mut self, around: &mut Shared) -> &'static str {
        let Some(id) = self.subscription else { return "waits" };
        let settled = std::mem::take(&mut self.unflushed);
        match self.session.request_flush(id, self.next_token, self.now_ms) {
            Ok(ticket) => {
                self.is_unsure = false;
                self.judge_silence(&mut around.account);
                match ticket {
                    None => self.flushed(&mut around.account, &settled),
                    ticket => self.wait_for(Call::Flush(id, settled), ticket, Repeats::Reads),
                }
            }
            Err(failure) => {
                self.unflushed = settled;
                if is_passing_failure(&failure) {
                    self.told_refused();
                } else if failure.is_ambiguous() && self.is_doubtful {
                    self.told_doubtful();
                } else {
                    around.account.blame(format!("a flush fails, and nothing was lost: {failure:?}"));
                }
            }
        }
        "flushes"
    }

    /// The session tells of nothing that is ambiguous.
    pub(super) fn judge_silence(&mut self, account: &mut Account) {
        if std::mem::take(&mut self.must_be_told) {
            account.blame("what was settled after its connection was lost is told to be settled".to_owned());
        }
    }

    /// These settlements are durable, by a flush or by the end of their subscription.
    pub(super) fn flushed(&self, account: &mut Account, settled: &[Settled]) {
        for one in settled {
            if one.is_back {
                account.given_back(one.link, &self.consumes.group, one.sequence);
            } else {
                account.acknowledged(one.link, &self.consumes.group, one.sequence);
            }
        }
    }

    /// A later flush of the same subscription covers these as well.
    pub(super) fn not_flushed(&mut self, id: SubscriptionId, settled: Vec<Settled>) {
        if self.subscription == Some(id) {
            self.unflushed.extend(settled);
            self.is_unsure = true;
        }
    }

    /// The session has told that something may not be settled: of lost connections nothing is promised any more.
    pub(super) fn told_doubtful(&mut self) {
        (self.is_doubtful, self.must_be_told) = (false, false);
        self.forget_lost();
    }

    /// The session has told that something was refused, which may be what was given back.
    pub(super) fn told_refused(&mut self) {
        (self.is_unsure, self.must_be_told) = (true, false);
        self.unflushed.retain(|one| !one.is_back);
        self.forget_lost();
    }

    fn forget_lost(&mut self) {
        let link = self.link;
        let of_calls = self.calls.values_mut().filter_map(|asked| match &mut asked.call {
            Call::Flush(_, settled) | Call::Close(_, settled) => Some(settled),
            _ => None,
        });
        of_calls.chain([&mut self.unflushed]).for_each(|settled| settled.retain(|one| Some(one.link) == link));
    }

    fn some_held(&self, around: &mut Shared) -> Vec<u128> {
        self.holds.keys().copied().filter(|_| around.chance.percent(60)).collect()
    }

    pub(super) fn acknowledge(&mut self, around: &mut Shared) -> &'static str {
        let keys = self.some_held(around);
        self.acknowledge_keys(around, &keys);
        "acknowledges"
    }

    pub(super) fn acknowledge_keys(&mut self, around: &mut Shared, keys: &[u128]) {
        let (Some(id), Some(link)) = (self.subscription, self.link) else { return };
        self.is_unsure |= !keys.is_empty();
        let sequences: Vec<Sequence> = keys.iter().filter_map(|key| self.holds.remove(key)).collect();
        for sequence in sequences {
            self.acknowledges(&mut around.account, link, sequence);
        }
        match self.session.acknowledge(id, keys, self.now_ms) {
            Ok(late) if late.is_empty() => {}
            other => around.account.blame(format!("acknowledgements of held messages are refused: {other:?}")),
        }
    }

    fn acknowledges(&mut self, account: &mut Account, link: LinkId, sequence: Sequence) {
        if account.acknowledge_asked(link, &self.consumes.group, sequence) {
            self.unflushed.push(Settled { link, sequence, is_back: false });
        }
    }

    pub(super) fn give_back_or_dead_letter(&mut self, around: &mut Shared) -> &'static str {
        let (Some(id), Some(link)) = (self.subscription, self.link) else { return "waits" };
        let Some((key, sequence)) = self.some_held(around).first().and_then(|key| self.holds.remove_entry(key)) else {
            return "has nothing to give back";
        };
        self.unflushed.push(Settled { link, sequence, is_back: true });
        self.is_unsure = true;
        let (done, words) = if around.chance.percent(20) {
            around.account.dead_letter_asked(link, &self.consumes.group, sequence);
            (self.session.dead_letter(id, key, DEAD_REASON, self.now_ms), "makes a dead letter")
        } else {
            let delay_ms = around.chance.one_of(&[0, 20, BACK_MS_MAX]);
            around.account.give_back_asked(link, &self.consumes.group, sequence, around.now.plus(delay_ms));
            (self.session.give_back(id, key, delay_ms, self.now_ms), "gives back")
        };
        if done != Ok(true) {
            around.account.blame(format!("{words}, and is refused: {done:?}"));
        }
        words
    }

    /// Settles one delivery twice, in two ways. The first one counts.
    pub(super) fn settle_twice(&mut self, around: &mut Shared) -> &'static str {
        let (Some(key), Some(id)) = (self.some_held(around).first().copied(), self.subscription) else {
            return "has nothing to settle";
        };
        self.acknowledge_keys(around, &[key]);
        if let Err(failure) = self.session.give_back(id, key, 0, self.now_ms) {
            around.account.blame(format!("a message is not given back: {failure:?}"));
        }
        "acknowledges, then gives back"
    }

    /// Settles what a lost connection delivered: the session says that this is ambiguous. Or it sends such keys under
    /// the number of this connection's subscription, as no client of delaymq does: the server knows that they are void.
    pub(super) fn settle_lost(&mut self, around: &mut Shared) -> &'static str {
        let Some(id) = self.subscription.filter(|_| !self.lost.is_empty()) else { return "has lost nothing" };
        if let Some(number) = self.number.filter(|_| around.chance.percent(70)) {
            let lost = std::mem::take(&mut self.lost).into_iter();
            let keys: Vec<u128> = lost.map(|(lost, ..)| lost & !NUMBER | u128::from(number) << NUMBER_SHIFT).collect();
            around.account.counts.stale += keys.len() as u64;
            // Meanwhile the subscription may have another number.
            (self.is_unsure, self.is_doubtful) = (true, true);
            if let Err(failure) = self.session.acknowledge(id, &keys, self.now_ms) {
                around.account.blame(format!("acknowledgements are refused: {failure:?}"));
            }
            return "acknowledges what an earlier connection had under other keys";
        }
        let Some((key, link, sequence)) = self.lost.pop() else { return "has lost nothing" };
        (self.is_doubtful, self.must_be_told) = (true, true);
        let done = if around.chance.percent(70) {
            self.acknowledges(&mut around.account, link, sequence);
            self.session.acknowledge(id, &[key], self.now_ms).map(drop)
        } else {
            self.session.give_back(id, key, 0, self.now_ms).map(drop)
        };
        if let Err(failure) = done {
            around.account.blame(format!("what was lost is not settled: {failure:?}"));
        }
        "settles what an earlier connection had"
    }
}
