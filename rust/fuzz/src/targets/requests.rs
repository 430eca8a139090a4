//! The bodies of requests, QMQ's and delaymq's own, as the server reads them.

use bytes::Bytes;
use delaymq_core::Error;
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::publish::Publish;
use delaymq_core::wire::extension::request::OwnRequest;
use delaymq_core::wire::extension::terms::TermsAsked;
use delaymq_core::wire::extension::{EXTENSION_VERSION, SUBSCRIBE};
use delaymq_core::wire::frame::{Frame, Header};
use delaymq_core::wire::malformed::Malformed;
use delaymq_core::wire::qmq::send::{Failure, Sent, put_failures, read_failures};
use delaymq_core::wire::request::{Request, is_of_qmq};

use crate::verdict::{Judged, Verdict, holds, same};
use crate::writing::put_request;

/// The versions of QMQ's frames with different bodies, and their neighbours.
const VERSIONS: [i16; 6] = [7, 8, 9, 10, 0, i16::MAX];

/// The answer to malformed bytes can always be written and read.
pub(super) fn refused(malformed: &Malformed) -> Judged {
    let told = RemoteError::from(malformed);
    let mut out = Vec::new();
    told.put(&mut out).map_err(|error| format!("the error cannot be told: {error}"))?;
    let read = RemoteError::read(told.code.number(), &out).map_err(|again| format!("told {told:?}, heard {again}"))?;
    same("the error", &told, &read)?;
    same("the code", &told.code, &ErrorCode::Malformed)?;
    Ok(Verdict::Refused)
}

/// The body of the request with this command. For a QMQ command the first byte chooses the version.
pub(super) fn judge(command: i16, input: &[u8]) -> Judged {
    let (version, body) = match input.split_first() {
        Some((first, rest)) if is_of_qmq(command) => {
            (VERSIONS.get(usize::from(*first) % VERSIONS.len()).copied().unwrap_or_default(), rest)
        }
        _ => (EXTENSION_VERSION, input),
    };
    let frame = framed(command, version, body);
    let request = match Request::read(&frame) {
        Ok(request) => request,
        Err(malformed) => return refused(&malformed),
    };
    let mut out = Vec::new();
    if let Err(error) = put_request(&mut out, &request, version) {
        return unwritable(&request, &error);
    }
    judge_parts(&request)?;
    let again = framed(command, version, &out);
    let reread = Request::read(&again).map_err(|malformed| format!("{request:?} is written, and read: {malformed}"))?;
    if let (Some((first, terms)), Some((second, terms_again))) = (batch_of(&request), batch_of(&reread)) {
        same("receipts", &first.wants_receipts, &second.wants_receipts)?;
        let parts = |batch: &Publish<'_>| -> Vec<_> {
            batch.messages.iter().map(|one| format!("{:?}", (one.subject, one.due, one.meta, one.body))).collect()
        };
        same("messages", &parts(first), &parts(second))?;
        same("terms", terms, terms_again)?;
        holds("what was written has its checks", second.messages.iter().all(|one| one.check().is_ok()))?;
    } else {
        same("the request", &request, &reread)?;
    }
    if has_one_form(command) {
        same("its bytes", body, out.as_slice())?;
    }
    Ok(Verdict::Taken)
}

/// The messages of a batch, and their terms.
fn batch_of<'a>(request: &'a Request<'a>) -> Option<(&'a Publish<'a>, &'a [TermsAsked<'a>])> {
    match request {
        Request::Own(OwnRequest::Publish(batch)) => Some((batch, &[])),
        Request::Own(OwnRequest::PublishOnTerms(batch)) => Some((&batch.publish, &batch.terms)),
        _ => None,
    }
}

fn framed(command: i16, version: i16, body: &[u8]) -> Frame {
    Frame { header: Header::request(command, version, 1), body: Bytes::copy_from_slice(body) }
}

/// True for requests with only one encoding. The others: filters that pass all messages are left out, a batch names
/// each subject once, and of QMQ's commands only SEND keeps all its bytes.
fn has_one_form(command: i16) -> bool {
    use delaymq_core::wire::extension::{PUBLISH, PUBLISH_ON_TERMS};
    use delaymq_core::wire::qmq::send::SEND;
    command == SEND || (!is_of_qmq(command) && !matches!(command, SUBSCRIBE | PUBLISH | PUBLISH_ON_TERMS))
}

/// Only names and batches can be read but not written: the store checks their limits.
fn unwritable(request: &Request<'_>, error: &Error) -> Judged {
    use OwnRequest::{CancelKey, CancelKeys, EndRecurring, Load, LookUpKey, MoveKey, MoveKeys, Recur};
    let is_named = matches!(
        request,
        Request::Own(
            CancelKey(..)
                | CancelKeys(_)
                | LookUpKey(_)
                | MoveKey(..)
                | MoveKeys(_)
                | Recur(_)
                | EndRecurring(_)
                | Load(_)
        )
    );
    let is_limit = matches!(error, Error::TooLarge { .. } | Error::InvalidArgument { .. });
    holds(&format!("{request:?} can be written: {error}"), (is_named || batch_of(request).is_some()) && is_limit)?;
    Ok(Verdict::Taken)
}

fn judge_parts(request: &Request<'_>) -> Result<(), String> {
    match request {
        Request::Send(sent) => sent.iter().try_for_each(judge_sent),
        Request::Pull(pull) => {
            holds("a bounded count", pull.count_max().is_none_or(|count| (1..=10_000).contains(&count)))?;
            holds("a bounded hold", pull.hold_ms().is_none_or(|hold_ms| (1..=300_000).contains(&hold_ms)))?;
            holds("at most 16 filters", pull.filters.len() <= 16)
        }
        Request::Ack(ack) => {
            let is_signed = |offset: u64| i64::try_from(offset).is_ok();
            holds("offsets from 0 on", ack.offsets.is_none_or(|(first, last)| is_signed(first.0) && is_signed(last.0)))
        }
        Request::Own(OwnRequest::Acknowledge(done)) => {
            let ends = |first: u64, count: u64| count > 0 && first.checked_add(count).is_some();
            holds("ranges that end", done.ranges.iter().all(|range| ends(range.first, range.count)))
        }
        _ => Ok(()),
    }
}

/// One message of a SEND is checked alone, and its producer can read its entry in the answer.
fn judge_sent(sent: &Sent<'_>) -> Result<(), String> {
    let judged = sent.judge();
    let message = &sent.message;
    if judged.is_ok() {
        same("the check", &sent.check, &u64::from(crc32fast::hash(message.whole)))?;
        holds("a body that is what the flags say", message.check_body().is_ok())?;
        let all = message.attributes().count();
        same("attributes", &all, &message.attributes().flatten().count())?;
    }
    let Err(failure) = judged else { return Ok(()) };
    holds("a remark that fits", failure.remark.chars().count() <= 512)?;
    let mut out = Vec::new();
    let failures = [failure];
    put_failures(&mut out, &failures).map_err(|error| format!("the failure cannot be told: {error}"))?;
    let read: Vec<Failure> = read_failures(&out).map_err(|malformed| format!("told and not heard: {malformed}"))?;
    same("the failure", failures.as_slice(), read.as_slice())
}
