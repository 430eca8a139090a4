//! `LOAD`: checks and adopts staged runs, on the blocking pool, one load at a time.

use delaymq_core::wire::extension::load::{LoadAsked, LoadTold};
use delaymq_engine::Loaded;

use crate::blocking_pool::Work;
use crate::requests::administration::{filled, run};
use crate::requests::responder::Responder;

pub(crate) fn load(responder: Responder, asked: LoadAsked<'_>) {
    let (job, runs) = (asked.job.to_owned(), asked.runs);
    run(responder, Work::Load, move |store| {
        let Loaded { base, count, again } = store.load(&job, &runs)?;
        filled(|out| {
            LoadTold { first: base, count, again }.put(out);
            Ok(())
        })
    });
}
