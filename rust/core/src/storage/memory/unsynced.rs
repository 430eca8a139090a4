//! The possible states after a power cut: every unsynced change varies independently, in every combination.

use super::MemoryStorage;
use super::content::{Content, FileId};
use super::crash::Crash;
use super::state::State;

/// One sector of a file, with all contents that it may have.
#[derive(Clone, Debug)]
pub(super) struct Sector {
    pub(super) file: FileId,
    pub(super) at: usize,
    pub(super) versions: Vec<Vec<u8>>,
}

/// All names, lengths and sectors that a power cut may leave in more than one state, at one moment.
#[derive(Clone, Debug)]
pub struct Unsynced {
    pub(super) base: State,
    pub(super) names: usize,
    pub(super) lengths: Vec<(FileId, Vec<usize>)>,
    pub(super) sectors: Vec<Sector>,
}

impl Unsynced {
    /// The number of versions of each, at least two. Version 0 is the durable one, the last version is the one
    /// written last.
    pub fn versions(&self) -> Vec<usize> {
        let names = std::iter::repeat_n(2, self.names);
        let lengths = self.lengths.iter().map(|(_, lengths)| lengths.len());
        names.chain(lengths).chain(self.sectors.iter().map(|sector| sector.versions.len())).collect()
    }

    /// The storage after a power cut that leaves each in its chosen version, in the order of [`Self::versions`].
    /// Without a choice, the durable version is used. A change of a name is kept only with the earlier changes of
    /// the same name.
    pub fn left(&self, chosen: &[usize]) -> MemoryStorage {
        let mut chosen = chosen.iter().copied().chain(std::iter::repeat(0));
        let mut state = self.base.clone();
        let names: Vec<bool> = chosen.by_ref().take(self.names).map(|version| version > 0).collect();
        state.folders.cut_chosen(&names);
        let lengths: Vec<(FileId, Option<usize>)> = self
            .lengths
            .iter()
            .zip(chosen.by_ref())
            .map(|((file, lengths), version)| (*file, lengths.get(version).copied()))
            .collect();
        let mut sectors: Vec<(FileId, usize, &[u8])> = Vec::new();
        for (sector, version) in self.sectors.iter().zip(chosen) {
            if let Some(bytes) = sector.versions.get(version).filter(|_| version > 0) {
                sectors.push((sector.file, sector.at, bytes));
            }
        }
        for (place, content) in state.files.iter_mut().enumerate() {
            let mine = |file: FileId| file.0 == place;
            let length = lengths.iter().find(|(file, _)| mine(*file)).and_then(|(_, length)| *length);
            let length = length.unwrap_or(content.live().len());
            let written: Vec<(usize, &[u8])> =
                sectors.iter().filter(|(file, ..)| mine(*file)).map(|(_, at, bytes)| (*at, *bytes)).collect();
            content.keep_chosen(length, &written);
        }
        MemoryStorage::of(state)
    }
}

impl State {
    pub(super) fn unsynced(&self) -> Unsynced {
        let reachable = self.folders.reachable();
        let mut base = self.crashed(Crash::Kill, 0);
        let (mut lengths, mut sectors) = (Vec::new(), Vec::new());
        for (place, content) in self.files.iter().enumerate() {
            let file = FileId(place);
            if reachable.contains(&file) {
                lengths.push((file, content.lengths()));
                sectors.extend(content.sectors().into_iter().map(|(at, versions)| Sector { file, at, versions }));
            }
        }
        lengths.retain(|(_, lengths)| lengths.len() > 1);
        base.files.iter_mut().for_each(Content::keep_synced);
        Unsynced { base, names: self.folders.unsettled(), lengths, sectors }
    }
}
