//! Each request goes to who serves it.

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

use crate::acknowledging;
use crate::administration;
use crate::asking::Asking;
use crate::by_key;
use crate::guard::Verdict;
use crate::loading;
use crate::managing;
use crate::pending;
use crate::publishing;
use crate::pulling;
use crate::recurring;
use crate::settling;
use crate::subscribing;

/// Serves a request, now or later.
pub(crate) fn serve(asking: Asking, asked: Asked) {
    let frame = asked.frame;
    let request = Request::read(&frame);
    if request.as_ref().is_ok_and(Request::is_known) {
        asking.peer().prove();
    } else {
        asking.peer().borrowing.worthless(asking.hub(), frame.bytes());
    }
    match request {
        Err(malformed) => asking.malformed(&malformed),
        Ok(Request::Own(request)) => serve_own(asking, request, frame.body.len()),
        Ok(Request::Send(sent)) => publishing::send(asking, &sent, frame.body.len()),
        Ok(Request::Register(request)) => register(asking, &request),
        Ok(Request::Pull(request)) => pulling::pull(asking, request, frame.header.version),
        Ok(Request::Ack(request)) => acknowledging::acknowledge(asking, &request),
        Ok(Request::ConsumeManage(request)) => managing::manage(asking, &request),
        Ok(Request::Unknown(_)) => asking.code(answer::UNKNOWN_CODE),
        Ok(Request::UnknownVersion(version)) => unknown_version(asking, i64::from(version)),
    }
}

fn serve_own(asking: Asking, request: OwnRequest<'_>, bytes: usize) {
    match request {
        OwnRequest::Hello(hello) => welcome(asking, &hello),
        OwnRequest::Ping(ping) => asking.told(|out| put_ping(out, ping)),
        OwnRequest::Publish(publish) => publishing::publish(asking, &publish, bytes),
        OwnRequest::PublishOnTerms(publish) => publishing::publish_on_terms(asking, &publish, bytes),
        OwnRequest::Cancel(receipts) => administration::cancel(asking, receipts),
        OwnRequest::Move(moves) => administration::move_messages(asking, moves),
        OwnRequest::CancelKey(asked, id) => by_key::cancel(asking, &asked, id),
        OwnRequest::MoveKey(asked, due, id) => by_key::move_message(asking, &asked, due, id),
        OwnRequest::CancelKeys(asked) => by_key::cancel_many(asking, &asked),
        OwnRequest::MoveKeys(asked) => by_key::move_many(asking, &asked),
        OwnRequest::LookUpKey(asked) => by_key::look_up(asking, &asked),
        OwnRequest::Subscribe(subscribe) => subscribing::subscribe(asking, subscribe),
        OwnRequest::Credit(credit) => subscribing::credit(asking, credit),
        OwnRequest::Acknowledge(acknowledge) => settling::acknowledge(asking, &acknowledge),
        OwnRequest::GiveBack(give_back) => settling::give_back(asking, give_back),
        OwnRequest::PutAway(put_away) => settling::put_away(asking, &put_away),
        OwnRequest::Flush(subscription) => settling::flush(asking, subscription),
        OwnRequest::Unsubscribe(subscription) => subscribing::unsubscribe(asking, subscription),
        OwnRequest::Status => administration::status(asking),
        OwnRequest::Groups(listing) => administration::groups(asking, listing),
        OwnRequest::Subjects(listing) => administration::subjects(asking, listing),
        OwnRequest::StartGroup(group) => administration::start_group(asking, &group),
        OwnRequest::ResetGroup(group) => administration::reset_group(asking, &group),
        OwnRequest::RemoveGroup(group) => administration::remove_group(asking, &group),
        OwnRequest::DeadLetters(letters) => administration::dead_letters(asking, &letters),
        OwnRequest::Redrive(redrive) => administration::redrive(asking, &redrive),
        OwnRequest::Expire(expire) => administration::expire(asking, &expire),
        OwnRequest::Consumers(consumers) => administration::consumers(asking, &consumers),
        OwnRequest::EndConsumer(name) => managing::end_consumer(asking, &name),
        OwnRequest::LookUp(receipts) => pending::look_up(asking, receipts),
        OwnRequest::Pending(asked) => pending::pending(asking, &asked),
        OwnRequest::PendingCounts(asked) => pending::counts(asking, &asked),
        OwnRequest::Forecast(asked) => pending::forecast(asking, &asked),
        OwnRequest::Recur(asked) => recurring::recur(asking, &asked),
        OwnRequest::EndRecurring(name) => recurring::end(asking, &name),
        OwnRequest::Recurring(asked) => recurring::listed(asking, &asked),
        OwnRequest::Load(asked) => loading::load(asking, asked),
    }
}

/// Answered without the owner and without the disk, since clients wait for it for half a second.
fn register(asking: Asking, request: &RegisterRequest<'_>) {
    let hub = Rc::clone(asking.hub());
    let answer = hub.registry.borrow_mut().register(request, hub.store.now());
    asking.told(|out| put_registered(out, &answer));
}

fn welcome(asking: Asking, hello: &Hello<'_>) {
    match asking.peer().enter(hello.token) {
        Verdict::Right => {}
        Verdict::Wrong => return asking.refused(&RemoteError::new(ErrorCode::Unauthorized, "the token is wrong")),
        Verdict::Unheard => {
            let words = "too many wrong tokens came from this address; try again later";
            return asking.refused(&RemoteError::new(ErrorCode::Busy, words));
        }
    }
    let Some(version) = hello.version_with(EXTENSION_VERSION, EXTENSION_VERSION) else {
        return unknown_version(asking, i64::from(hello.version_max));
    };
    let hub = Rc::clone(asking.hub());
    let welcome = Welcome {
        version,
        server: hub.options.release.clone(),
        stream: hub.store.stream(),
        frame_bytes_max: FRAME_BYTES_MAX as u32,
        messages_max: BATCH_MESSAGES_MAX as u32,
        body_bytes_max: BODY_BYTES_MAX as u32,
        in_flight_max: IN_FLIGHT_MAX,
        now: hub.store.now(),
        delay_ms_max: hub.store.delay_ms_max(),
    };
    asking.told(|out| welcome.put(out));
}

fn unknown_version(asking: Asking, found: i64) {
    let error = RemoteError::new(ErrorCode::UnknownVersion, "the server speaks version 1 alone");
    let error = error.with(Attribute::Expected, EXTENSION_VERSION.to_string().as_str());
    asking.refused(&error.with(Attribute::Found, found.to_string().as_str()));
}
