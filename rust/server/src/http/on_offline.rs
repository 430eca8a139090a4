//! `/onoffline`: whether a QMQ consumer is switched on. Any client may ask, an administrator may change it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::rc::Rc;

use delaymq_core::error::Result;
use delaymq_core::wire::http::HttpRequest;
use delaymq_core::wire::quota::notices::NoticeKind;

use crate::blocking_pool::{Pool, Work};
use crate::http::administrator;
use crate::http::page::{JSON, Page};
use crate::http::switched_off;
use crate::server_state::ServerState;

fn json(status: u16, code: i32, message: &str) -> Page {
    let mut body = format!("{{\"status\":{code},\"message\":\"");
    for letter in message.chars() {
        match letter {
            '"' | '\\' => body.extend(['\\', letter]),
            // Writing to a string does not fail.
            _ if letter.is_control() => drop(write!(body, "\\u{:04x}", u32::from(letter))),
            _ => body.push(letter),
        }
    }
    body.push_str("\",\"data\":null}");
    Page { status, kind: JSON, body }
}

const fn word(is_off: bool) -> &'static str {
    if is_off { "OFF" } else { "ON" }
}

/// Answers a request.
pub(crate) async fn on_offline(state: &Rc<ServerState>, request: &HttpRequest<'_>, address: IpAddr) -> Page {
    let parameter = |name: &str| request.parameter(name).filter(|value| !value.is_empty());
    let operation = parameter("operation");
    let is_update = match operation.as_deref() {
        Some("query") => false,
        Some("update") => true,
        _ => return json(400, -1, "operation must be query or update"),
    };
    if let Some(refused) = is_update.then(|| refused(state, request, address)).flatten() {
        return refused;
    }
    let (Some(client_id), Some(subject), Some(group)) =
        (parameter("clientId"), parameter("subject"), parameter("consumerGroup"))
    else {
        return json(400, -1, "clientId, subject and consumerGroup must be given");
    };
    let names = Names { client_id, subject, group };
    match (is_update, parameter("state").as_deref()) {
        (false, _) => {
            let is_off = state.registry.borrow().is_switched_off(&names.client_id, &names.subject, &names.group);
            json(200, 0, word(is_off))
        }
        (true, Some("0")) => switch(state, &names, true, address).await,
        (true, Some("1")) => switch(state, &names, false, address).await,
        (true, _) => json(400, -1, "state must be 0 for on or 1 for off"),
    }
}

/// Why the client may not change anything.
fn refused(state: &ServerState, request: &HttpRequest<'_>, address: IpAddr) -> Option<Page> {
    let refusal = administrator::refusal(&state.entrance.access, request, address, state.now());
    refusal.map(|(status, words)| json(status, -1, words))
}

struct Names<'a> {
    client_id: Cow<'a, str>,
    subject: Cow<'a, str>,
    group: Cow<'a, str>,
}

/// Answers when the change is durable. If it cannot be made durable, nothing has changed.
async fn switch(state: &Rc<ServerState>, names: &Names<'_>, on: bool, address: IpAddr) -> Page {
    let _turn = state.switching.lock().await;
    let change = |on| state.registry.borrow_mut().switch(&names.client_id, &names.subject, &names.group, on);
    match change(on) {
        Err(error) => return json(400, -1, &error.to_string()),
        Ok(false) => return json(200, 0, word(!on)),
        Ok(true) => {}
    }
    if let Err(words) = keep(state).await {
        // It was just changed, so it can be changed back.
        drop(change(!on));
        return json(503, -1, &words);
    }
    let names = format!("{} {} {} {}", word(!on), names.client_id, names.subject, names.group);
    state.entrance.access.note(NoticeKind::Switched, address, &names);
    json(200, 0, word(!on))
}

async fn keep(state: &Rc<ServerState>) -> std::result::Result<(), String> {
    let Some(path) = state.options.switched_off.clone() else { return Ok(()) };
    let keys = state.registry.borrow().switched_off().clone();
    let place = state.pool.place().ok_or("too much is under way")?;
    let written: Option<Result<()>> = Pool::ask(place, Work::Request, move || switched_off::write(&path, &keys)).await;
    written.ok_or("the server failed while it wrote")?.map_err(|error| error.to_string())
}
