//! The loads that wait until the copies have their files, and the answers to them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::run::StagedRun;

use crate::held;
use crate::sync::{Condvar, Mutex};

/// How soon a waiting load notices that the store has ended, or takes nothing any more.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A load whose files the copies must get.
#[derive(Clone, Debug)]
pub struct LoadOffer {
    /// Its number, which no other load of this store has.
    pub number: u64,
    /// Its files. They are in the folder of the store.
    pub runs: Arc<[StagedRun]>,
}

/// The loads that wait.
#[derive(Default)]
pub(crate) struct WaitingLoads {
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Arc<[StagedRun]>>,
    answers: BTreeMap<u64, Result<()>>,
}

/// A load that waits. Nobody waits for it once this is dropped.
pub(super) struct Waiting<'a> {
    loads: &'a WaitingLoads,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = held(&self.loads.state);
        state.waiting.remove(&self.number);
        state.answers.remove(&self.number);
    }
}

impl WaitingLoads {
    /// The loads that wait.
    pub(super) fn offers(&self) -> Vec<LoadOffer> {
        let offer = |(number, runs): (&u64, &Arc<[StagedRun]>)| LoadOffer { number: *number, runs: Arc::clone(runs) };
        held(&self.state).waiting.iter().map(offer).collect()
    }

    /// A load with these files begins to wait.
    pub(super) fn begin(&self, runs: &[StagedRun]) -> Waiting<'_> {
        let mut state = held(&self.state);
        let number = state.next;
        state.next = number.saturating_add(1);
        state.waiting.insert(number, runs.into());
        Waiting { loads: self, number }
    }

    /// Ends the wait of a load.
    pub(super) fn answer(&self, number: u64, answer: Result<()>) {
        let mut state = held(&self.state);
        if state.waiting.remove(&number).is_some() {
            state.answers.insert(number, answer);
        }
        drop(state);
        self.answered.notify_all();
    }
}

impl Waiting<'_> {
    /// The answer, or `None` after a while.
    pub(super) fn wait(&self) -> Option<Result<()>> {
        let mut state = held(&self.loads.state);
        if !state.answers.contains_key(&self.number) {
            let waited = self.loads.answered.wait_timeout(state, LOOK_AGAIN_AFTER);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.answers.remove(&self.number)
    }
}
