//! CLOCK: an operator looks at the clock.

use delaymq_core::wire::extension::clock::ClockTold;

use crate::requests::administration::{filled, look};
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
