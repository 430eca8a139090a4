//! Batches of another copy in which its disk has damaged payloads.

use super::*;
use crate::message_log::restore_payload;
use crate::record::header::RECORD_HEADER_BYTES;

/// Bytes before the payload of the first record of a batch.
const BEFORE: usize = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES + 24;

/// The records of the third batch, as the copy has them.
fn third(copy: &Log) -> Vec<u8> {
    sent(copy)[2][BATCH_HEADER_BYTES..].to_vec()
}

#[test]
fn a_flipped_bit_is_refused_or_named_or_in_the_padding() {
    let right = sent(&behind().0)[2].clone();
    let (payload, padding) = (BEFORE..BEFORE + 5, BEFORE + 5..right.len());
    assert_eq!(padding.len(), 3);
    for bit in 0..right.len() * 8 {
        let (_, mut copy) = behind();
        let mut batch = right.clone();
        batch[bit / 8] ^= 1 << (bit % 8);
        let flipped = batch.clone();
        let taken = copy.appender.append_foreign(&mut batch, Location(0));
        if payload.contains(&(bit / 8)) {
            let taken = taken.unwrap();
            assert_eq!(third(&copy), flipped[BATCH_HEADER_BYTES..], "bit {bit}");
            let [damaged] = taken.damaged.try_into().unwrap();
            assert_eq!(damaged.location.0, taken.appended.start.0 + BATCH_HEADER_BYTES as u64);
            assert_eq!((damaged.sequence, scan(&copy.storage).unwrap().1.damaged_payloads), (Sequence(3), 1));
            assert!(restore_payload(&copy.storage, STREAM, &damaged, b"three").unwrap());
            assert_eq!(third(&copy), right[BATCH_HEADER_BYTES..], "bit {bit}");
        } else if padding.contains(&(bit / 8)) {
            assert_eq!(taken.unwrap().damaged, []);
            assert_eq!(third(&copy), right[BATCH_HEADER_BYTES..], "bit {bit}");
        } else {
            assert!(matches!(taken, Err(Error::InvalidArgument { .. })), "bit {bit}");
        }
    }
    let (_, mut copy) = behind();
    for length in 0..right.len() {
        copy.appender.append_foreign(&mut right[..length].to_vec(), Location(0)).unwrap_err();
    }
    copy.appender.append_foreign(&mut right.clone(), Location(0)).unwrap();
}

/// The batches of a primary of which the third has a damaged message between two whole ones.
fn rotten() -> Vec<Vec<u8>> {
    let mut primary = Log::new(SMALL);
    for number in 0..5_u8 {
        primary.commit(&[&[number; 90], &[number; 1_100], &[number; 40]]);
    }
    let mut all = sent(&primary);
    let second_record = BEFORE + 90 + 6;
    all[2][second_record + RECORD_HEADER_BYTES + 24 + 700] ^= 4;
    all
}

#[test]
fn a_batch_with_a_damaged_message_is_durable_once_it_is_taken() {
    let all = rotten();
    let mut outcomes = [false; 2];
    for calls in 0.. {
        let mut is_taken = false;
        for (kind, seed) in
            [Crash::PowerCut, Crash::Kill].into_iter().flat_map(|kind| (0..20).map(move |seed| (kind, seed)))
        {
            let mut copy = Log::new(SMALL);
            for batch in &all[..2] {
                copy.appender.append_foreign(&mut batch.clone(), Location(0)).unwrap();
            }
            copy.storage.stop_after_calls(calls);
            let taken = copy.appender.append_foreign(&mut all[2].clone(), Location(0));
            is_taken = taken.is_ok();
            if let Ok(taken) = taken {
                assert_eq!(taken.damaged.iter().map(|one| one.sequence.0).collect::<Vec<_>>(), [8]);
                assert_eq!(
                    (taken.appended.end, taken.appended.synced),
                    (copy.appender.written(), copy.appender.synced())
                );
                assert_eq!(taken.appended.synced.sequence, Sequence(10));
            }
            let after = copy.storage.crash(kind, seed);
            let ending = scan(&after).unwrap().1;
            let is_there = ending.next_sequence == Sequence(10);
            assert_eq!(ending.damaged_payloads, u64::from(is_there), "{calls} {seed}");
            assert!(is_there || !is_taken, "{calls} {seed}: {ending:?}");
            outcomes[usize::from(is_there)] = true;
            let mut again = go_on(&after, &ending);
            let next = ending.next_sequence.0;
            for batch in all.iter().filter(|batch| BatchHeader::read(batch).unwrap().base_sequence.get() >= next) {
                again.appender.append_foreign(&mut batch.clone(), Location(0)).unwrap();
            }
            again.appender.sync().unwrap();
            let ending = scan(&after).unwrap().1;
            assert_eq!((ending.next_sequence, ending.damaged_payloads, ending.torn), (Sequence(16), 1, None));
        }
        if is_taken {
            break;
        }
    }
    assert_eq!(outcomes, [true, true]);
}

#[test]
fn a_damaged_fact_that_is_no_message_is_refused() {
    let mut primary = Log::new(SMALL);
    primary.write_records(&[encode(KIND_MESSAGE, b"one"), encode(KIND_FACT, b"two")]);
    let right = sent(&primary)[0].clone();
    let mut batch = right.clone();
    let last = batch.len() - 8;
    batch[last] ^= 1;
    let mut copy = Log::new(SMALL);
    let error = refusal(&mut copy, &batch, &right);
    assert!(is_malformed(&error, "whole payloads of all facts but messages"), "{error}");
}

/// A batch that fills a segment leaves no room for a witness behind it.
#[test]
fn the_witness_of_a_damaged_message_has_room() {
    let room = Log::new(SMALL).appender.tail_room() as usize;
    for (spare, rolls) in [(0, None), (BATCH_HEADER_BYTES - 8, None), (BATCH_HEADER_BYTES, Some(false))] {
        let mut primary = Log::new(SMALL);
        primary.commit(&[&vec![7; room - BEFORE - spare]]);
        let right = sent(&primary)[0].clone();
        assert_eq!(right.len(), room - spare);
        let mut batch = right.clone();
        batch[BEFORE] ^= 1;
        let mut copy = Log::new(SMALL);
        let taken = copy.appender.append_foreign(&mut batch, Location(0));
        assert_eq!(taken.as_ref().ok().map(|taken| taken.appended.rolled), rolls, "{spare}");
        assert!(rolls.is_some() || matches!(taken, Err(Error::TooLarge { .. })), "{spare}");
    }
    let mut primary = Log::new(SMALL);
    primary.commit(&[b"first"]);
    let rest = primary.appender.tail_room() as usize;
    primary.commit(&[&vec![7; rest - BEFORE]]);
    let mut all = sent(&primary);
    all[1][BEFORE] ^= 1;
    let mut copy = Log::new(SMALL);
    copy.appender.append_foreign(&mut all[0].clone(), Location(0)).unwrap();
    assert!(copy.appender.append_foreign(&mut all[1].clone(), Location(0)).unwrap().appended.rolled);
    assert_eq!(scan(&copy.storage.crash(Crash::PowerCutLosesAll, 1)).unwrap().1.damaged_payloads, 1);
}
