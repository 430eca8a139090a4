//! Commands by key: `CANCEL_KEY`, `MOVE_KEY`, `LOOK_UP_KEY`, `CANCEL_KEYS` and `MOVE_KEYS`.

use delaymq_core::error::Error;
use delaymq_core::record::limits::check_name;
use delaymq_core::wire::extension::by_key::{CancelKeys, MoveKeys};
use delaymq_core::wire::extension::errors::{Attribute, RemoteError};
use delaymq_core::wire::extension::key_fate::KeyFate;
use delaymq_core::wire::extension::moves::put_moved;
use delaymq_core::wire::extension::publish::{DueTime, put_outcomes};
use delaymq_core::wire::extension::terms::KeyAsked;
use delaymq_engine::{Due, LookedUpKey};

use crate::requests::administration::{ask, cancelled, filled, look, moved};
use crate::requests::publish::due_of;
use crate::requests::responder::Responder;

pub(crate) fn cancel(responder: Responder, asked: &KeyAsked<'_>, id: Option<&str>) {
    let (subject, key, id) = (asked.subject.to_owned(), asked.key.to_owned(), id.map(str::to_owned));
    ask(responder, move |store| {
        let told = cancelled(store.cancel_key(&subject, &key, id.as_deref())?);
        filled(|out| put_outcomes(out, &[told]))
    });
}

pub(crate) fn move_message(responder: Responder, asked: &KeyAsked<'_>, due: DueTime, id: Option<&str>) {
    let (subject, key, due) = (asked.subject.to_owned(), asked.key.to_owned(), due_of(due));
    let id = id.map(str::to_owned);
    ask(responder, move |store| {
        let told = moved(store.move_key(&subject, &key, due, id.as_deref())?);
        filled(|out| put_moved(out, &[told]))
    });
}

pub(crate) fn cancel_many(responder: Responder, asked: &CancelKeys<'_>) {
    let (subject, id) = (asked.subject.to_owned(), asked.id.map(str::to_owned));
    let keys: Vec<String> = asked.keys.iter().map(|key| (*key).to_owned()).collect();
    for (index, key) in keys.iter().enumerate() {
        if let Err(error) = check_name("key", key) {
            return responder.refused(&at(&error, index));
        }
    }
    ask(responder, move |store| {
        let told: Vec<_> = store.cancel_keys(&subject, &keys, id.as_deref())?.into_iter().map(cancelled).collect();
        filled(|out| put_outcomes(out, &told))
    });
}

pub(crate) fn move_many(responder: Responder, asked: &MoveKeys<'_>) {
    let (subject, id) = (asked.subject.to_owned(), asked.id.map(str::to_owned));
    let moves: Vec<(String, Due)> = asked.moves.iter().map(|(key, due)| ((*key).to_owned(), due_of(*due))).collect();
    for (index, (key, due)) in moves.iter().enumerate() {
        if let Err(error) = check_name("key", key).and_then(|()| responder.state().store.check_due(*due)) {
            return responder.refused(&at(&error, index));
        }
    }
    ask(responder, move |store| {
        let told: Vec<_> = store.move_keys(&subject, &moves, id.as_deref())?.into_iter().map(moved).collect();
        filled(|out| put_moved(out, &told))
    });
}

/// The error of the key at this place.
fn at(error: &Error, index: usize) -> RemoteError {
    RemoteError::from(error).with(Attribute::Index, index as u64)
}

pub(crate) fn look_up(responder: Responder, asked: &KeyAsked<'_>) {
    let (subject, key) = (asked.subject.to_owned(), asked.key.to_owned());
    look(responder, move |store| {
        let told = match store.look_up_key(&subject, &key)? {
            LookedUpKey::Pending(receipt) => KeyFate::Pending(receipt),
            LookedUpKey::Dispatched(receipt) => KeyFate::Dispatched(receipt),
            LookedUpKey::NotFound => KeyFate::NotFound,
        };
        filled(|out| {
            told.put(out);
            Ok(())
        })
    });
}
