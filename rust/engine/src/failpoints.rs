//! A test from outside plants this in a process: the failpoint at which it kills itself, a fault of the core, and the
//! format that it knows. Only builds with the feature `planted` have this. The environment chooses, when the first store
//! or folder is opened.
//!
//! `DELAYMQ_FAILPOINT=AppendWritten:3` kills the process when it reaches that point for the third time.
//! `DELAYMQ_PLANTED=AnswerBeforeVisible` plants a fault. `DELAYMQ_CHECKPOINT_FACTS=500` makes it take checkpoints, copy
//! into runs and retire files so often that it reaches the failpoints there. `DELAYMQ_NEXT_FORMAT=1` makes it a build of
//! the made-up next release.

use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use delaymq_core::error::Result;
use delaymq_core::planted::failpoint::{Failpoint, act};
use delaymq_core::planted::{Planted, next_format, plant_everywhere};

use crate::invalid;
use crate::options::Options;

static CHOSEN: OnceLock<(Failpoint, u64)> = OnceLock::new();
static REACHED: AtomicU64 = AtomicU64::new(0);

/// Changes the options of a store as the environment says.
/// Fails with `InvalidArgument` for an unknown name.
pub(crate) fn plant(options: &mut Options) -> Result<()> {
    plant_in_process()?;
    if let Some(facts) = read("DELAYMQ_CHECKPOINT_FACTS") {
        options.owner.checkpoint_facts = parse("DELAYMQ_CHECKPOINT_FACTS", &facts)?;
        options.owner.copy_after_ms = 0;
        options.owner.keep_finished_ms = 0;
    }
    Ok(())
}

/// Plants what the environment names, in the whole process. A second call changes nothing.
/// Fails with `InvalidArgument` for an unknown name.
pub(crate) fn plant_in_process() -> Result<()> {
    if read("DELAYMQ_NEXT_FORMAT").is_some() {
        next_format::know_everywhere();
    }
    if let Some(wanted) = read("DELAYMQ_FAILPOINT") {
        let (name, count) = wanted.split_once(':').unwrap_or((&wanted, "1"));
        let point =
            Failpoint::named(name).ok_or_else(|| invalid("DELAYMQ_FAILPOINT", "the name of a failpoint", name))?;
        let _again = CHOSEN.set((point, parse("DELAYMQ_FAILPOINT", count)?));
        act(reached);
    }
    if let Some(name) = read("DELAYMQ_PLANTED") {
        let fault =
            Planted::named(&name).ok_or_else(|| invalid("DELAYMQ_PLANTED", "the name of a fault", name.as_str()))?;
        plant_everywhere(Some(fault));
    }
    Ok(())
}

fn reached(point: Failpoint) {
    let Some((chosen, count)) = CHOSEN.get() else { return };
    if point == *chosen && REACHED.fetch_add(1, Ordering::SeqCst).saturating_add(1) == *count {
        let _ends_here = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

fn read(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn parse<T: FromStr>(argument: &'static str, value: &str) -> Result<T> {
    value.parse().map_err(|_| invalid(argument, "a whole number", value))
}
