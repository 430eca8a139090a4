//! The token of a snapshot: bytes by which another process takes the same snapshot again.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Stream;
use delaymq_core::store::Moment;
use delaymq_core::units::Location;

use crate::plan::token_codec::{TokenReader, TokenWriter};

/// Rises with the layout of a name.
const NAME_VERSION: u64 = 1;

pub(crate) fn name_of(moment: &Moment, stream: &Stream) -> Vec<u8> {
    let mut out = TokenWriter::default();
    out.number(NAME_VERSION);
    out.bytes(&stream.id);
    for checkpoint in moment.checkpoints {
        out.optional(checkpoint.map(|(number, check)| u64::from(number) << 32 | u64::from(check)));
    }
    for number in [moment.end.0, u64::from(moment.chain), u64::from(moment.sealed)] {
        out.number(number);
    }
    out.finish()
}

/// The moment that a name of a snapshot of this stream says.
///
/// # Errors
/// `InvalidArgument` if it is something else, of another release, or of another store.
pub(crate) fn moment(name: &[u8], stream: &Stream) -> Result<Moment> {
    let (of, moment) = read(name).map_err(|error| match error {
        Error::InvalidArgument { found, .. } => refused(found),
        other => other,
    })?;
    if of == stream.id { Ok(moment) } else { Err(refused("one of another store".to_owned())) }
}

fn read(name: &[u8]) -> Result<(Vec<u8>, Moment)> {
    let mut from = TokenReader::new(name)?;
    if from.number()? != NAME_VERSION {
        return Err(refused("one of another release".to_owned()));
    }
    let stream = from.bytes()?.to_vec();
    let mut checkpoint = || -> Result<Option<(u32, u32)>> {
        let halves =
            |both: u64| Some((u32::try_from(both >> 32).ok()?, u32::try_from(both & u64::from(u32::MAX)).ok()?));
        Ok(from.optional()?.and_then(halves))
    };
    let checkpoints = [checkpoint()?, checkpoint()?];
    let (end, chain, sealed) = (Location(from.number()?), from.narrow()?, from.number()? != 0);
    from.finish()?;
    Ok((stream, Moment { checkpoints, end, chain, sealed }))
}

fn refused(found: String) -> Error {
    Error::InvalidArgument { argument: "name", expected: "the name of a snapshot of this store".to_owned(), found }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Stream = Stream { id: [7; 16], timeline: 1 };

    fn moments() -> [Moment; 2] {
        let end = Location(0x1_0000_2000);
        let none = Moment { checkpoints: [None, None], end, chain: 5, sealed: true };
        [Moment { checkpoints: [Some((9, u32::MAX)), Some((8, 1))], sealed: false, ..none }, none]
    }

    #[test]
    fn a_name_says_its_moment() {
        for one in moments() {
            assert_eq!(moment(&name_of(&one, &STREAM), &STREAM), Ok(one));
        }
    }

    #[test]
    fn every_cut_and_every_changed_byte_of_a_name_is_refused_and_so_is_another_store() {
        for one in moments() {
            let name = name_of(&one, &STREAM);
            for at in 0..name.len() {
                let mut changed = name.clone();
                changed[at] ^= 1;
                for wrong in [&name[..at], changed.as_slice()] {
                    let refusal = moment(wrong, &STREAM);
                    assert!(matches!(refusal, Err(Error::InvalidArgument { argument: "name", .. })), "{refusal:?}");
                }
            }
            let other = Stream { id: [8; 16], timeline: 1 };
            assert!(moment(&name, &other).is_err_and(|error| error.to_string().contains("another store")));
        }
    }
}
