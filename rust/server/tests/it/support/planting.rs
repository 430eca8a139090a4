//! A fault in all threads of this process, while a test looks whether it is seen.

use std::sync::{Mutex, MutexGuard, PoisonError};

use delaymq_core::planted::{Planted, plant_everywhere};

/// One fault is planted at a time: a test would take out what another one has planted.
static PLANTED: Mutex<()> = Mutex::new(());

/// Takes the fault out again whatever happens.
pub(crate) struct Everywhere {
    _alone: MutexGuard<'static, ()>,
}

impl Everywhere {
    pub(crate) fn plant(fault: Option<Planted>) -> Self {
        let alone = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
        plant_everywhere(fault);
        Self { _alone: alone }
    }
}

impl Drop for Everywhere {
    fn drop(&mut self) {
        plant_everywhere(None);
    }
}
