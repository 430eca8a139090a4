//! The messages for a pull: deliveries that the client has not received, or else new ones.

use std::ops::Range;

use delaymq_core::error::{Error, Result};
use delaymq_core::queues::answer_run::{AnswerRun, Candidate, choose};
use delaymq_core::store::{Candidate as Ready, Delivery, JudgedPull, Offer, Pull, PullRequest};
use delaymq_core::units::PullOffset;
use delaymq_core::wire::qmq::filtering::may_pass;

use super::{Attached, LastingOptions, Pulling};
use crate::node::Node;

/// Payloads of one answer, in bytes.
const ANSWER_BYTES: usize = 4 << 20;
/// The most that a consumer may hold.
const IN_FLIGHT_MAX: u32 = 1 << 16;

/// The messages that a pull may get.
pub(super) enum Gathered {
    /// At least one message, under neighbouring offsets from this one on.
    Run(PullOffset, Vec<Vec<u8>>),
    Nothing,
    /// As `Nothing`, but messages become ready when facts on their way are applied.
    Soon,
    /// Messages were judged, and the pull goes on in a later turn: meanwhile others may be given them.
    Judged,
    /// The consumer has ended.
    Gone,
}

/// A run, and the offsets that no filter lets pass, which are to be finished.
pub(super) struct Looked {
    pub(super) gathered: Gathered,
    pub(super) filtered: Vec<Range<PullOffset>>,
}

impl Attached {
    /// Looks once. If no message passes, the caller finishes the filtered ones and looks again.
    pub(super) fn look(
        &mut self,
        node: &mut Node,
        pulling: &mut Pulling,
        options: &LastingOptions,
        bytes_max: usize,
    ) -> Result<Looked> {
        let bytes_max = ANSWER_BYTES.min(bytes_max);
        let lost = self.log.lost(pulling.received, pulling.count);
        let lost: Vec<Delivery> = lost.map_or(Vec::new(), |(_, run)| run.into_iter().copied().collect());
        let is_new = lost.is_empty() && self.unread.is_empty();
        if is_new
            && !pulling.filters.is_empty()
            && let Some(gathered) = self.judge(node, pulling, options)?
        {
            return Ok(Looked { gathered, filtered: Vec::new() });
        }
        let deliveries = if lost.is_empty() {
            match self.pull(node, pulling.count, options)? {
                Ok(new) => new,
                Err(gathered) => return Ok(Looked { gathered, filtered: Vec::new() }),
            }
        } else {
            lost
        };
        let Some(first) = deliveries.first().map(|one| one.offset) else {
            return Ok(Looked { gathered: Gathered::Nothing, filtered: Vec::new() });
        };
        let mut payloads = Vec::new();
        for delivery in &deliveries {
            let entry = &delivery.entry;
            payloads.push(node.read_payload(entry.location(), entry.payload_sequence())?.1);
        }
        let candidate = |(offset, payload): (u64, &Vec<u8>)| Candidate {
            offset: PullOffset(offset),
            passes: may_pass(&pulling.filters, None, payload),
            bytes: payload.len(),
        };
        let candidates: Vec<Candidate> = (first.0..).zip(&payloads).map(candidate).collect();
        let AnswerRun { answered, filtered } = choose(&candidates, bytes_max);
        for offset in &filtered {
            self.log.remove(*offset);
        }
        let filtered = filtered.iter().map(|offset| *offset..offset.next()).collect();
        let first = first.plus(answered.start as u64);
        let messages: Vec<Vec<u8>> = payloads.into_iter().skip(answered.start).take(answered.len()).collect();
        let gathered = if messages.is_empty() { Gathered::Nothing } else { Gathered::Run(first, messages) };
        Ok(Looked { gathered, filtered })
    }

    /// Judges ready messages before they are assigned, in two turns. `None` once some that pass are assigned.
    fn judge(&mut self, node: &mut Node, pulling: &mut Pulling, options: &LastingOptions) -> Result<Option<Gathered>> {
        let request = self.request(pulling.count, options);
        if pulling.judged.is_empty() {
            let candidates = match node.decide_offer(request)? {
                Offer::Candidates(candidates) => candidates,
                Offer::Wait => return Ok(Some(Gathered::Nothing)),
                Offer::Gone => return Ok(Some(Gathered::Gone)),
                Offer::Load(_) => return Err(Error::Closed),
            };
            for candidate in candidates {
                let Ready { entry, .. } = candidate;
                let payload = node.read_payload(entry.location(), entry.payload_sequence())?.1;
                pulling.judged.push((candidate, may_pass(&pulling.filters, None, &payload)));
            }
            return Ok(Some(Gathered::Judged));
        }
        let judged = std::mem::take(&mut pulling.judged);
        Ok(match node.decide_judged(request, &judged)? {
            None => Some(Gathered::Gone),
            Some(JudgedPull { deliveries, .. }) if !deliveries.is_empty() => {
                self.unread.extend(deliveries);
                None
            }
            Some(JudgedPull { passed_over: 0, is_held_up: true, .. }) => Some(Gathered::Soon),
            Some(_) => Some(Gathered::Judged),
        })
    }

    fn request(&self, count_max: usize, options: &LastingOptions) -> PullRequest {
        let wanted = u32::try_from(self.log.len().saturating_add(count_max)).unwrap_or(u32::MAX);
        let in_flight_max = wanted.clamp(options.in_flight_min, IN_FLIGHT_MAX);
        let (group, consumer) = self.place;
        PullRequest { group, consumer, count_max, in_flight_max, beside: 0 }
    }

    /// New messages: one run of neighbouring offsets.
    fn pull(
        &mut self,
        node: &mut Node,
        count_max: usize,
        options: &LastingOptions,
    ) -> Result<std::result::Result<Vec<Delivery>, Gathered>> {
        if self.unread.is_empty() {
            match node.decide_pull(self.request(count_max, options))? {
                Pull::Deliveries(deliveries) => self.unread.extend(deliveries),
                Pull::Wait => return Ok(Err(Gathered::Nothing)),
                Pull::Soon => return Ok(Err(Gathered::Soon)),
                Pull::Gone => return Ok(Err(Gathered::Gone)),
                Pull::Load(_) => return Err(Error::Closed),
            }
        }
        let mut run: Vec<Delivery> = Vec::new();
        while run.len() < count_max.max(1)
            && let Some(next) = self.unread.front().copied()
            && run.last().is_none_or(|last| last.offset.next() == next.offset)
        {
            // A payload must be readable before its delivery counts as given.
            let entry = &next.entry;
            if let Err(error) = node.read_payload(entry.location(), entry.payload_sequence()) {
                if run.is_empty() {
                    return Err(error);
                }
                break;
            }
            self.unread.pop_front();
            run.push(next);
        }
        if let Some(first) = run.first() {
            self.log.given(first.offset, run.iter().copied());
        }
        Ok(Ok(run))
    }
}
