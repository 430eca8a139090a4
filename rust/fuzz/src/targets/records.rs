//! Records, and the facts in them.

use delaymq_core::record::header::{
    RECORD_BYTES_MAX, RECORD_HEADER_BYTES, read_any_record, read_record, sequence_mark,
};
use delaymq_core::record::limits::check_meta;
use delaymq_core::record::message::{decode_meta, encode_meta};
use delaymq_core::record::meta::MetaView;
use delaymq_core::record::{Fact, KINDS, decode, encode_record, seal_record};
use delaymq_core::store::Receipt;
use delaymq_core::units::{Sequence, padded};

use crate::verdict::{Judged, Verdict, holds, same};
use crate::writing::put_fact;

/// Kind, flags, the length of the fixed part, a sequence of 8 bytes; then the fixed part and the payload of a
/// record, whose checks are computed.
pub(super) fn judge(input: &[u8]) -> Judged {
    let Some(([kind, flags, fixed_length], rest)) = input.split_first_chunk::<3>() else { return Ok(Verdict::Refused) };
    let Some((sequence, rest)) = rest.split_first_chunk::<8>() else { return Ok(Verdict::Refused) };
    let (fixed, payload) = rest.split_at_checked(usize::from(*fixed_length)).unwrap_or((rest, &[]));
    let kind = KINDS.get(usize::from(*kind) % KINDS.len()).copied().unwrap_or(*kind);
    let sequence = Sequence(u64::from_le_bytes(*sequence));
    let mut bytes = Vec::new();
    encode_record(&mut bytes, kind, *flags, fixed, &[payload]);
    seal_record(&mut bytes, sequence).ok_or("too short to be sealed")?;
    let record = read_record(&bytes, sequence).map_err(|fault| format!("sealed, and {fault:?}"))?;
    holds("its payload is whole", record.payload_is_whole())?;
    same("fixed part and payload", &(fixed, payload), &(record.fixed, record.payload))?;
    let Some(fact) = decode(&record) else { return Ok(Verdict::Refused) };
    let written = written_again(&fact, sequence)?;
    let again = read_record(&written, sequence).map_err(|fault| format!("written, and {fault:?}"))?;
    let second = decode(&again).ok_or("written, and not decoded")?;
    match (&fact, &second) {
        (Fact::Ready(first), Fact::Ready(second)) => {
            same("entries", &first.entries().collect::<Vec<_>>(), &second.entries().collect::<Vec<_>>())?;
        }
        _ => same("the fact", &format!("{fact:?}"), &format!("{second:?}"))?,
    }
    same("its bytes", &written, &written_again(&second, sequence)?)?;
    Ok(Verdict::Taken)
}

fn written_again(fact: &Fact<'_>, sequence: Sequence) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    put_fact(&mut out, fact);
    let (taken, _) = seal_record(&mut out, sequence).ok_or("too short to be sealed")?;
    same("its length", &taken, &out.len())?;
    Ok(out)
}

/// A sequence of 8 bytes, then bytes that may be a record.
pub(super) fn judge_bytes(input: &[u8]) -> Judged {
    let Some((sequence, bytes)) = input.split_first_chunk::<8>() else { return Ok(Verdict::Refused) };
    let sequence = Sequence(u64::from_le_bytes(*sequence));
    if let Some(found) = read_any_record(bytes, sequence) {
        let proven = read_record(bytes, found.sequence).map_err(|fault| format!("proved, and {fault:?}"))?;
        same("the half of the sequence", &(found.sequence.0 >> 32), &(sequence.0 >> 32))?;
        same("the payload", found.payload, proven.payload)?;
    }
    let Ok(record) = read_record(bytes, sequence) else { return Ok(Verdict::Refused) };
    let length = record.header.length.get() as usize;
    holds("a length that is there", length <= bytes.len() && length <= RECORD_BYTES_MAX)?;
    same(
        "its parts",
        &length,
        &record.fixed.len().saturating_add(record.payload.len()).saturating_add(RECORD_HEADER_BYTES),
    )?;
    let head = bytes.get(..12).unwrap_or_default();
    let check = crc32fast::hash(&[head, record.fixed].concat()) ^ sequence_mark(sequence);
    same("its check", &check, &record.header.header_check.get())?;
    let found = read_any_record(bytes, sequence).map(|found| found.sequence);
    same("the sequence that it proves", &found, &Some(sequence))?;
    holds("padding is added", padded(length) >= length)?;
    if record.payload_is_whole() {
        decode(&record);
    }
    Ok(Verdict::Taken)
}

pub(super) fn judge_meta(input: &[u8]) -> Judged {
    let view = MetaView::read(input);
    let decoded = decode_meta(input);
    same("read and decoded", &(view.is_some() && !input.is_empty()), &decoded.is_some())?;
    if view.is_none() {
        holds("no limit is kept by what is no meta", check_meta(input).is_err())?;
        return Ok(Verdict::Refused);
    }
    if let Some(meta) = decoded {
        same("its bytes", &encode_meta(&meta), &Some(input.to_vec()))?;
    }
    let _ = check_meta(input);
    Ok(Verdict::Taken)
}

/// The bytes of a receipt, also as text.
pub(super) fn judge_receipt(input: &[u8]) -> Judged {
    let of_text = std::str::from_utf8(input).ok().and_then(|text| Receipt::parse(text).ok());
    if let (Some(receipt), Ok(text)) = (of_text, std::str::from_utf8(input)) {
        same("its text", &receipt.to_text(), &text.to_owned())?;
    }
    let Some(receipt) = of_text.or_else(|| Receipt::from_bytes(input)) else { return Ok(Verdict::Refused) };
    if of_text.is_none() {
        same("its bytes", input, receipt.to_bytes().as_slice())?;
    }
    let again = Receipt::parse(&receipt.to_text()).map_err(|error| format!("its own text: {error}"))?;
    same("the receipt", &receipt, &again)?;
    Ok(Verdict::Taken)
}
