//! `LOAD`: checks and adopts staged runs, on the blocking pool, one load at a time.

use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::wire::extension::load::{LoadAsked, LoadTold};
use delaymq_engine::Loaded;
use tokio::task::spawn_local;

use crate::blocking_pool::Work;
use crate::requests::administration::{filled, tell};
use crate::requests::responder::Responder;

pub(crate) fn load(responder: Responder, asked: LoadAsked<'_>) {
    let state = Rc::clone(responder.state());
    let Some(place) = state.pool.place() else { return responder.busy() };
    let (job, runs) = (asked.job.to_owned(), asked.runs);
    spawn_local(async move {
        let store = Arc::clone(&state.store);
        let done = state.pool.run(Work::Load, move || store.load(&job, &runs).and_then(encoded)).await;
        drop(place);
        tell(responder, done);
    });
}

fn encoded(loaded: Loaded) -> delaymq_core::error::Result<Vec<u8>> {
    let Loaded { base, count, again } = loaded;
    filled(|out| {
        LoadTold { first: base, count, again }.put(out);
        Ok(())
    })
}
