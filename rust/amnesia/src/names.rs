//! The names in all folders: the visible ones, and those that a power cut leaves.

use std::collections::{BTreeMap, BTreeSet};

use crate::loss::Survival;

/// The number of a file or folder.
pub(crate) type Number = u64;
/// A folder and a name in it.
pub(crate) type Place = (Number, Vec<u8>);

/// An unsynced change of names.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    /// A new node got a name.
    Made(Place, Number),
    Removed(Place),
    Moved {
        from: Place,
        to: Place,
        number: Number,
    },
}

impl Step {
    fn places(&self) -> impl Iterator<Item = &Place> {
        let (one, other) = match self {
            Self::Made(place, _) | Self::Removed(place) => (place, None),
            Self::Moved { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(one).chain(other)
    }

    fn apply(&self, names: &mut BTreeMap<Place, Number>) {
        match self {
            Self::Made(place, number) => {
                names.insert(place.clone(), *number);
            }
            Self::Removed(place) => {
                names.remove(place);
            }
            Self::Moved { from, to, number } => {
                names.remove(from);
                names.insert(to.clone(), *number);
            }
        }
    }
}

/// The names of all folders.
#[derive(Clone, Default, Debug)]
pub(crate) struct Names {
    live: BTreeMap<Place, Number>,
    durable: BTreeMap<Place, Number>,
    pending: Vec<(u64, Step)>,
}

impl Names {
    pub(crate) fn get(&self, folder: Number, name: &[u8]) -> Option<Number> {
        self.live.get(&(folder, name.to_vec())).copied()
    }

    /// The content of a folder, by name.
    pub(crate) fn of(&self, folder: Number) -> impl Iterator<Item = (&[u8], Number)> {
        let all = self.live.range((folder, Vec::new())..(folder + 1, Vec::new()));
        all.map(|((_, name), number)| (name.as_slice(), *number))
    }

    fn take(&mut self, at: u64, step: Step) {
        step.apply(&mut self.live);
        self.pending.push((at, step));
    }

    pub(crate) fn make(&mut self, at: u64, folder: Number, name: &[u8], number: Number) {
        self.take(at, Step::Made((folder, name.to_vec()), number));
    }

    pub(crate) fn remove(&mut self, at: u64, folder: Number, name: &[u8]) {
        self.take(at, Step::Removed((folder, name.to_vec())));
    }

    pub(crate) fn rename(&mut self, at: u64, from: (Number, &[u8]), to: (Number, &[u8]), number: Number) {
        let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        self.take(at, Step::Moved { from, to, number });
    }

    /// Makes the names in a folder durable; a move out of it or into it, on both sides.
    pub(crate) fn sync(&mut self, folder: Number) {
        self.keep(|_, step| step.places().any(|(of, _)| *of == folder));
    }

    /// Makes the `wanted` changes durable, and earlier changes of the same names: every file system keeps that
    /// order.
    fn keep(&mut self, mut wanted: impl FnMut(u64, &Step) -> bool) {
        let mut needed: BTreeSet<Place> = BTreeSet::new();
        let mut kept = Vec::new();
        let mut left = Vec::new();
        for (at, step) in std::mem::take(&mut self.pending).into_iter().rev() {
            if wanted(at, &step) || step.places().any(|place| needed.contains(place)) {
                needed.extend(step.places().cloned());
                kept.push(step);
            } else {
                left.push((at, step));
            }
        }
        kept.iter().rev().for_each(|step| step.apply(&mut self.durable));
        self.pending = left.into_iter().rev().collect();
    }

    pub(crate) fn moments(&self) -> Option<(u64, u64)> {
        Some((self.pending.first()?.0, self.pending.last()?.0))
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The names that a power cut leaves.
    pub(crate) fn survivors(&self, survival: &mut Survival<'_>) -> Self {
        let mut found = self.clone();
        found.keep(|at, _| survival.of_name(at));
        Self { live: found.durable.clone(), durable: found.durable, pending: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::loss::Loss;

    fn cut(names: &Names, loss: Loss, seed: u64) -> Vec<(u64, Vec<u8>, u64)> {
        let mut chance = Chance::new(seed);
        let (first, last) = names.moments().unwrap_or((0, 0));
        let found = names.survivors(&mut Survival::new(loss, (first, last), last, &mut chance));
        found.live.into_iter().map(|((folder, name), number)| (folder, name, number)).collect()
    }

    fn after(loss: Loss, names: &Names) -> BTreeSet<Vec<(u64, Vec<u8>, u64)>> {
        (0..300).map(|seed| cut(names, loss, seed)).collect()
    }

    fn one(name: &str, number: u64) -> (u64, Vec<u8>, u64) {
        (1, name.as_bytes().to_vec(), number)
    }

    #[test]
    fn names_of_a_synced_folder_are_found_and_others_may_not_be() {
        let mut names = Names::default();
        names.make(1, 1, b"a", 10);
        names.sync(1);
        names.make(2, 1, b"b", 11);
        assert_eq!(after(Loss::All, &names), BTreeSet::from([vec![one("a", 10)]]));
        let either = BTreeSet::from([vec![one("a", 10)], vec![one("a", 10), one("b", 11)]]);
        assert_eq!(after(Loss::Any, &names), either);
        names.sync(1);
        assert_eq!(after(Loss::Any, &names), BTreeSet::from([vec![one("a", 10), one("b", 11)]]));
    }

    #[test]
    fn a_rename_is_there_whole_or_not_at_all() {
        let mut names = Names::default();
        names.make(1, 1, b"a", 10);
        names.sync(1);
        names.make(2, 1, b"a.tmp", 11);
        names.rename(3, (1, b"a.tmp"), (1, b"a"), 11);
        let found = BTreeSet::from([vec![one("a", 10)], vec![one("a", 10), one("a.tmp", 11)], vec![one("a", 11)]]);
        assert_eq!(after(Loss::Any, &names), found);
    }

    #[test]
    fn what_was_moved_away_and_made_anew_is_never_without_a_name() {
        let mut names = Names::default();
        names.make(1, 1, b"a", 10);
        names.sync(1);
        names.rename(2, (1, b"a"), (1, b"b"), 10);
        names.make(3, 1, b"a", 11);
        for loss in [Loss::All, Loss::Any, Loss::Earlier, Loss::Later] {
            for found in after(loss, &names) {
                assert!(found.iter().any(|(_, _, number)| *number == 10));
            }
        }
    }

    #[test]
    fn a_folder_is_synced_with_what_was_moved_out_of_it() {
        let mut names = Names::default();
        names.make(1, 1, b"a", 10);
        names.sync(1);
        names.rename(2, (1, b"a"), (2, b"a"), 10);
        names.make(3, 1, b"c", 12);
        names.sync(2);
        assert_eq!(cut(&names, Loss::All, 0), vec![(2, b"a".to_vec(), 10)]);
        assert_eq!(names.pending(), 1);
    }
}
