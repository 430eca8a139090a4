//! `LOAD`: what was staged in the store's folder is checked and adopted, on a thread of the pool, one load after the
//! other.

use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::wire::extension::load::{LoadAsked, LoadTold};
use delaymq_engine::Loaded;
use tokio::task::spawn_local;

use crate::administration::{filled, tell};
use crate::asking::Asking;
use crate::pool::Work;

pub(crate) fn load(asking: Asking, asked: LoadAsked<'_>) {
    let hub = Rc::clone(asking.hub());
    let Some(place) = hub.pool.place() else { return asking.busy() };
    let (job, runs) = (asked.job.to_owned(), asked.runs);
    spawn_local(async move {
        let store = Arc::clone(&hub.store);
        let done = hub.pool.run(Work::Load, move || store.load(&job, &runs).and_then(told)).await;
        drop(place);
        tell(asking, done);
    });
}

fn told(loaded: Loaded) -> delaymq_core::error::Result<Vec<u8>> {
    let Loaded { base, count, again } = loaded;
    filled(|out| {
        LoadTold { first: base, count, again }.put(out);
        Ok(())
    })
}
