//! `CANCEL_KEY`, `MOVE_KEY` and `LOOK_UP_KEY`: what is asked of the pending message that has a key.

use delaymq_core::wire::extension::moves::put_moved;
use delaymq_core::wire::extension::publish::{DueTime, put_outcomes, put_receipts};
use delaymq_core::wire::extension::terms::KeyAsked;

use crate::administration::{ask, cancelled, due_of, filled, look, moved};
use crate::asking::Asking;

pub(crate) fn cancel(asking: Asking, asked: &KeyAsked<'_>, id: Option<&str>) {
    let (subject, key, id) = (asked.subject.to_owned(), asked.key.to_owned(), id.map(str::to_owned));
    ask(asking, move |store| {
        let told = cancelled(store.cancel_key(&subject, &key, id.as_deref())?);
        filled(|out| put_outcomes(out, &[told]))
    });
}

pub(crate) fn move_message(asking: Asking, asked: &KeyAsked<'_>, due: DueTime, id: Option<&str>) {
    let (subject, key, due) = (asked.subject.to_owned(), asked.key.to_owned(), due_of(due));
    let id = id.map(str::to_owned);
    ask(asking, move |store| {
        let told = moved(store.move_key(&subject, &key, due, id.as_deref())?);
        filled(|out| put_moved(out, &[told]))
    });
}

pub(crate) fn look_up(asking: Asking, asked: &KeyAsked<'_>) {
    let (subject, key) = (asked.subject.to_owned(), asked.key.to_owned());
    look(asking, move |store| {
        let found = store.look_up_key(&subject, &key)?;
        filled(|out| put_receipts(out, found.as_slice().iter().copied()))
    });
}
