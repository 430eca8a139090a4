//! Where a group starts, in SUBSCRIBE, `START_GROUP` and `RESET_GROUP`.
//!
//! | `start` | then | the group starts |
//! |---|---|---|
//! | 0 | | at the first unfinished message |
//! | 1 | | at the next message |
//! | 2 | | at the earliest message that is kept |
//! | 3 | 8 `due_ms` | at the first message that became ready at this time or later |
//! | 4 | 8 `ago_ms` | the same, for so long before now, by the server's clock |
//! | 5 | 8 `published_ms` | at the first message that was published at this time or later |
//! | 6 | 8 `ago_ms` | the same, for so long before now |
//! | 7 | 48 | at the message of this receipt |

use bytes::BufMut;

use super::publish::read_receipt;
use crate::store::{Since, StartAt};
use crate::units::Millis;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

const FIELD: &str = "start";

/// Reads the start of a group.
///
/// # Errors
/// `Malformed` naming `start`.
pub fn read_start(reader: &mut Reader<'_>) -> Read<StartAt> {
    match reader.u8(FIELD)? {
        0 => Ok(StartAt::Unfinished),
        1 => Ok(StartAt::Latest),
        2 => Ok(StartAt::Earliest),
        3 => Ok(StartAt::Due(Since::At(Millis(reader.u64(FIELD)?)))),
        4 => Ok(StartAt::Due(Since::Ago(reader.u64(FIELD)?))),
        5 => Ok(StartAt::Published(Since::At(Millis(reader.u64(FIELD)?)))),
        6 => Ok(StartAt::Published(Since::Ago(reader.u64(FIELD)?))),
        7 => Ok(StartAt::Message(read_receipt(reader, FIELD)?)),
        other => Err(Malformed::Value { field: FIELD, expected: "0 to 7", found: i64::from(other) }),
    }
}

/// Appends the start of a group.
pub fn put_start(out: &mut Vec<u8>, start: StartAt) {
    let (kind, time) = match start {
        StartAt::Unfinished => (0, None),
        StartAt::Latest => (1, None),
        StartAt::Earliest => (2, None),
        StartAt::Due(Since::At(time)) => (3, Some(time.0)),
        StartAt::Due(Since::Ago(ms)) => (4, Some(ms)),
        StartAt::Published(Since::At(time)) => (5, Some(time.0)),
        StartAt::Published(Since::Ago(ms)) => (6, Some(ms)),
        StartAt::Message(_) => (7, None),
    };
    out.put_u8(kind);
    if let Some(time) = time {
        out.put_u64(time);
    }
    if let StartAt::Message(receipt) = start {
        out.put_slice(&receipt.to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::samples::receipt;
    use super::*;

    #[test]
    fn each_start_reads_back_and_nothing_else_does() {
        for start in [
            StartAt::Unfinished,
            StartAt::Latest,
            StartAt::Earliest,
            StartAt::Due(Since::At(Millis(7))),
            StartAt::Due(Since::Ago(u64::MAX)),
            StartAt::Published(Since::At(Millis(u64::MAX))),
            StartAt::Published(Since::Ago(9)),
            StartAt::Message(receipt(1)),
        ] {
            let mut out = Vec::new();
            put_start(&mut out, start);
            let mut reader = Reader::new(&out);
            assert_eq!(read_start(&mut reader), Ok(start));
            assert_eq!(reader.finish("start"), Ok(()));
            for length in 0..out.len() {
                assert!(read_start(&mut Reader::new(&out[..length])).is_err(), "{start:?}, {length}");
            }
        }
        for wrong in [vec![8], [vec![7], vec![9; 48]].concat()] {
            assert!(matches!(read_start(&mut Reader::new(&wrong)), Err(Malformed::Value { field: "start", .. })));
        }
    }
}
