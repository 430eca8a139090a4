//! Dispatch: calls the handler of each request, or the engine itself where that is all.

use std::rc::Rc;

use delaymq_core::wire::connection::Asked;
use delaymq_core::wire::extension::EXTENSION_VERSION;
use delaymq_core::wire::extension::consume::IN_FLIGHT_MAX;
use delaymq_core::wire::extension::errors::{Attribute, ErrorCode, RemoteError};
use delaymq_core::wire::extension::hello::{Hello, Welcome, put_ping};
use delaymq_core::wire::extension::request::OwnRequest;
use delaymq_core::wire::frame::{FRAME_BYTES_MAX, answer};
use delaymq_core::wire::qmq::register::{RegisterRequest, put_registered};
use delaymq_core::wire::request::Request;
use delaymq_engine::{BATCH_MESSAGES_MAX, BODY_BYTES_MAX};

use crate::qmq::acknowledgement;
use crate::qmq::pull;
use crate::requests::administration;
use crate::requests::administration::{ask, number};
use crate::requests::by_key;
use crate::requests::clock;
use crate::requests::consumer_management;
use crate::requests::loads;
use crate::requests::pending;
use crate::requests::publish;
use crate::requests::recurring;
use crate::requests::responder::Responder;
use crate::subscriptions::settlement;
use crate::subscriptions::subscribe;

/// Serves a request, now or later.
pub(crate) fn serve(responder: Responder, asked: Asked) {
    let frame = asked.frame;
    let request = Request::read(&frame);
    if request.as_ref().is_ok_and(Request::is_known) {
        responder.peer().prove();
    } else {
        responder.peer().worthless(frame.bytes());
    }
    match request {
        Err(malformed) => responder.malformed(&malformed),
        Ok(Request::Own(request)) => serve_own(responder, request, frame.body.len()),
        Ok(Request::Send(sent)) => publish::send(responder, &sent, frame.body.len()),
        Ok(Request::Register(request)) => register(responder, &request),
        Ok(Request::Pull(request)) => pull::pull(responder, request, frame.header.version),
        Ok(Request::Ack(request)) => acknowledgement::acknowledge(responder, &request),
        Ok(Request::ConsumeManage(request)) => consumer_management::manage(responder, &request),
        Ok(Request::Unknown(_)) => responder.code(answer::UNKNOWN_CODE),
        Ok(Request::UnknownVersion(version)) => unknown_version(responder, i64::from(version)),
    }
}

fn serve_own(responder: Responder, request: OwnRequest<'_>, bytes: usize) {
    match request {
        OwnRequest::Hello(hello) => welcome(responder, &hello),
        OwnRequest::Ping(ping) => responder.answer_with(|out| put_ping(out, ping)),
        OwnRequest::Publish(publish) => publish::publish(responder, &publish, bytes),
        OwnRequest::PublishOnTerms(publish) => publish::publish_on_terms(responder, &publish, bytes),
        OwnRequest::Cancel(receipts) => administration::cancel(responder, receipts),
        OwnRequest::Move(moves) => administration::move_messages(responder, moves),
        OwnRequest::CancelKey(asked, id) => by_key::cancel(responder, &asked, id),
        OwnRequest::MoveKey(asked, due, id) => by_key::move_message(responder, &asked, due, id),
        OwnRequest::CancelKeys(asked) => by_key::cancel_many(responder, &asked),
        OwnRequest::MoveKeys(asked) => by_key::move_many(responder, &asked),
        OwnRequest::LookUpKey(asked) => by_key::look_up(responder, &asked),
        OwnRequest::Subscribe(subscribe) => subscribe::subscribe(responder, subscribe),
        OwnRequest::Credit(credit) => subscribe::credit(responder, credit),
        OwnRequest::Acknowledge(acknowledge) => settlement::acknowledge(responder, &acknowledge),
        OwnRequest::GiveBack(give_back) => settlement::give_back(responder, give_back),
        OwnRequest::PutAway(put_away) => settlement::put_away(responder, &put_away),
        OwnRequest::Flush(subscription) => settlement::flush(responder, subscription),
        OwnRequest::Unsubscribe(subscription) => subscribe::unsubscribe(responder, subscription),
        OwnRequest::Status => administration::status(responder),
        OwnRequest::Groups(listing) => administration::groups(responder, listing),
        OwnRequest::Subjects(listing) => administration::subjects(responder, listing),
        OwnRequest::StartGroup(group) => administration::start_group(responder, &group),
        OwnRequest::ResetGroup(group) => administration::reset_group(responder, &group),
        OwnRequest::RemoveGroup(group) => administration::remove_group(responder, &group),
        OwnRequest::DeadLetters(letters) => administration::dead_letters(responder, &letters),
        OwnRequest::Redrive(redrive) => administration::redrive(responder, &redrive),
        OwnRequest::Expire(expire) => administration::expire(responder, &expire),
        OwnRequest::Consumers(consumers) => administration::consumers(responder, &consumers),
        OwnRequest::EndConsumer(name) => consumer_management::end_consumer(responder, &name),
        OwnRequest::Clock => clock::report(responder),
        OwnRequest::AcceptClock(ahead_ms) => ask(responder, move |store| store.accept_clock(ahead_ms).map(number)),
        OwnRequest::LookUp(receipts) => pending::look_up(responder, receipts),
        OwnRequest::Pending(asked) => pending::pending(responder, &asked),
        OwnRequest::PendingCounts(asked) => pending::counts(responder, &asked),
        OwnRequest::Forecast(asked) => pending::forecast(responder, &asked),
        OwnRequest::Recur(asked) => recurring::recur(responder, &asked),
        OwnRequest::EndRecurring(name) => recurring::end(responder, &name),
        OwnRequest::Recurring(asked) => recurring::listed(responder, &asked),
        OwnRequest::Load(asked) => loads::load(responder, asked),
    }
}

/// Answered without the owner and without the disk, since clients wait half a second only.
fn register(responder: Responder, request: &RegisterRequest<'_>) {
    let state = Rc::clone(responder.state());
    let answer = state.registry.borrow_mut().register(request, state.store.now());
    responder.answer_with(|out| put_registered(out, &answer));
}

fn welcome(responder: Responder, hello: &Hello<'_>) {
    if let Some(refusal) = responder.peer().enter(hello.token).refusal() {
        return responder.refused(&refusal);
    }
    let Some(version) = hello.version_with(EXTENSION_VERSION, EXTENSION_VERSION) else {
        return unknown_version(responder, i64::from(hello.version_max));
    };
    let state = Rc::clone(responder.state());
    let welcome = Welcome {
        version,
        server: state.options.release.clone(),
        stream: state.store.stream(),
        frame_bytes_max: FRAME_BYTES_MAX as u32,
        messages_max: BATCH_MESSAGES_MAX as u32,
        body_bytes_max: BODY_BYTES_MAX as u32,
        in_flight_max: IN_FLIGHT_MAX,
        now: state.store.now(),
        delay_ms_max: state.store.delay_ms_max(),
    };
    responder.answer_with(|out| welcome.put(out));
}

fn unknown_version(responder: Responder, found: i64) {
    let error = RemoteError::new(ErrorCode::UnknownVersion, "the server speaks version 1 alone");
    let error = error.with(Attribute::Expected, EXTENSION_VERSION.to_string().as_str());
    responder.refused(&error.with(Attribute::Found, found.to_string().as_str()));
}
