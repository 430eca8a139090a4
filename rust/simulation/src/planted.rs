//! Planted faults of the core. `docs/guarantees.md` says which layer finds which.

use delaymq_core::planted::lowered::lower;
use delaymq_core::planted::{Planted, next_format, plant};

/// The names of all faults.
pub fn names() -> String {
    let mut names: Vec<&str> = Planted::ALL.iter().map(|(_, name)| *name).collect();
    names.sort_unstable();
    names.join(", ")
}

/// Plants one fault on this thread for as long as the value lives.
#[derive(Debug)]
pub struct Plant;

impl Plant {
    /// Plants this fault, or none.
    pub fn new(fault: Option<Planted>) -> Self {
        plant(fault);
        Self
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        plant(None);
    }
}

/// Lowers limits that short histories would not reach, on this thread, for as long as the value lives.
#[derive(Debug)]
pub struct Lowered;

impl Lowered {
    /// No limit allows more than this.
    pub fn to(most: u64) -> Self {
        lower(Some(most));
        Self
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        lower(None);
    }
}

/// Makes this thread a build of the made-up next format, for as long as the value lives.
#[derive(Debug)]
pub struct KnowsNext;

impl KnowsNext {
    /// The thread knows that format from now on.
    #[expect(clippy::new_without_default, reason = "it is a guard, and no value to begin with")]
    pub fn new() -> Self {
        next_format::know(true);
        Self
    }
}

impl Drop for KnowsNext {
    fn drop(&mut self) {
        next_format::know(false);
    }
}
