//! Small worlds, tried exhaustively: for each scene, every moment at which a machine may end, and for each moment,
//! everything that the disk may then hold. Each disk is recovered, and the tape judges the result. Some stores go on
//! and are drained afterwards; some machines end again while they recover.

pub mod golden_store;
mod hollow;
pub mod judge;
pub mod machine;
pub mod scenes;
mod states;
mod stores;
pub mod tape;

use std::collections::HashMap;

use delaymq_core::planted::Planted;
use delaymq_core::storage::{Crash, MemoryStorage};

use self::judge::{Came, goes_on, keeps, recovers};
use self::machine::Machine;
use self::scenes::Scene;
use self::states::{COMBINATIONS_MAX, Left, each_left};
use self::tape::{Point, Tape, Tree};
use crate::chance::Chance;
use crate::node::NodeOptions;
use crate::parallel::in_parallel;

/// One state in this many goes on and is drained.
const GOES_ON_EVERY: u64 = 24;
/// In one state in this many the machine ends once more, while it recovers.
const ENDS_AGAIN_EVERY: u64 = 96;
/// The number of states that are drawn for each moment of a recovery.
const DRAWN_AGAIN: usize = 3;
/// The most violations that are kept of one scene.
const KEPT_MAX: usize = 3;

/// The result of one life of a scene: one run of it with its own random numbers.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The scene.
    pub scene: &'static str,
    /// The number of the life.
    pub life: u64,
    /// Moments at which the machine ended.
    pub moments: u64,
    /// Different disks that were recovered and judged.
    pub states: u64,
    /// The states among these that were found when the machine ended while it recovered.
    pub states_again: u64,
    /// Disks that went on and were drained.
    pub drained: u64,
    /// States whose log was reported as corrupt although nothing was damaged.
    pub called_corrupt: u64,
    /// The number of broken promises.
    pub broken: u64,
    /// Texts of the first broken promises.
    pub violations: Vec<String>,
}

impl Found {
    /// Adds the numbers and texts of another life.
    pub fn add(&mut self, other: &Self) {
        self.moments += other.moments;
        self.states += other.states;
        self.states_again += other.states_again;
        self.drained += other.drained;
        self.called_corrupt += other.called_corrupt;
        self.broken += other.broken;
        let room = KEPT_MAX.saturating_sub(self.violations.len());
        self.violations.extend(other.violations.iter().take(room).cloned());
    }

    fn blame(&mut self, moment: &str, what: &str) {
        self.broken += 1;
        self.called_corrupt += u64::from(what.starts_with("a clean tail"));
        if self.violations.len() < KEPT_MAX {
            self.violations.push(format!("{}, life {}, after {moment}: {what}", self.scene, self.life));
        }
    }
}

/// One scene under trial.
struct Trial {
    options: NodeOptions,
    chance: Chance,
    /// The result of recovering each disk, by the digest of the disk.
    known: HashMap<u64, Option<Came>>,
    found: Found,
    states_max: u64,
}

/// Runs a scene and tries at most this many states of it.
pub fn try_scene(scene: &Scene, life: u64, states_max: u64) -> Found {
    let options = (scene.options)();
    let seed = life.wrapping_mul(0x9E37_79B9).wrapping_add(u64::from(crc32fast::hash(scene.name.as_bytes())));
    let found = Found { scene: scene.name, life, ..Found::default() };
    let mut trial = Trial { options, chance: Chance::new(seed), known: HashMap::new(), found, states_max };
    let mut machine = Machine::on(MemoryStorage::new(seed), Tape::new(), options, seed);
    if let Err(error) = scene.live(&mut machine) {
        trial.found.blame("nothing", &format!("the scene cannot be lived: {error}"));
        return trial.found;
    }
    let _next = scene.next_format();
    let (points, tree) = {
        let mut tape = machine.disk().tape();
        (std::mem::take(&mut tape.points), tape.tree.clone())
    };
    // Each moment gets its share of the allowed states.
    let mut moments_left = points.len() as u64;
    for point in &points {
        let part = trial.states_max.saturating_sub(trial.found.states) / moments_left.max(1);
        trial.try_moment(point, &tree, part.max(1), COMBINATIONS_MAX, true);
        moments_left = moments_left.saturating_sub(1);
    }
    trial.found
}

impl Trial {
    fn try_moment(&mut self, point: &Point, tree: &Tree, states_max: u64, drawn_max: usize, is_first: bool) {
        self.found.moments += 1;
        let mut chance = self.chance.clone();
        self.chance.next_number();
        let begun_with = self.found.states;
        // If there are more combinations than may be tried, some are drawn.
        each_left(point, drawn_max, &mut chance, &mut |left| {
            self.try_state(point, tree, &left, is_first);
            self.found.states.saturating_sub(begun_with) < states_max
        });
    }

    fn try_state(&mut self, point: &Point, tree: &Tree, left: &Left, is_first: bool) {
        let digest = left.storage.digest();
        let came = if let Some(known) = self.known.get(&digest) {
            *known
        } else {
            let came = self.recover(point, tree, left, digest, is_first);
            self.known.insert(digest, came);
            came
        };
        let Some(came) = came else { return };
        if let Err(what) = keeps(came, &point.promise, left.cut, tree) {
            self.found.blame(&point.call, &what);
        }
    }

    /// Recovers a disk that was not seen before. `None` if the recovery fails or breaks a promise.
    fn recover(&mut self, point: &Point, tree: &Tree, left: &Left, digest: u64, is_first: bool) -> Option<Came> {
        self.found.states += 1;
        self.found.states_again += u64::from(!is_first);
        // The recovery writes to a copy: the steps that follow need the disk as it was.
        let copy = left.storage.crash(Crash::Kill, digest);
        let came = match recovers(&copy, self.options, tree) {
            Ok(came) => came,
            Err(what) => {
                self.found.blame(&point.call, &what);
                return None;
            }
        };
        if digest.is_multiple_of(GOES_ON_EVERY) {
            self.found.drained += 1;
            let copy = left.storage.crash(Crash::Kill, digest);
            if let Err(what) = goes_on(&copy, self.options, tree, came, digest) {
                self.found.blame(&point.call, &what);
            }
        }
        if is_first && digest.is_multiple_of(ENDS_AGAIN_EVERY) {
            self.end_again(point, tree, left, digest);
        }
        Some(came)
    }

    /// Ends the machine once more, at every moment of its recovery.
    fn end_again(&mut self, point: &Point, tree: &Tree, left: &Left, digest: u64) {
        let mut promise = point.promise;
        if left.cut {
            promise.killed = promise.cut;
        }
        let tape = Tape::after(tree.clone(), promise);
        let copy = left.storage.crash(Crash::Kill, digest);
        let mut machine = Machine::on(copy, tape, self.options, digest);
        machine.record();
        if let Err(error) = machine.open() {
            return self.found.blame(&point.call, &format!("it cannot be opened: {error}"));
        }
        let (points, tree) = {
            let mut tape = machine.disk().tape();
            (std::mem::take(&mut tape.points), tape.tree.clone())
        };
        for (moment, again) in points.iter().enumerate() {
            let call = format!("{}; then {moment}: {}", point.call, again.call);
            let again = Point { call, ..again.clone() };
            self.try_moment(&again, &tree, DRAWN_AGAIN as u64 * 2, DRAWN_AGAIN, false);
        }
    }
}

/// Runs all scenes, again and again, until this many states were tried in all. The results are in the order of lives
/// and scenes.
pub fn try_all(scenes: &[Scene], states: u64, threads: usize, planted: Option<Planted>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut life = 1;
    // Each round runs all scenes with other random numbers.
    while found.iter().map(|one| one.states).sum::<u64>() < states && life <= LIVES_MAX {
        let scene_of = |place: u64| usize::try_from(place).ok().and_then(|place| scenes.get(place));
        let lived = in_parallel(scenes.len() as u64, threads, planted, |place| {
            scene_of(place).map(|scene| try_scene(scene, life, u64::MAX))
        });
        found.extend(lived.flatten());
        if found.iter().any(|one| one.broken > 0) {
            break;
        }
        life += 1;
    }
    found
}

/// The most lives of each scene, if no new states are found.
const LIVES_MAX: u64 = 10_000;
