//! A message that recurs: begun in each life, ended when all is drained. Its occurrences are told apart by when they are
//! due, which stands behind its id.

use delaymq_core::error::{Error, Result};
use delaymq_core::record::terms::IfExists;
use delaymq_core::units::Millis;
use delaymq_engine::{CatchUp, NewRecurring, Recurs, Store};

use crate::publishing::digest;
use crate::telling::{Line, Telling, wall_ms};

pub(crate) const SUBJECT: &str = "recurring";
const NAME: &str = "0-999999999";
const BODY: &str = "0-999999999 again";
const META: [u8; 5] = [0; 5];
/// The shortest that there is.
const EVERY_MS: u64 = 1_000;
/// Over long ago: it sets the grid.
const START: Millis = Millis(1_700_000_000_000);
/// It is ended when what is pending is not due for as long as that.
const END_BEFORE_MS: u64 = 100;

/// Begins it, where it is not there yet.
///
/// # Errors
/// What ends the store, and what must not be. A full disk is told and borne.
pub(crate) fn begin(telling: &Telling, store: &Store) -> Result<()> {
    let line = Line::of("series").text("id", NAME).text("subject", SUBJECT).text("digest", &digest(BODY.as_bytes()));
    telling.tell(&[line.number("every_ms", EVERY_MS)]);
    let result = store.recur(
        SUBJECT,
        &NewRecurring {
            name: NAME,
            recurs: Recurs::Every(EVERY_MS),
            zone: "UTC",
            start: Some(START),
            catch_up: CatchUp::All,
            expires_after: None,
            if_exists: IfExists::Keep,
            meta: &META,
            body: BODY.as_bytes(),
        },
    );
    let told = |word: &str| Line::of("series_made").text("id", NAME).text("result", word);
    match result {
        Ok(series) => {
            let line = told("acknowledged");
            telling.tell(&[match series.pending {
                Some(receipt) => line.number("next_ms", receipt.key.due.0),
                None => line,
            }]);
            Ok(())
        }
        Err(Error::DiskFull) => {
            telling.tell(&[told("refused")]);
            Ok(())
        }
        Err(error) => {
            telling.tell(&[told("ambiguous")]);
            Err(error)
        }
    }
}

/// Ends it once all that it missed has come; true where it goes on no more.
///
/// # Errors
/// As [`begin`].
pub(crate) fn end(telling: &Telling, store: &Store) -> Result<bool> {
    let listed = store.recurring(None, 0, 1)?;
    let Some(series) = listed.first() else { return Ok(true) };
    let next = series.pending.map(|receipt| receipt.key.due.0);
    let Some(next_ms) = next.filter(|next_ms| *next_ms > wall_ms().saturating_add(END_BEFORE_MS)) else {
        return Ok(false);
    };
    telling.tell(&[Line::of("series_end").text("id", &series.name).number("next_ms", next_ms)]);
    let word = if store.end_recurring(SUBJECT, &series.name)? { "done" } else { "not_found" };
    telling.tell(&[Line::of("series_ended").text("id", &series.name).text("result", word)]);
    Ok(true)
}
