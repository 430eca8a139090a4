//! Durable acknowledgements a second with so many tickets in flight from one submitter.

use std::collections::VecDeque;
use std::time::Instant;

use delaymq_engine::Due;

use crate::case::{Case, Failure, Figures, rate, settle};

const DELAY_MS: u64 = 600_000;

/// Keeps `in_flight` publishes of one message each under way until `messages` are answered.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (messages, in_flight) = (case.count("messages")?, case.count("in_flight")?);
    let body = vec![0xA5; usize::try_from(case.count("body_bytes")?).unwrap_or(0)];
    let store = case.open(|_| ())?;
    settle(case, &store)?;
    let mut batch = store.batch();
    let mut tickets = VecDeque::new();
    let started = Instant::now();
    for _ in 0..messages {
        if in_flight == 1 {
            batch.push("bench", Due::After(DELAY_MS), &[], &body)?;
            store.publish(&mut batch)?;
            continue;
        }
        while tickets.len() as u64 >= in_flight {
            if let Some(oldest) = tickets.pop_front() {
                delaymq_engine::Ticket::finish(oldest)?;
            }
        }
        batch.push("bench", Due::After(DELAY_MS), &[], &body)?;
        tickets.push_back(store.submit(&mut batch)?);
    }
    for ticket in tickets {
        ticket.finish()?;
    }
    let time = started.elapsed();
    store.close()?;
    Ok(Figures::from([("value", rate(messages, time))]))
}
