//! The files and folders: the state that processes see, and the state that a power cut leaves.

use std::collections::BTreeMap;

use rustix::io::Errno;

use crate::chance::Chance;
use crate::content::Content;
use crate::loss::{Loss, Survival};
use crate::names::{Names, Number};

/// The kernel's number of the root folder.
pub(crate) const ROOT: Number = 1;
/// More than any store of a test takes: a wrong offset is refused and takes no memory.
const FILE_BYTES_MAX: usize = 1 << 30;

type Result<T> = std::result::Result<T, Errno>;

/// A file or a folder.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(Content),
    Folder,
}

/// All files and folders.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    nodes: BTreeMap<Number, Node>,
    names: Names,
    next: Number,
    /// Grows with every change, so that changes of different files are ordered.
    now: u64,
}

impl Default for Disk {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(ROOT, Node::Folder)]), names: Names::default(), next: ROOT + 1, now: 0 }
    }
}

fn place(offset: u64) -> Result<usize> {
    usize::try_from(offset).ok().filter(|offset| *offset <= FILE_BYTES_MAX).ok_or(Errno::FBIG)
}

impl Disk {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    pub(crate) fn node(&self, number: Number) -> Result<&Node> {
        self.nodes.get(&number).ok_or(Errno::STALE)
    }

    fn content(&mut self, number: Number) -> Result<&mut Content> {
        match self.nodes.get_mut(&number) {
            Some(Node::File(content)) => Ok(content),
            Some(Node::Folder) => Err(Errno::ISDIR),
            None => Err(Errno::STALE),
        }
    }

    pub(crate) fn find(&self, folder: Number, name: &[u8]) -> Result<Number> {
        self.names.get(folder, name).ok_or(Errno::NOENT)
    }

    /// The content of a folder: name, number, whether it is a folder.
    pub(crate) fn list(&self, folder: Number) -> Vec<(Vec<u8>, Number, bool)> {
        let is_folder = |number| matches!(self.nodes.get(&number), Some(Node::Folder));
        self.names.of(folder).map(|(name, number)| (name.to_vec(), number, is_folder(number))).collect()
    }

    fn make(&mut self, folder: Number, name: &[u8], node: Node) -> Result<Number> {
        if self.names.get(folder, name).is_some() {
            return Err(Errno::EXIST);
        }
        let (at, number) = (self.tick(), self.next);
        self.next += 1;
        self.nodes.insert(number, node);
        self.names.make(at, folder, name, number);
        Ok(number)
    }

    pub(crate) fn create(&mut self, folder: Number, name: &[u8]) -> Result<Number> {
        self.make(folder, name, Node::File(Content::default()))
    }

    pub(crate) fn create_folder(&mut self, folder: Number, name: &[u8]) -> Result<Number> {
        self.make(folder, name, Node::Folder)
    }

    pub(crate) fn remove(&mut self, folder: Number, name: &[u8], is_folder: bool) -> Result<()> {
        let number = self.find(folder, name)?;
        match (self.node(number)?, is_folder) {
            (Node::File(_), true) => return Err(Errno::NOTDIR),
            (Node::Folder, false) => return Err(Errno::ISDIR),
            (Node::Folder, true) if self.names.of(number).next().is_some() => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        // Its bytes stay: open handles read on, and a power cut may restore the name.
        let at = self.tick();
        self.names.remove(at, folder, name);
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: (Number, &[u8]), to: (Number, &[u8])) -> Result<()> {
        let number = self.find(from.0, from.1)?;
        if let Some(there) = self.names.get(to.0, to.1) {
            if there == number {
                return Ok(());
            }
            if matches!(self.node(there)?, Node::Folder) || matches!(self.node(number)?, Node::Folder) {
                return Err(Errno::EXIST);
            }
        }
        let at = self.tick();
        self.names.rename(at, from, to, number);
        Ok(())
    }

    pub(crate) fn read(&mut self, number: Number, offset: u64, size: usize) -> Result<&[u8]> {
        let offset = place(offset)?;
        Ok(self.content(number)?.read(offset, size))
    }

    pub(crate) fn write(&mut self, number: Number, offset: u64, bytes: &[u8]) -> Result<()> {
        let (at, offset) = (self.tick(), place(offset)?);
        place(offset as u64 + bytes.len() as u64)?;
        self.content(number)?.write(at, offset, bytes);
        Ok(())
    }

    pub(crate) fn set_length(&mut self, number: Number, length: u64) -> Result<()> {
        let (at, length) = (self.tick(), place(length)?);
        self.content(number)?.set_length(at, length);
        Ok(())
    }

    pub(crate) fn allocate(&mut self, number: Number, length: u64) -> Result<()> {
        if place(length)? > self.content(number)?.length() {
            self.set_length(number, length)?;
        }
        Ok(())
    }

    /// Replaces existing bytes by zeros; writes none past the end.
    pub(crate) fn punch(&mut self, number: Number, offset: u64, length: u64) -> Result<()> {
        let end = place(offset.saturating_add(length))?.min(self.content(number)?.length());
        let zeros = vec![0; end.saturating_sub(place(offset)?)];
        if zeros.is_empty() { Ok(()) } else { self.write(number, offset, &zeros) }
    }

    pub(crate) fn sync(&mut self, number: Number) -> Result<()> {
        self.content(number)?.sync();
        Ok(())
    }

    /// A failed sync, which no later sync repairs.
    pub(crate) fn fail_sync(&mut self, number: Number, chance: &mut Chance) -> Result<()> {
        self.content(number)?.fail_sync(chance);
        Ok(())
    }

    pub(crate) fn sync_folder(&mut self, number: Number) {
        self.names.sync(number);
    }

    /// The number of unsynced changes.
    pub(crate) fn pending(&self) -> usize {
        self.files().map(Content::pending).sum::<usize>() + self.names.pending()
    }

    fn files(&self) -> impl Iterator<Item = &Content> {
        self.nodes.values().filter_map(|node| if let Node::File(content) = node { Some(content) } else { None })
    }

    /// The disk as it is found after a power cut at this moment.
    pub(crate) fn after_cut(&self, loss: Loss, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let all: Vec<(u64, u64)> = self.files().filter_map(Content::moments).chain(self.names.moments()).collect();
        let first = all.iter().map(|(first, _)| *first).min().unwrap_or(0);
        let last = all.iter().map(|(_, last)| *last).max().unwrap_or(0);
        let horizon = first + chance.up_to(last.saturating_sub(first) + 1);
        let names = self.names.moments().unwrap_or((first, last));
        let names = self.names.survivors(&mut Survival::new(loss, names, horizon, &mut chance));
        let mut found = Self { nodes: BTreeMap::from([(ROOT, Node::Folder)]), names, next: self.next, now: self.now };
        // Nodes without a name are removed, folder by folder from the root.
        let mut folders = vec![ROOT];
        while let Some(folder) = folders.pop() {
            let inside: Vec<Number> = found.names.of(folder).map(|(_, number)| number).collect();
            for number in inside {
                let node = if let Some(Node::File(content)) = self.nodes.get(&number) {
                    let moments = content.moments().unwrap_or((first, last));
                    let mut survival = Survival::new(loss, moments, horizon, &mut chance);
                    Node::File(Content::found(content.survivors(&mut survival)))
                } else {
                    folders.push(number);
                    Node::Folder
                };
                found.nodes.insert(number, node);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_only_where_it_and_its_folder_were_synced() {
        let mut disk = Disk::default();
        let file = disk.create(ROOT, b"a").unwrap();
        disk.write(file, 0, b"hello").unwrap();
        disk.sync(file).unwrap();
        assert_eq!(disk.after_cut(Loss::All, 0).find(ROOT, b"a"), Err(Errno::NOENT));
        disk.sync_folder(ROOT);
        let mut found = disk.after_cut(Loss::All, 0);
        assert_eq!(found.read(file, 0, 9).unwrap(), b"hello");
        disk.write(file, 5, b" there").unwrap();
        let mut found = disk.after_cut(Loss::All, 0);
        assert_eq!(found.read(file, 0, 20).unwrap(), b"hello");
    }

    #[test]
    fn the_order_of_different_files_is_kept_where_only_later_things_are_lost() {
        let mut disk = Disk::default();
        let files = [disk.create(ROOT, b"a").unwrap(), disk.create(ROOT, b"b").unwrap()];
        disk.sync_folder(ROOT);
        disk.write(files[0], 0, b"first").unwrap();
        disk.write(files[1], 0, b"second").unwrap();
        let mut seen = [false; 3];
        for seed in 0..60 {
            let mut found = disk.after_cut(Loss::Later, seed);
            let lengths = files.map(|file| found.read(file, 0, 9).unwrap().iter().filter(|byte| **byte > 0).count());
            let place = match lengths {
                [0, 0] => 0,
                [5, 0] => 1,
                [5, 6] => 2,
                other => panic!("{other:?}"),
            };
            seen[place] = true;
        }
        assert_eq!(seen, [true; 3]);
        let reordered = (0..60).any(|seed| {
            let mut found = disk.after_cut(Loss::Earlier, seed);
            found.read(files[0], 0, 1).unwrap().is_empty() && !found.read(files[1], 0, 1).unwrap().is_empty()
        });
        assert!(reordered);
    }

    #[test]
    fn what_lost_its_name_is_gone_with_all_below() {
        let mut disk = Disk::default();
        let folder = disk.create_folder(ROOT, b"log").unwrap();
        let file = disk.create(folder, b"a").unwrap();
        disk.sync_folder(folder);
        let found = disk.after_cut(Loss::All, 0);
        assert!(found.node(file).is_err() && found.node(folder).is_err());
        disk.sync_folder(ROOT);
        assert!(disk.after_cut(Loss::All, 0).node(file).is_ok());
    }
}
