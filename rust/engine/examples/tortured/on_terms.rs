//! Publishes on terms: under a key that a pending message may have, and with an id that is told by, again and again.

use delaymq_core::error::{Error, Result};
use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::record::terms::IfExists;
use delaymq_engine::{Due, PublishBatch, PublishTerms, Receipt, Receipts, Store};

use crate::arguments::Arguments;
use crate::chance::Chance;
use crate::publishing::digest;
use crate::telling::{Line, Telling};

const META: [u8; 5] = [0; 5];
const SUBJECT: &str = "s0";
/// Counts of ids from here on are of messages with keys, and of those that are told by their ids.
const KEYED_FROM: u64 = 800_000_000;
const TOLD_FROM: u64 = 900_000_000;
/// So few that most find theirs taken.
const KEYS: u64 = 3;
/// What is due sooner may be ready before it has its key.
const DELAY_MS_MIN: u64 = 60;
/// Ids of this life that are sent again, the newest first.
const AGAIN: u64 = 4;
/// Ids of the life before, the first of which are sent again.
const BEFORE: u64 = 12;
const PART: u64 = 1 << 32;

/// Publishes them; how they are chosen has nothing to do with other messages.
pub(crate) struct OnTerms<'a> {
    arguments: &'a Arguments,
    telling: &'a Telling,
    store: &'a Store,
    chance: Chance,
    batch: PublishBatch,
    keyed: u64,
    told: u64,
}

impl<'a> OnTerms<'a> {
    pub(crate) fn new(arguments: &'a Arguments, telling: &'a Telling, store: &'a Store) -> Self {
        let chance = Chance::new(arguments.seed, arguments.life, PART);
        Self { arguments, telling, store, chance, batch: store.batch(), keyed: 0, told: 0 }
    }

    /// One publish.
    ///
    /// # Errors
    /// What ends the store, and what must not be. A full disk is told and borne.
    pub(crate) fn publish(&mut self) -> Result<()> {
        if self.chance.percent(60) { self.publish_keyed() } else { self.publish_told() }
    }

    fn publish_keyed(&mut self) -> Result<()> {
        let id = format!("{}-{}", self.arguments.life, KEYED_FROM.saturating_add(self.keyed));
        self.keyed = self.keyed.saturating_add(1);
        let key = format!("k{}", self.chance.below(KEYS));
        let (word, if_exists) = match self.chance.below(4) {
            0 | 1 => ("replace", IfExists::Replace),
            2 => ("keep", IfExists::Keep),
            _ => ("error", IfExists::Refuse),
        };
        let far_ms = if self.chance.percent(30) { self.arguments.far_ms_max } else { 0 };
        let delay_ms =
            DELAY_MS_MIN.saturating_add(self.chance.below(self.arguments.delay_ms_max.saturating_add(far_ms)));
        let body = format!("{id} under {key}");
        let line = published_line(&id, &body, delay_ms).text("key", &key).text("if_exists", word);
        let terms = PublishTerms { key: Some(&key), if_exists, deduplicates: false, expires: None };
        self.send(line, (&id, &body), (&META, delay_ms), &terms)
    }

    /// One that is new, or was sent before, in this life or the one before, whatever came of that.
    fn publish_told(&mut self) -> Result<()> {
        let life = self.arguments.life;
        let (life, count) = if life > 0 && self.chance.percent(20) {
            (life.saturating_sub(1), self.chance.below(BEFORE))
        } else if self.told == 0 || self.chance.percent(40) {
            self.told = self.told.saturating_add(1);
            (life, self.told.saturating_sub(1))
        } else {
            let back = self.chance.below(self.told.min(AGAIN));
            (life, self.told.saturating_sub(1).saturating_sub(back))
        };
        let id = format!("{life}-{}", TOLD_FROM.saturating_add(count));
        let delay_ms = self.chance.below(self.arguments.delay_ms_max);
        let body = format!("{id} once");
        let meta = encode_meta(&Meta { message_id: id.clone(), ..Meta::default() }).unwrap_or_default();
        let line = published_line(&id, &body, delay_ms).flag("deduplicate", true);
        let terms = PublishTerms { deduplicates: true, ..PublishTerms::NONE };
        self.send(line, (&id, &body), (&meta, delay_ms), &terms)
    }

    fn send(
        &mut self,
        line: Line,
        (id, body): (&str, &str),
        (meta, delay_ms): (&[u8], u64),
        terms: &PublishTerms<'_>,
    ) -> Result<()> {
        self.telling.tell(&[line]);
        self.batch.push_on_terms(SUBJECT, Due::After(delay_ms), (meta, body.as_bytes()), terms)?;
        let result = self.store.publish(&mut self.batch);
        let (word, sequence) = match &result {
            Ok(receipts) => answered(receipts, terms),
            Err(Error::KeyTaken { receipt, .. }) => ("kept", Some(Receipt::parse(receipt)?.key.sequence.0)),
            Err(Error::DiskFull) => ("refused", None),
            Err(_) => ("ambiguous", None),
        };
        let line = Line::of("published").text("id", id).text("result", word);
        self.telling.tell(&[match sequence {
            Some(sequence) => line.number("sequence", sequence),
            None => line,
        }]);
        match result {
            Err(Error::DiskFull | Error::KeyTaken { .. }) => {
                self.batch.clear();
                Ok(())
            }
            other => other.map(drop),
        }
    }
}

/// Whether it was stored, or another one has its key, and the sequence of whichever it is.
fn answered(receipts: &Receipts, terms: &PublishTerms<'_>) -> (&'static str, Option<u64>) {
    let sequence = receipts.get(0).map(|receipt| receipt.key.sequence);
    let is_there = sequence.is_some_and(|sequence| sequence != receipts.first_sequence());
    let word = if is_there && terms.key.is_some() { "kept" } else { "acknowledged" };
    (word, sequence.map(|sequence| sequence.0))
}

fn published_line(id: &str, body: &str, delay_ms: u64) -> Line {
    let line = Line::of("publish").text("id", id).text("subject", SUBJECT).text("digest", &digest(body.as_bytes()));
    line.number("delay_ms", delay_ms)
}
