//! The token of a snapshot: bytes by which another process takes the same snapshot again.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Stream;
use delaymq_core::store::Moment;

use crate::plan::token_codec::{Coded, TokenReader, TokenWriter};
use crate::refused;

/// Rises with the layout of a name.
const NAME_VERSION: u64 = 1;

pub(crate) fn name_of(moment: &Moment, stream: &Stream) -> Vec<u8> {
    let mut out = TokenWriter::default();
    out.number(NAME_VERSION);
    stream.id.put(&mut out);
    for checkpoint in moment.checkpoints {
        checkpoint.map(|(number, check)| u64::from(number) << 32 | u64::from(check)).put(&mut out);
    }
    moment.end.put(&mut out);
    (moment.chain, moment.sealed).put(&mut out);
    out.finish()
}

/// The moment that a name of a snapshot of this stream says.
/// Fails with `InvalidArgument` if it is something else, of another release, or of another store.
pub(crate) fn moment(name: &[u8], stream: &Stream) -> Result<Moment> {
    let (of, moment) = read(name).map_err(|error| match error {
        Error::InvalidArgument { found, .. } => refused_name(&found),
        other => other,
    })?;
    if of == stream.id { Ok(moment) } else { Err(refused_name("one of another store")) }
}

fn read(name: &[u8]) -> Result<([u8; 16], Moment)> {
    let mut from = TokenReader::new(name)?;
    if from.number()? != NAME_VERSION {
        return Err(refused_name("one of another release"));
    }
    let stream = Coded::take(&mut from)?;
    let mut checkpoint = || -> Result<Option<(u32, u32)>> {
        let halves =
            |both: u64| Some((u32::try_from(both >> 32).ok()?, u32::try_from(both & u64::from(u32::MAX)).ok()?));
        Ok(<Option<u64> as Coded>::take(&mut from)?.and_then(halves))
    };
    let checkpoints = [checkpoint()?, checkpoint()?];
    let end = Coded::take(&mut from)?;
    let (chain, sealed) = Coded::take(&mut from)?;
    from.finish()?;
    Ok((stream, Moment { checkpoints, end, chain, sealed }))
}

fn refused_name(found: &str) -> Error {
    refused("name", "the name of a snapshot of this store", found)
}

#[cfg(test)]
mod tests {
    use delaymq_core::units::Location;

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
