//! The end of a run: with nothing that disturbs, everything must come.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use delaymq_core::error::Result;
use delaymq_engine::Store;

use crate::arguments::Arguments;
use crate::consuming::{id_of, subjects, subscribe_all};
use crate::ending::{Cause, end};
use crate::recurring;
use crate::telling::{Line, Telling};

/// Dead letters of one group that are told, at most.
const DEAD_MAX: usize = 1_000_000;

/// How long nothing may come while a group is owed something.
const OWED_QUIET: Duration = Duration::from_secs(5);

/// Consumes and acknowledges everything, tells what lies among the dead letters, closes the store.
///
/// # Errors
/// What ends the store, and what must not be.
pub(crate) fn drain(arguments: &Arguments, telling: &Telling, store: Arc<Store>) -> Result<()> {
    let mut groups = subscribe_all(arguments, &store)?;
    let began = Instant::now();
    let mut last = Instant::now();
    let mut recurs = arguments.has_terms;
    loop {
        let mut came = 0_usize;
        for group in &mut groups {
            came = came.saturating_add(group.round(telling)?);
        }
        recurs = recurs && !recurring::end(telling, &store)?;
        let now = Instant::now();
        let is_pending = recurs || store.status()?.pending > 0;
        if came > 0 || is_pending {
            last = now;
        }
        if now.duration_since(last) >= quiet(arguments, &store)? {
            break;
        }
        if now.duration_since(began) > Duration::from_secs(arguments.drain_seconds) {
            end(telling, Cause::Undrained, &format!("{} messages are pending", store.status()?.pending));
        }
    }
    let over = AtomicBool::new(true);
    for group in groups {
        for subject in subjects(arguments) {
            for letter in store.dead_letters(&subject, group.name(), DEAD_MAX)? {
                let body = letter.payload.as_ref().map(delaymq_engine::Payload::body).unwrap_or_default();
                let Some(id) = id_of(body) else {
                    end(telling, Cause::Damaged, &format!("a dead letter cannot be read: {:?}", letter.damage));
                };
                telling.tell(&[Line::of("dead").text("id", id).text("group", group.name())]);
            }
        }
        group.consume(telling, &over)?;
    }
    store.close()?;
    drop(store);
    if arguments.verify {
        verify(arguments, telling)?;
    }
    Ok(())
}

/// How long nothing may come before it is over. What is ready and was not given out yet comes late where a machine is busy
/// with something else.
fn quiet(arguments: &Arguments, store: &Store) -> Result<Duration> {
    let quiet = Duration::from_millis(arguments.quiet_ms);
    let is_owed = store.groups()?.iter().any(|group| group.lag > 0);
    Ok(if is_owed { quiet.max(OWED_QUIET) } else { quiet })
}

fn verify(arguments: &Arguments, telling: &Telling) -> Result<()> {
    let found = Store::verify(&arguments.store)?;
    let findings: Vec<String> = found.findings.into_iter().chain(found.voided).collect();
    if !findings.is_empty() {
        end(telling, Cause::Damaged, &findings.join("; "));
    }
    Ok(())
}
