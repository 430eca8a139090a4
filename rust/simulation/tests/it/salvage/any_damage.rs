//! Salvage of small stores with random damage. Each stored, unfinished message is saved, named or counted as lost, or
//! within a gap: a named one, or the one before the first or after the last sequence that an undamaged file knows. Each
//! series that has not ended is saved or within a gap. No message that certainly finished is saved as certain.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::collections::{BTreeMap, BTreeSet};

use crate::rig::keyed::asked;
use crate::rig::saving::{HOUR_MS, NAMES, files_of, flip, look, remove};
use crate::rig::{Place, Rig, START, lean, small};
use delaymq_core::error::Error;
use delaymq_core::record::recurring::CatchUp;
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::{Outcome, OwnerOptions, Receipt, Salvage};
use delaymq_core::units::Sequence;
use delaymq_simulation::chance::Chance;
use delaymq_simulation::node::{Handed, NewRecurring, NodeOptions};

const CASES: u64 = 1_000;
const SERIES: [&str; 3] = ["one", "two", "three"];
const RETRIES: &str = "%RETRY%now%quick";

/// A message that was answered as stored.
struct Stored {
    subject: &'static str,
    /// The sequences of its entries: as it was published, and as it was given back.
    sequences: Vec<u64>,
    /// How many checkpoints had been written when it was acknowledged or cancelled.
    finished: Option<u64>,
    receipt: Option<Receipt>,
}

/// A series that was begun: by which fact, and by which it has ended.
struct Begun {
    name: &'static str,
    sequence: u64,
    ended: Option<u64>,
}

struct History {
    rig: Rig,
    chance: Chance,
    place: Place,
    stored: Vec<Stored>,
    series: Vec<Begun>,
    handed: Vec<Handed>,
    checkpoints: u64,
    /// Which checkpoint each file is, and the sequence behind the last that it knows.
    positions: BTreeMap<String, (u64, u64)>,
}

fn body(number: usize) -> String {
    format!("#{number:04}#{}", "-".repeat(150))
}

/// The numbers of all messages whose bytes stand here.
fn numbers_in(bytes: &[u8]) -> BTreeSet<usize> {
    let is_mark = |part: &&[u8]| part[0] == b'#' && part[5] == b'#' && part[1..5].iter().all(u8::is_ascii_digit);
    let number = |part: &[u8]| std::str::from_utf8(&part[1..5]).unwrap().parse().unwrap();
    bytes.windows(6).filter(is_mark).map(number).collect()
}

impl History {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let options = if chance.percent(50) { small() } else { lean() };
        let copy_after_ms = if chance.percent(70) { 100 } else { 600_000 };
        let owner = OwnerOptions { copy_after_ms, ..options.owner };
        let mut rig = Rig::new(NodeOptions { owner, ..options });
        let place = rig.earliest("now", "quick");
        let (stored, series, handed, positions) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        Self { rig, chance, place, stored, series, handed, checkpoints: 0, positions }
    }

    fn run(&mut self) {
        for _ in 0..self.chance.between(4, 14) {
            match self.chance.below(12) {
                0..=2 => self.publish("late", HOUR_MS),
                3 | 4 => self.publish("now", 0),
                5 => self.publish("now", 20),
                6 => self.consume(),
                7 => self.cancel(),
                8 => self.rig.pass(30),
                9 => self.begin_series(),
                10 => self.end_series(),
                _ => self.checkpoint(),
            }
        }
        if self.chance.percent(70) {
            self.checkpoint();
        }
        if self.chance.percent(30) {
            self.publish("late", HOUR_MS);
        }
        self.make_room();
    }

    /// Facts may wait for the next segment.
    fn make_room(&mut self) {
        self.rig.node().prepare().unwrap();
        self.rig.settle();
    }

    fn publish(&mut self, subject: &'static str, delay_ms: u64) {
        for _ in 0..self.chance.between(1, 25) {
            let receipt = self.rig.publish(subject, delay_ms, &body(self.stored.len()));
            let (sequences, receipt) = (vec![receipt.key.sequence.0], (delay_ms == HOUR_MS).then_some(receipt));
            self.stored.push(Stored { subject, sequences, finished: None, receipt });
        }
    }

    fn consume(&mut self) {
        for _ in 0..4 {
            let got = self.rig.pull(self.place);
            self.handed.extend(got);
            for one in std::mem::take(&mut self.handed) {
                let number = *numbers_in(&one.body).first().unwrap();
                match self.chance.below(10) {
                    0 => self.handed.push(one),
                    1 => {
                        let sequence = self.rig.next_sequence().0;
                        self.rig.give_back(NAMES, self.place, &one, HOUR_MS);
                        self.stored[number].sequences.push(sequence);
                        self.stored[number].subject = RETRIES;
                    }
                    _ => {
                        self.rig.acknowledge(self.place, &[one.delivery.offset.0]);
                        self.stored[number].finished = Some(self.checkpoints);
                    }
                }
            }
        }
    }

    fn cancel(&mut self) {
        for number in 0..self.stored.len() {
            if self.stored[number].finished.is_some() || !self.chance.percent(15) {
                continue;
            }
            self.make_room();
            if let Some(receipt) = self.stored[number].receipt
                && self.rig.cancel(&receipt) == Outcome::Done
            {
                self.stored[number].finished = Some(self.checkpoints);
            }
        }
    }

    fn begin_series(&mut self) {
        self.make_room();
        let name = SERIES[self.series.len() % SERIES.len()];
        let new = NewRecurring {
            subject: "late",
            name,
            if_exists: IfExists::Replace,
            rule: "every 5000ms",
            catch_up: CatchUp::One,
            after: START,
            body: b"again",
        };
        assert!(matches!(asked(&mut self.rig, |node| node.begin_series(&new).unwrap()), Outcome::SeriesBegun(_)));
        let sequence = self.rig.node().owner().state().recurring.after(Sequence(0)).map(|(number, _)| number.0).max();
        let sequence = sequence.unwrap();
        for one in self.series.iter_mut().filter(|one| one.name == name && one.ended.is_none()) {
            one.ended = Some(sequence);
        }
        self.series.push(Begun { name, sequence, ended: None });
    }

    fn end_series(&mut self) {
        self.make_room();
        if let Some(one) = self.series.iter_mut().find(|one| one.ended.is_none()) {
            one.ended = Some(self.rig.next_sequence().0);
            let outcome = asked(&mut self.rig, |node| node.end_series("late", one.name).unwrap());
            assert!(matches!(outcome, Outcome::SeriesEnded(_)), "{outcome:?}");
        }
    }

    fn checkpoint(&mut self) {
        self.make_room();
        let next = self.rig.next_sequence().0;
        self.rig.checkpoint();
        self.checkpoints += 1;
        self.positions.insert(self.rig.newest("checkpoints/"), (self.checkpoints, next));
    }

    /// Damages files; returns which.
    fn damage(&mut self) -> BTreeSet<String> {
        let mut touched = BTreeSet::new();
        for _ in 0..self.chance.below(4) {
            let (log, checkpoints) = (files_of(&self.rig, "log/"), files_of(&self.rig, "checkpoints/"));
            let from = self.chance.below(log.len() as u64 + 1) as usize;
            match self.chance.below(8) {
                0 => self.remove_all(&log, &mut touched),
                1 => self.remove_all(&log[from..], &mut touched),
                2 => self.remove_all(&log[..from], &mut touched),
                3 => self.flip_in(&checkpoints, &mut touched),
                4 => self.flip_in(checkpoints.last().map_or(&[], std::slice::from_ref), &mut touched),
                kind => {
                    let files: Vec<String> = [log, checkpoints, files_of(&self.rig, "runs/")].concat();
                    let Some(one) = self.chance.pick(&files).cloned() else { continue };
                    match kind {
                        5 => self.remove_all(&[one], &mut touched),
                        _ => self.flip_in(&[one], &mut touched),
                    }
                }
            }
        }
        touched
    }

    fn remove_all(&self, files: &[String], touched: &mut BTreeSet<String>) {
        for path in files {
            remove(&self.rig, path);
            touched.insert(path.clone());
        }
    }

    fn flip_in(&mut self, files: &[String], touched: &mut BTreeSet<String>) {
        for path in files {
            let length = self.rig.disk.storage().image()[path].len() as u64;
            let offset = if path.starts_with("checkpoints/") { 100 } else { self.chance.below(length) };
            flip(&self.rig, path, offset);
            touched.insert(path.clone());
        }
    }

    /// Behind the last sequence that an undamaged file knows, and the first that the log still has.
    fn evidence(&self, touched: &BTreeSet<String>) -> (u64, u64) {
        let (mut end, mut first) = (0, u64::MAX);
        for (path, bytes) in self.rig.disk.storage().image() {
            let in_log = || numbers_in(&bytes).into_iter().map(|number| self.stored[number].sequences[0]);
            if path.starts_with("log/") {
                first = first.min(in_log().min().unwrap_or(u64::MAX));
            }
            if touched.contains(&path) {
                continue;
            }
            let behind = match path.split_once('/') {
                Some(("log", _)) => in_log().max().map_or(0, |last| last + 1),
                Some(("checkpoints", _)) => self.positions.get(&path).map_or(0, |(_, next)| *next),
                Some(("runs", _)) => last_sequence(&bytes) + 1,
                _ => 0,
            };
            end = end.max(behind);
        }
        (end, first)
    }

    fn judge(&self, found: &Salvage, touched: &BTreeSet<String>) {
        let saved = certainty(found);
        let (end, first) = self.evidence(touched);
        let lost: BTreeSet<u64> =
            found.lost.iter().map(|one| one.sequence.0).filter(|sequence| *sequence > 0).collect();
        let in_gap = |sequence: &u64| {
            found.gaps.iter().any(|gap| *sequence >= gap.first.0 && *sequence - gap.first.0 < gap.count)
        };
        // Where nothing is certain and the log begins late, all before is said to be gone at once.
        let before = if found.is_blind && first < u64::MAX { first } else { 0 };
        let is_told =
            |sequence: &u64| lost.contains(sequence) || in_gap(sequence) || *sequence < before || *sequence >= end;
        let mut untold: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, one) in self.stored.iter().enumerate() {
            if one.finished.is_none() && !saved.contains_key(&number) && !one.sequences.iter().any(is_told) {
                untold.entry(one.subject).or_default().push(number);
            }
        }
        let series: BTreeSet<&str> = found.series.iter().map(|one| &*one.recurs.name).collect();
        for one in &self.series {
            let (is_saved, is_over) = (series.contains(one.name), one.ended.is_some());
            assert!(is_over || is_saved || is_told(&one.sequence), "{}, begun by {}", one.name, one.sequence);
            let goes_on = || self.series.iter().any(|other| other.name == one.name && other.ended.is_none());
            let came_back = is_saved && !goes_on() && !one.ended.is_some_and(|ended| is_told(&ended));
            let is_last = !self.series.iter().any(|other| other.name == one.name && other.sequence > one.sequence);
            assert!(!(is_last && came_back), "{} was ended by {:?} and came back", one.name, one.ended);
        }
        for (subject, numbers) in untold {
            let counted = found.lost.iter().filter(|one| one.sequence.0 == 0 && one.subject == subject).count();
            assert!(numbers.len() <= counted, "{subject}: {counted} are counted as lost, and gone are {numbers:?}");
        }
        let known =
            self.positions.iter().filter(|(path, _)| !touched.contains(*path) && self.rig.files().contains(*path));
        let known = known.map(|(_, (checkpoint, _))| *checkpoint).max().unwrap_or(0);
        for (number, one) in self.stored.iter().enumerate() {
            let is_over = one.finished.is_some_and(|before| before < known);
            assert!(!is_over || saved.get(&number) != Some(&true), "{number} was finished and came back as certain");
        }
        if touched.is_empty() {
            let whole = self.stored.iter().enumerate().filter(|(_, one)| one.finished.is_none());
            assert_eq!(saved, whole.map(|(number, _)| (number, true)).collect());
            // Segments that were retired between others are told as missing, too.
            let is_damage = |error: &&Error| !matches!(error, Error::MissingFile { .. });
            let told = found.damage.iter().filter(is_damage).count();
            assert_eq!((found.lost_count(), found.gaps.len(), told), (0, 0, 0));
        }
    }
}

/// The greatest sequence among the rows of a run, as its footer says.
fn last_sequence(bytes: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    word(word(bytes.len() - 40) as usize + 56)
}

/// The messages that are saved; true where one is certain.
fn certainty(found: &Salvage) -> BTreeMap<usize, bool> {
    let mut saved = BTreeMap::new();
    found
        .each(&mut |one| {
            let number = *numbers_in(one.message.body).first().unwrap();
            *saved.entry(number).or_default() |= !one.is_doubtful;
            Ok(())
        })
        .unwrap();
    saved
}

#[test]
fn whatever_is_damaged_each_message_is_saved_or_named() {
    let (mut saved, mut lost, mut gaps, mut blind) = (0, 0, 0, 0);
    let only = std::env::var("DELAYMQ_SALVAGE_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut failed = Vec::new();
    for seed in only.map_or(0..CASES, |seed: u64| seed..seed + 1) {
        let mut history = History::new(seed);
        history.run();
        let touched = history.damage();
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match look(&history.rig) {
            Ok(found) => {
                history.judge(&found, &touched);
                saved += found.saved();
                lost += found.lost_count();
                gaps += found.gaps.len();
                blind += u64::from(found.is_blind);
            }
            Err(Error::NotAStore { .. }) => assert!(touched.iter().any(|path| path == "identity")),
            Err(error) => panic!("{error}"),
        }));
        if judged.is_err() {
            failed.push(format!("seed {seed}, damaged: {touched:?}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    if only.is_none() {
        assert!(saved > 10_000 && lost > 500 && gaps > 50 && blind > 10, "{saved} {lost} {gaps} {blind}");
    }
}
