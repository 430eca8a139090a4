//! The disks that a crash at one moment may leave: one with all written bytes (a kill), one for each combination of
//! unsynced changes, and one for each length of the last write. If there are more than [`COMBINATIONS_MAX`]
//! combinations, some are drawn.

use delaymq_core::storage::{Crash, MemoryStorage};

use super::tape::Point;
use crate::chance::Chance;

/// The most combinations that are all tried: those of twelve sectors, each kept or lost.
pub(super) const COMBINATIONS_MAX: usize = 1 << 12;
/// The most combinations that are drawn if not all are tried.
const DRAWN: usize = 192;

/// A disk as a crash leaves it.
pub(super) struct Left {
    /// The disk.
    pub(super) storage: MemoryStorage,
    /// True after a power cut, false if only the process ended.
    pub(super) cut: bool,
}

/// The combinations to try.
enum Combinations {
    /// All of them, in counting order. `next` is the next one.
    All { next: Option<Vec<usize>> },
    /// `left` more are drawn: half at random, half with none, all, or all but one of the changes.
    Drawn { left: usize },
}

/// Calls `take` with every disk that may be left, until `take` returns false.
pub(super) fn each_left(point: &Point, drawn_max: usize, chance: &mut Chance, take: &mut dyn FnMut(Left) -> bool) {
    if !take(Left { storage: point.storage.crash(Crash::Kill, 0), cut: false }) {
        return;
    }
    let unsynced = point.storage.unsynced();
    let versions = unsynced.versions();
    let all = versions.iter().try_fold(1_usize, |all, versions| all.checked_mul(*versions));
    let exhaustive = drawn_max >= COMBINATIONS_MAX && all.is_some_and(|all| all <= COMBINATIONS_MAX);
    let mut combinations = if exhaustive {
        Combinations::All { next: Some(vec![0; versions.len()]) }
    } else {
        Combinations::Drawn { left: drawn_max.min(DRAWN) }
    };
    while let Some(chosen) = next_of(&mut combinations, &versions, chance) {
        if !take(Left { storage: unsynced.left(&chosen), cut: true }) {
            return;
        }
    }
    let torn = point.written.as_ref().map(|path| point.storage.torn(path)).unwrap_or_default();
    for storage in torn {
        if !take(Left { storage, cut: true }) {
            return;
        }
    }
}

fn next_of(combinations: &mut Combinations, versions: &[usize], chance: &mut Chance) -> Option<Vec<usize>> {
    match combinations {
        Combinations::All { next } => {
            let chosen = next.take()?;
            *next = counted_up(&chosen, versions);
            Some(chosen)
        }
        Combinations::Drawn { left } => {
            *left = left.checked_sub(1)?;
            let draw = |versions: &usize, chance: &mut Chance| chance.below(*versions as u64) as usize;
            let newest = || versions.iter().map(|versions| versions.saturating_sub(1)).collect::<Vec<_>>();
            // Mistakes show most often with no change kept, with all, and with all but one.
            Some(match *left % 8 {
                0 => vec![0; versions.len()],
                1 => newest(),
                2 | 3 => {
                    let mut chosen = newest();
                    let place = chance.below(chosen.len() as u64) as usize;
                    if let Some(one) = chosen.get_mut(place) {
                        *one = 0;
                    }
                    chosen
                }
                _ => versions.iter().map(|versions| draw(versions, chance)).collect(),
            })
        }
    }
}

/// The combination after this one; `None` after the last.
fn counted_up(chosen: &[usize], versions: &[usize]) -> Option<Vec<usize>> {
    let mut next = chosen.to_vec();
    for (version, versions) in next.iter_mut().zip(versions) {
        *version += 1;
        if *version < *versions {
            return Some(next);
        }
        *version = 0;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use delaymq_core::storage::Storage as _;
    use delaymq_core::units::Epoch;

    use super::super::tape::{Promise, ROOT};
    use super::*;

    #[test]
    fn all_that_may_be_left_is_tried() {
        let storage = MemoryStorage::new(1);
        let file = storage.create("a").unwrap();
        file.write_at(0, &[1; 1024]).unwrap();
        file.sync_data().unwrap();
        storage.sync_folder("").unwrap();
        file.write_at(510, &[2; 4]).unwrap();
        storage.create("b").unwrap();
        let promise = Promise { killed: ROOT, cut: ROOT, epoch: Epoch(0) };
        let point = Point { storage, written: Some("a".to_owned()), call: String::new(), promise };
        let mut found = BTreeSet::new();
        each_left(&point, COMBINATIONS_MAX, &mut Chance::new(1), &mut |left| {
            let image = left.storage.image();
            found.insert((image["a"][508..516].to_vec(), image.contains_key("b")));
            true
        });
        let texts = [
            [1, 1, 1, 1, 1, 1, 1, 1],
            [1, 1, 2, 2, 1, 1, 1, 1],
            [1, 1, 1, 1, 2, 2, 1, 1],
            [1, 1, 2, 2, 2, 2, 1, 1],
            [1, 1, 2, 1, 1, 1, 1, 1],
            [1, 1, 2, 2, 2, 1, 1, 1],
        ];
        let sectors = texts.iter().take(4).flat_map(|text| [(text.to_vec(), false), (text.to_vec(), true)]);
        let torn = texts.iter().skip(4).map(|text| (text.to_vec(), true));
        assert_eq!(found, sectors.chain(torn).collect());
    }
}
