//! Writes values that were read: with the product's encoder if there is one, otherwise field by field.

use bytes::BufMut;
use delaymq_core::error::Result;
use delaymq_core::record::Fact;
use delaymq_core::record::adopt::encode_adopt;
use delaymq_core::record::attach::encode_attach;
use delaymq_core::record::command::{encode_cancel, encode_epoch_start, encode_move, encode_void};
use delaymq_core::record::expire::encode_expire;
use delaymq_core::record::message::encode_message;
use delaymq_core::record::name::{
    encode_consumer, encode_consumer_end, encode_group, encode_group_end, encode_group_reset, encode_subject,
};
use delaymq_core::record::queue::{
    NumberRange, Ranges, encode_acknowledge, encode_assign, encode_filtered, encode_pass_over, encode_reserve,
};
use delaymq_core::record::ready::encode_ready;
use delaymq_core::record::recurring::{encode_occurrence, encode_recur};
use delaymq_core::record::retry::{encode_redrive, encode_retry};
use delaymq_core::record::terms::{encode_by_key, encode_terms};
use delaymq_core::wire::qmq::ack::put_ack;
use delaymq_core::wire::qmq::consume_manage::put_consume_manage;
use delaymq_core::wire::qmq::message::{FLAG_TAGS, WireMessage};
use delaymq_core::wire::qmq::pull::put_pull;
use delaymq_core::wire::qmq::register::put_register;
use delaymq_core::wire::request::Request;

/// Appends the body of a request.
///
/// # Errors
/// Those of its encoder; `TooLarge` or `InvalidArgument` for a batch that the store would refuse.
pub fn put_request(out: &mut Vec<u8>, request: &Request<'_>, version: i16) -> Result<()> {
    match request {
        Request::Send(sent) => {
            for one in sent {
                out.put_u64(one.check);
                put_fields(out, &one.message);
            }
            Ok(())
        }
        Request::Pull(pull) => put_pull(out, pull, version),
        Request::Ack(ack) => put_ack(out, ack, version),
        Request::ConsumeManage(manage) => put_consume_manage(out, manage),
        Request::Register(register) => put_register(out, register),
        Request::Own(own) => own.put(out),
        Request::UnknownVersion(_) | Request::Unknown(_) => Ok(()),
    }
}

/// Appends a message of QMQ field by field.
pub fn put_fields(out: &mut Vec<u8>, message: &WireMessage<'_>) {
    let put_text = |out: &mut Vec<u8>, text: &str| {
        out.put_u16(u16::try_from(text.len()).unwrap_or(u16::MAX));
        out.put_slice(text.as_bytes());
    };
    out.put_u8(message.flags);
    out.put_i64(message.created_ms);
    out.put_i64(message.expires_ms);
    put_text(out, message.subject);
    put_text(out, message.message_id);
    if message.flags & FLAG_TAGS != 0 {
        out.put_u8(u8::try_from(message.tags().count()).unwrap_or(u8::MAX));
        for tag in message.tags() {
            put_text(out, tag);
        }
    }
    out.put_u32(u32::try_from(message.body.len()).unwrap_or(u32::MAX));
    out.put_slice(message.body);
}

fn listed(ranges: &Ranges<'_>) -> Vec<NumberRange> {
    ranges.iter().collect()
}

/// Appends the record of a fact, not yet sealed.
pub fn put_fact(out: &mut Vec<u8>, fact: &Fact<'_>) {
    match fact {
        Fact::Message(message) => encode_message(out, message),
        Fact::Cancel(cancel) => encode_cancel(out, *cancel),
        Fact::Move(moved) => encode_move(out, moved),
        Fact::Ready(list) => encode_ready(out, list.entries().collect::<Vec<_>>().into_iter()),
        Fact::Subject { number, name } => encode_subject(out, *number, name),
        Fact::Group { subject, start, name } => encode_group(out, *subject, *start, name),
        Fact::GroupEnd { group, end } => encode_group_end(out, *group, *end),
        Fact::GroupReset { group, start } => encode_group_reset(out, *group, *start),
        Fact::Consumer { group, name } => encode_consumer(out, *group, name),
        Fact::ConsumerEnd { group, consumer } => encode_consumer_end(out, *group, *consumer),
        Fact::Attach(attach) => encode_attach(out, attach),
        Fact::Reserve(reserve) => encode_reserve(out, *reserve),
        Fact::Assign(given) => {
            encode_assign(out, given.group, given.consumer, given.first_offset, &listed(&given.numbers));
        }
        Fact::PassOver(one) => encode_pass_over(out, one.group, one.consumer, &listed(&one.numbers)),
        Fact::Acknowledge(done) => {
            let encode = if done.filtered { encode_filtered } else { encode_acknowledge };
            encode(out, done.group, done.consumer, &listed(&done.offsets));
        }
        Fact::Retry(retry) => encode_retry(out, retry),
        Fact::Redrive(redrive) => encode_redrive(out, redrive),
        Fact::Expire(expire) => encode_expire(out, expire.subject, expire.by, &listed(&expire.numbers)),
        Fact::Void(void) => encode_void(out, *void),
        Fact::EpochStart(start) => encode_epoch_start(out, start),
        Fact::Terms(terms) => encode_terms(out, terms.messages, terms.limits, &terms.rows().collect::<Vec<_>>()),
        Fact::ByKey(asked) => encode_by_key(out, asked),
        Fact::Recur(recur) => encode_recur(out, recur),
        Fact::Occurrence(occurrence) => encode_occurrence(out, *occurrence),
        Fact::Adopt(adopt) => encode_adopt(out, adopt.job, &adopt.runs().collect::<Vec<_>>()),
    }
}
