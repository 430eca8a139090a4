//! CLOCK and `ACCEPT_CLOCK`: an operator looks at the clock, and accepts the step that holds dispatch.

use delaymq_core::wire::extension::clock::ClockTold;

use crate::requests::administration::{ask, filled, look};
use crate::requests::responder::Responder;

pub(crate) fn report(responder: Responder) {
    look(responder, |store| {
        let told = ClockTold(store.clock()?);
        filled(|out| {
            told.put(out);
            Ok(())
        })
    });
}

pub(crate) fn accept(responder: Responder, ahead_ms: u64) {
    ask(responder, move |store| Ok(store.accept_clock(ahead_ms)?.to_be_bytes().to_vec()));
}
