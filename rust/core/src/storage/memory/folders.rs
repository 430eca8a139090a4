//! Names: the visible ones, the durable ones, and the changes between them.

use std::collections::{BTreeMap, BTreeSet};

use super::chance::Chance;
use super::content::FileId;

/// One change of names that no sync of its folders has made durable.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Change {
    Folder(String),
    Set(String, FileId),
    Rename { from: String, to: String, file: FileId },
    Remove(String),
}

impl Change {
    fn names(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Folder(name) | Self::Set(name, _) | Self::Remove(name) => (name, None),
            Self::Rename { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(first).chain(second).map(String::as_str)
    }

    fn touches(&self, other: &Self) -> bool {
        self.names().any(|name| other.names().any(|theirs| name == theirs))
    }
}

#[derive(Clone, Debug)]
struct Pending {
    change: Change,
    /// The folders that must still be synced for it.
    waits_for: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
struct Names {
    folders: BTreeSet<String>,
    files: BTreeMap<String, FileId>,
}

impl Names {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Folder(name) => {
                self.folders.insert(name.clone());
            }
            Change::Set(name, file) => {
                self.files.insert(name.clone(), *file);
            }
            Change::Rename { from, to, file } => {
                self.files.remove(from);
                self.files.insert(to.clone(), *file);
            }
            Change::Remove(name) => {
                self.files.remove(name);
            }
        }
    }

    fn has_folder(&self, folder: &str) -> bool {
        folder.is_empty() || self.folders.contains(folder)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Folders {
    live: Names,
    durable: Names,
    pending: Vec<Pending>,
}

/// The folder that a path lies in; `""` is the store's own.
fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl Folders {
    pub(super) fn has_folder(&self, folder: &str) -> bool {
        self.live.has_folder(folder)
    }

    pub(super) fn has_folder_of(&self, path: &str) -> bool {
        self.live.has_folder(folder_of(path))
    }

    pub(super) fn find(&self, path: &str) -> Option<FileId> {
        self.live.files.get(path).copied()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&String, FileId)> {
        self.live.files.iter().map(|(path, file)| (path, *file))
    }

    pub(super) fn list(&self, folder: &str) -> Vec<String> {
        let inside = self.live.files.keys().filter(|path| folder_of(path) == folder);
        inside.map(|path| path.rsplit_once('/').map_or(path.as_str(), |(_, name)| name).to_owned()).collect()
    }

    pub(super) fn create(&mut self, path: &str, file: FileId) {
        self.change(Change::Set(path.to_owned(), file));
    }

    pub(super) fn create_folder(&mut self, folder: &str) {
        if !self.live.has_folder(folder) {
            self.change(Change::Folder(folder.to_owned()));
        }
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, file: FileId) {
        self.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), file });
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.change(Change::Remove(path.to_owned()));
    }

    fn change(&mut self, change: Change) {
        self.live.apply(&change);
        let waits_for = change.names().map(|name| folder_of(name).to_owned()).collect();
        self.pending.push(Pending { change, waits_for });
    }

    /// A change between two folders needs a sync of both. A change of a name also settles the earlier changes of
    /// the same name.
    pub(super) fn sync(&mut self, folder: &str) {
        for pending in &mut self.pending {
            pending.waits_for.remove(folder);
        }
        let settled: Vec<bool> = self.pending.iter().map(|pending| pending.waits_for.is_empty()).collect();
        self.settle(&settled);
    }

    /// Makes the chosen changes durable, and the changes that they depend on.
    fn settle(&mut self, chosen: &[bool]) {
        let mut needed: Vec<&Change> = Vec::new();
        let mut keep = vec![false; self.pending.len()];
        for ((pending, chosen), keep) in self.pending.iter().zip(chosen).zip(&mut keep).rev() {
            if *chosen || needed.iter().any(|later| later.touches(&pending.change)) {
                needed.push(&pending.change);
                *keep = true;
            }
        }
        let pending = std::mem::take(&mut self.pending);
        for (pending, keep) in pending.into_iter().zip(keep) {
            if keep {
                self.durable.apply(&pending.change);
            } else {
                self.pending.push(pending);
            }
        }
    }

    /// The names after a power cut that keeps only the changes of these names, and earlier changes of the same
    /// names.
    pub(super) fn cut_but(&mut self, keep: &dyn Fn(&str) -> bool) {
        let chosen: Vec<bool> = self.pending.iter().map(|pending| pending.change.names().any(keep)).collect();
        self.settle(&chosen);
        self.cut(None);
    }

    /// The number of name changes that no sync has settled.
    pub(super) fn unsettled(&self) -> usize {
        self.pending.len()
    }

    /// The files that may have a name after a power cut.
    pub(super) fn reachable(&self) -> BTreeSet<FileId> {
        let pending = self.pending.iter().filter_map(|pending| match &pending.change {
            Change::Set(_, file) | Change::Rename { file, .. } => Some(*file),
            Change::Folder(_) | Change::Remove(_) => None,
        });
        self.durable.files.values().copied().chain(pending).collect()
    }

    /// The names after a power cut that keeps the unsettled changes that are `kept`. A change is kept only with the
    /// earlier changes of the same name.
    pub(super) fn cut_chosen(&mut self, kept: &[bool]) {
        let mut lost: Vec<Change> = Vec::new();
        for (Pending { change, .. }, kept) in std::mem::take(&mut self.pending).into_iter().zip(kept) {
            if *kept && !lost.iter().any(|before| before.touches(&change)) {
                self.durable.apply(&change);
            } else {
                lost.push(change);
            }
        }
        self.settle_durable();
    }

    /// The names after a power cut. Each unsettled change is kept or lost, in any order, but is kept only with the
    /// earlier changes of the same name.
    pub(super) fn cut(&mut self, mut chance: Option<&mut Chance>) {
        let mut lost: Vec<Change> = Vec::new();
        let rough = chance.as_deref_mut().map_or(0, |chance| chance.up_to(3));
        for Pending { change, .. } in std::mem::take(&mut self.pending) {
            let wanted = match (&mut chance, rough) {
                (None, _) | (_, 0) => false,
                (_, 1) => true,
                (Some(chance), _) => chance.coin(),
            };
            if wanted && !lost.iter().any(|before| before.touches(&change)) {
                self.durable.apply(&change);
            } else {
                lost.push(change);
            }
        }
        self.settle_durable();
    }

    /// A file is lost with its folder.
    fn settle_durable(&mut self) {
        let Names { folders, files } = &mut self.durable;
        files.retain(|path, _| folder_of(path).is_empty() || folders.contains(folder_of(path)));
        self.live = self.durable.clone();
    }
}
