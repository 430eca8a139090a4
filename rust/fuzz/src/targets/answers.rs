//! The bodies of answers and of deliveries, as a client reads them.

use delaymq_core::store::{ConsumerListed, GroupListed, SubjectListed};
use delaymq_core::wire::extension::administration::{Listed, read_number};
use delaymq_core::wire::extension::clock::ClockTold;
use delaymq_core::wire::extension::consume::{Deliver, Subscribed, put_deliver};
use delaymq_core::wire::extension::dead_letters::Letters;
use delaymq_core::wire::extension::errors::RemoteError;
use delaymq_core::wire::extension::forecast::ForecastTold;
use delaymq_core::wire::extension::hello::Welcome;
use delaymq_core::wire::extension::key_fate::KeyFate;
use delaymq_core::wire::extension::load::LoadTold;
use delaymq_core::wire::extension::moves::{put_moved, read_moved};
use delaymq_core::wire::extension::pending::{CountsTold, PendingTold, put_fates, read_fates};
use delaymq_core::wire::extension::publish::{put_outcomes, put_receipts, read_outcomes, read_receipts};
use delaymq_core::wire::extension::recurring::SeriesTold;
use delaymq_core::wire::extension::status::StatusTold;
use delaymq_core::wire::malformed::Read;
use delaymq_core::wire::qmq::message::WireMessage;
use delaymq_core::wire::qmq::pull::{put_pulled, read_pulled};
use delaymq_core::wire::qmq::register::{put_registered, read_registered};
use delaymq_core::wire::qmq::send::{put_failures, read_failures};
use delaymq_core::wire::reader::Reader;

use super::requests::refused;
use crate::verdict::{Judged, Verdict, holds, same, unexpected};
use crate::writing::put_fields;

/// Reads, writes and reads again. `one form`: the bytes must be the same as well.
macro_rules! read_back {
    ($input:expr, $read:expr, $put:expr, $has_one_form:expr) => {{
        match $read($input) {
            Err(malformed) => refused(&malformed),
            Ok(value) => {
                let mut out = Vec::new();
                $put(&value, &mut out).map_err(unexpected("what was read cannot be written"))?;
                let again = $read(&out).map_err(|malformed| format!("{value:?} is written, and read: {malformed}"))?;
                same("the answer", &value, &again)?;
                if $has_one_form {
                    same("its bytes", $input, out.as_slice())?;
                }
                Ok(Verdict::Taken)
            }
        }
    }};
}

pub(super) fn judge_welcome(input: &[u8]) -> Judged {
    read_back!(input, Welcome::read, |told: &Welcome, out: &mut Vec<u8>| told.put(out), true)
}

pub(super) fn judge_receipts(input: &[u8]) -> Judged {
    fn whole(body: &[u8]) -> Read<Vec<delaymq_core::store::Receipt>> {
        let mut reader = Reader::new(body);
        let receipts = read_receipts(&mut reader)?;
        reader.finish("receipts").map(|()| receipts)
    }
    read_back!(
        input,
        whole,
        |told: &Vec<delaymq_core::store::Receipt>, out: &mut Vec<u8>| put_receipts(out, told.iter().copied()),
        true
    )
}

pub(super) fn judge_outcomes(input: &[u8]) -> Judged {
    read_back!(input, read_outcomes, |told: &Vec<_>, out: &mut Vec<u8>| put_outcomes(out, told), true)
}

pub(super) fn judge_moved(input: &[u8]) -> Judged {
    read_back!(input, read_moved, |told: &Vec<_>, out: &mut Vec<u8>| put_moved(out, told), true)
}

pub(super) fn judge_fates(input: &[u8]) -> Judged {
    read_back!(input, read_fates, |told: &Vec<_>, out: &mut Vec<u8>| put_fates(out, told), true)
}

pub(super) fn judge_key_fate(input: &[u8]) -> Judged {
    read_back!(
        input,
        KeyFate::read,
        |told: &KeyFate, out: &mut Vec<u8>| -> delaymq_core::error::Result<()> {
            told.put(out);
            Ok(())
        },
        true
    )
}

pub(super) fn judge_pending(input: &[u8]) -> Judged {
    read_back!(input, PendingTold::read, |told: &PendingTold<'_>, out: &mut Vec<u8>| told.put(out), false)
}

pub(super) fn judge_pending_counts(input: &[u8]) -> Judged {
    read_back!(input, CountsTold::read, |told: &CountsTold<'_>, out: &mut Vec<u8>| told.put(out), true)
}

pub(super) fn judge_forecast(input: &[u8]) -> Judged {
    read_back!(input, ForecastTold::read, |told: &ForecastTold, out: &mut Vec<u8>| told.put(out), true)
}

pub(super) fn judge_recurring(input: &[u8]) -> Judged {
    read_back!(input, SeriesTold::read, |told: &SeriesTold<'_>, out: &mut Vec<u8>| told.put(out), true)
}

pub(super) fn judge_load(input: &[u8]) -> Judged {
    read_back!(
        input,
        LoadTold::read,
        |told: &LoadTold, out: &mut Vec<u8>| -> delaymq_core::error::Result<()> {
            told.put(out);
            Ok(())
        },
        true
    )
}

pub(super) fn judge_subscribed(input: &[u8]) -> Judged {
    read_back!(input, Subscribed::read, |told: &Subscribed, out: &mut Vec<u8>| told.put(out), true)
}

pub(super) fn judge_deliver(input: &[u8]) -> Judged {
    let judged = read_back!(
        input,
        Deliver::read,
        |told: &Deliver<'_>, out: &mut Vec<u8>| {
            put_deliver(out, told.subscription, told.now, told.messages.len())?;
            told.messages.iter().try_for_each(|message| message.put(out))
        },
        true
    )?;
    for message in Deliver::read(input).into_iter().flat_map(|told| told.messages) {
        let (meta, body) = message.parts();
        same("meta and body", message.payload, &[meta, body].concat())?;
        same("whole", &message.is_whole(), &(crc32fast::hash(message.payload) == message.check))?;
    }
    Ok(judged)
}

pub(super) fn judge_status(input: &[u8]) -> Judged {
    // A reason in an answer that is not poisoned is ignored.
    read_back!(input, StatusTold::read, |told: &StatusTold, out: &mut Vec<u8>| told.put(out), false)
}

pub(super) fn judge_clock(input: &[u8]) -> Judged {
    // Bits of a later release, and bits of a hold where there is none, are ignored.
    let put = |told: &ClockTold, out: &mut Vec<u8>| {
        told.put(out);
        Ok(())
    };
    read_back!(input, ClockTold::read, put, false)
}

pub(super) fn judge_groups(input: &[u8]) -> Judged {
    read_back!(input, Listed::<GroupListed>::read, |told: &Listed<GroupListed>, out: &mut Vec<u8>| told.put(out), true)
}

pub(super) fn judge_subjects(input: &[u8]) -> Judged {
    read_back!(
        input,
        Listed::<SubjectListed>::read,
        |told: &Listed<SubjectListed>, out: &mut Vec<u8>| told.put(out),
        true
    )
}

pub(super) fn judge_consumers(input: &[u8]) -> Judged {
    // Bits of a later release are ignored.
    read_back!(
        input,
        Listed::<ConsumerListed>::read,
        |told: &Listed<ConsumerListed>, out: &mut Vec<u8>| told.put(out),
        false
    )
}

pub(super) fn judge_letters(input: &[u8]) -> Judged {
    // A payload or damage without its bit is ignored.
    read_back!(input, Letters::read, |told: &Letters<'_>, out: &mut Vec<u8>| told.put(out), false)
}

pub(super) fn judge_number(input: &[u8]) -> Judged {
    let put = |told: &u64, out: &mut Vec<u8>| {
        out.extend_from_slice(&told.to_be_bytes());
        Ok(())
    };
    read_back!(input, read_number, put, true)
}

/// The first two bytes are the code of the answer.
pub(super) fn judge_error(input: &[u8]) -> Judged {
    let Some((code, body)) = input.split_first_chunk::<2>() else { return Ok(Verdict::Refused) };
    let told = match RemoteError::read(i16::from_be_bytes(*code), body) {
        Ok(told) => told,
        Err(malformed) => return refused(&malformed),
    };
    let mut out = Vec::new();
    told.put(&mut out).map_err(unexpected("an error that was heard cannot be told"))?;
    let again = RemoteError::read(told.code.number(), &out).map_err(|malformed| format!("{told:?}: {malformed}"))?;
    same("the error", &told, &again)?;
    Ok(Verdict::Taken)
}

/// One message of QMQ.
pub(super) fn judge_message(input: &[u8]) -> Judged {
    let message = match WireMessage::read_whole(input) {
        Ok(message) => message,
        Err(malformed) => return refused(&malformed),
    };
    let mut out = Vec::new();
    put_fields(&mut out, &message);
    same("its bytes", input, out.as_slice())?;
    same("all of it", input, message.whole)?;
    if let Ok(opaque) = message.opaque_body() {
        let mut body = Vec::new();
        let attributes: Vec<(&str, &[u8])> = opaque.attributes().collect();
        delaymq_core::wire::qmq::message::put_opaque_body(&mut body, &attributes, opaque.bytes)
            .map_err(unexpected("an opaque body"))?;
        same("its opaque body", message.body, body.as_slice())?;
    } else if message.check_body().is_ok() {
        let mut body = Vec::new();
        for (key, value) in message.attributes().flatten() {
            delaymq_core::wire::qmq::message::put_attribute(&mut body, key, value)
                .map_err(unexpected("an attribute"))?;
        }
        same("its attributes", message.body, body.as_slice())?;
    }
    for version in [7, 8, 9] {
        let mut out = Vec::new();
        message.put_for(&mut out, version);
        let taken_out = if version < 8 { message.whole.len().saturating_sub(out.len()) } else { 0 };
        same("bytes of all but the tags", &message.whole.len(), &out.len().saturating_add(taken_out))?;
        holds("the body stands last", out.ends_with(message.body))?;
    }
    Ok(Verdict::Taken)
}

pub(super) fn judge_pulled(input: &[u8]) -> Judged {
    let (first, messages) = match read_pulled(input) {
        Ok(pulled) => pulled,
        Err(malformed) => return refused(&malformed),
    };
    let mut out = Vec::new();
    put_pulled(&mut out, first);
    for message in &messages {
        message.put_for(&mut out, 9);
    }
    let again = read_pulled(&out).map_err(|malformed| format!("written, and read: {malformed}"))?;
    same("the messages", &(first, messages), &again)?;
    Ok(Verdict::Taken)
}

pub(super) fn judge_failures(input: &[u8]) -> Judged {
    read_back!(input, read_failures, |told: &Vec<_>, out: &mut Vec<u8>| put_failures(out, told), true)
}

pub(super) fn judge_registered(input: &[u8]) -> Judged {
    read_back!(input, read_registered, |told: &_, out: &mut Vec<u8>| put_registered(out, told), true)
}
