//! Answers the kernel's requests from the disk in memory, until the file system is unmounted.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::disk::{Disk, Node};
use crate::faults::{Call, Failure, Faults};
use crate::loss::Loss;
use crate::recording::Recording;
use crate::wire::{Answer, Attributes, Operation, REQUEST_BYTES_MAX, Request};

type Result<T> = std::result::Result<T, Errno>;

/// `FATTR_SIZE`: the request sets the length.
const LENGTH_IS_SET: u32 = 1 << 3;
/// `FUSE_FSYNC_FDATASYNC`.
const DATA_ONLY: u32 = 1;
/// `FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE`.
const PUNCH_HOLE_KEEP_SIZE: u32 = 1 | 1 << 1;
/// `RENAME_NOREPLACE`, which no caller uses.
const NO_REPLACE: u32 = 1;

/// Whether calls are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Power {
    On,
    /// The power was cut: no request is answered, until the waiting processes were killed.
    Cut,
    /// Everything fails.
    Off,
}

/// A planned power cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    /// The number of changing calls that are done before it.
    pub(crate) calls: u64,
    pub(crate) loss: Loss,
    pub(crate) seed: u64,
}

/// The served disk and its state.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) disk: Disk,
    pub(crate) faults: Faults,
    pub(crate) recording: Recording,
    pub(crate) power: Power,
    pub(crate) coming: Option<Coming>,
    /// The disk that a cut left, and the number of unsynced changes.
    pub(crate) left: Option<(Disk, usize)>,
}

/// Shared by the serving thread and the thread that reads commands.
#[derive(Debug)]
pub(crate) struct Shared {
    served: Mutex<Served>,
    power: Condvar,
}

impl Default for Shared {
    fn default() -> Self {
        let served = Served {
            disk: Disk::default(),
            faults: Faults::default(),
            recording: Recording::default(),
            power: Power::On,
            coming: None,
            left: None,
        };
        Self { served: Mutex::new(served), power: Condvar::new() }
    }
}

impl Shared {
    pub(crate) fn held(&self) -> MutexGuard<'_, Served> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_power(&self, power: Power) {
        self.held().power = power;
        self.power.notify_all();
    }

    /// Waits at most `wait` for the power cut; returns the number of unsynced changes then.
    pub(crate) fn await_cut(&self, wait: Duration) -> Option<usize> {
        let is_on = |served: &mut Served| served.power != Power::Cut;
        let held = self.power.wait_timeout_while(self.held(), wait, is_on);
        let (served, _) = held.unwrap_or_else(PoisonError::into_inner);
        served.left.as_ref().map(|(_, pending)| *pending)
    }

    /// Cuts the power if the planned call is reached.
    fn strike(&self, request: &Request<'_>) {
        let mut served = self.held();
        if served.power != Power::On || !request.operation.changes() {
            return;
        }
        match &mut served.coming {
            None => {}
            Some(Coming { calls: 0, loss, seed }) => {
                let (loss, seed) = (*loss, *seed);
                served.cut(loss, seed);
                drop(served);
                self.power.notify_all();
            }
            Some(coming) => coming.calls -= 1,
        }
    }

    /// Waits until the disk answers, and returns it.
    fn awaited(&self) -> MutexGuard<'_, Served> {
        let wait = self.power.wait_while(self.held(), |served| served.power == Power::Cut);
        wait.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until the file system is unmounted.
pub(crate) fn serve(device: &OwnedFd, shared: &Arc<Shared>) {
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    loop {
        let length = match rustix::io::read(device, &mut buffer) {
            Ok(length) => length,
            // ENOENT: the calling process was killed meanwhile.
            Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => continue,
            Err(_) => return,
        };
        let Some(mut request) = buffer.get(..length).and_then(Request::decode) else { return };
        if matches!(request.operation, Operation::Forget | Operation::Interrupt) {
            continue;
        }
        shared.strike(&request);
        let mut served = shared.awaited();
        let mut answer = Answer::default();
        let done = if served.power == Power::Off && request.operation != Operation::Begin {
            Err(Errno::IO)
        } else {
            served.answer(&mut request, &mut answer)
        };
        drop(served);
        let bytes = match done {
            Ok(()) => answer.encode(request.unique),
            Err(errno) => Answer::refuse(request.unique, errno),
        };
        // The kernel refuses the answer if the calling process was killed meanwhile.
        let _gone = rustix::io::write(device, &bytes);
    }
}

impl Served {
    /// Cuts the power now.
    pub(crate) fn cut(&mut self, loss: Loss, seed: u64) {
        self.left = Some((self.disk.after_cut(loss, seed), self.disk.pending()));
        self.coming = None;
        self.power = Power::Cut;
    }

    fn attributes(&self, number: u64) -> Result<Attributes> {
        let (length, is_folder) = match self.disk.node(number)? {
            Node::File(content) => (content.length() as u64, false),
            Node::Folder => (0, true),
        };
        Ok(Attributes { number, length, is_folder })
    }

    /// Counts a call, which may fail.
    fn meet(&mut self, call: Call) -> Result<()> {
        match self.faults.meet(call) {
            Some(Failure::Errno(errno)) => Err(Errno::from_raw_os_error(errno)),
            Some(Failure::Short) | None => Ok(()),
        }
    }

    fn answer(&mut self, request: &mut Request<'_>, answer: &mut Answer) -> Result<()> {
        let node = request.node;
        match request.operation {
            Operation::Begin => {
                request.skip(8)?;
                answer.begin(request.u32()?);
            }
            Operation::Lookup => {
                let number = self.disk.find(node, request.name()?)?;
                answer.entry(self.attributes(number)?);
            }
            Operation::Status => {
                self.meet(Call::Status)?;
                answer.status(self.attributes(node)?);
            }
            Operation::SetStatus => self.set_status(node, request, answer)?,
            Operation::Open => {
                self.meet(Call::Open)?;
                answer.opened();
            }
            Operation::OpenFolder => {
                self.meet(Call::OpenFolder)?;
                answer.opened();
            }
            Operation::List => self.list(node, request, answer)?,
            Operation::Create => {
                request.skip(16)?;
                let name = request.name()?;
                self.meet(Call::Create)?;
                let number = self.disk.create(node, name)?;
                answer.entry(self.attributes(number)?).opened();
            }
            Operation::CreateFolder => {
                request.skip(8)?;
                let name = request.name()?;
                self.meet(Call::CreateFolder)?;
                let number = self.disk.create_folder(node, name)?;
                answer.entry(self.attributes(number)?);
            }
            Operation::Remove => {
                self.meet(Call::Remove)?;
                self.disk.remove(node, request.name()?, false)?;
            }
            Operation::RemoveFolder => self.disk.remove(node, request.name()?, true)?,
            Operation::Rename | Operation::Rename2 => self.rename(node, request)?,
            Operation::Read => {
                request.skip(8)?;
                let (offset, size) = (request.u64()?, request.u32()?);
                self.meet(Call::Read)?;
                answer.raw(self.disk.read(node, offset, size as usize)?);
            }
            Operation::Write => self.write(node, request, answer)?,
            Operation::Sync => self.sync(node, request)?,
            Operation::SyncFolder => {
                self.meet(Call::SyncFolder)?;
                self.disk.sync_folder(node);
            }
            Operation::Allocate => self.allocate(node, request)?,
            Operation::FileSystemStatus => {
                let (all, free) = (1 << 20, 1 << 19);
                answer.u64(all).u64(free).u64(free).u64(all).u64(free).u32(4096).u32(255).u32(4096).raw(&[0; 28]);
            }
            Operation::Release | Operation::ReleaseFolder => {}
            Operation::Forget | Operation::Interrupt | Operation::Other => return Err(Errno::NOSYS),
        }
        Ok(())
    }

    fn set_status(&mut self, node: u64, request: &mut Request<'_>, answer: &mut Answer) -> Result<()> {
        let valid = request.u32()?;
        request.skip(12)?;
        let length = request.u64()?;
        if valid & LENGTH_IS_SET != 0 {
            self.disk.set_length(node, length)?;
        }
        answer.status(self.attributes(node)?);
        Ok(())
    }

    fn list(&mut self, node: u64, request: &mut Request<'_>, answer: &mut Answer) -> Result<()> {
        request.skip(8)?;
        let (offset, room) = (request.u64()?, request.u32()? as usize);
        self.meet(Call::List)?;
        let names = self.disk.list(node);
        for (place, (name, number, is_folder)) in (1..).zip(&names).skip(usize::try_from(offset).unwrap_or(usize::MAX))
        {
            if !answer.listed(name, *number, *is_folder, place, room) {
                break;
            }
        }
        Ok(())
    }

    fn rename(&mut self, node: u64, request: &mut Request<'_>) -> Result<()> {
        let into = request.u64()?;
        if request.operation == Operation::Rename2 {
            let flags = request.u32()?;
            request.skip(4)?;
            if flags & !NO_REPLACE != 0 {
                return Err(Errno::INVAL);
            }
        }
        let (from, to) = (request.name()?, request.name()?);
        self.meet(Call::Rename)?;
        self.disk.rename((node, from), (into, to))
    }

    fn write(&mut self, node: u64, request: &mut Request<'_>, answer: &mut Answer) -> Result<()> {
        request.skip(8)?;
        let (offset, size) = (request.u64()?, request.u32()?);
        request.skip(20)?;
        let bytes = request.bytes(size)?;
        let failure = self.faults.meet(Call::Write);
        let taken = match failure {
            None => bytes.len(),
            Some(Failure::Short) => bytes.len().div_ceil(2),
            // A failed write may have written some bytes.
            Some(Failure::Errno(_)) if self.faults.chance.percent(50) => 0,
            Some(Failure::Errno(_)) => self.faults.chance.place_up_to(bytes.len()),
        };
        let bytes = bytes.get(..taken).unwrap_or_default();
        self.disk.write(node, offset, bytes)?;
        self.recording.write(node, offset, bytes);
        if let Some(Failure::Errno(errno)) = failure {
            return Err(Errno::from_raw_os_error(errno));
        }
        answer.u32(u32::try_from(taken).unwrap_or(0)).u32(0);
        Ok(())
    }

    fn sync(&mut self, node: u64, request: &mut Request<'_>) -> Result<()> {
        request.skip(8)?;
        let call = if request.u32()? & DATA_ONLY == 0 { Call::Sync } else { Call::SyncData };
        match self.faults.meet(call) {
            // A call that is interrupted before anything was done may be repeated.
            Some(Failure::Errno(errno)) if errno == Errno::INTR.raw_os_error() => Err(Errno::INTR),
            Some(Failure::Errno(errno)) => {
                self.disk.fail_sync(node, &mut self.faults.chance)?;
                Err(Errno::from_raw_os_error(errno))
            }
            Some(Failure::Short) | None => {
                self.recording.flush(node);
                self.disk.sync(node)
            }
        }
    }

    fn allocate(&mut self, node: u64, request: &mut Request<'_>) -> Result<()> {
        request.skip(8)?;
        let (offset, length, mode) = (request.u64()?, request.u64()?, request.u32()?);
        if mode != 0 && mode != PUNCH_HOLE_KEEP_SIZE {
            return Err(Errno::OPNOTSUPP);
        }
        self.meet(Call::Allocate)?;
        match mode {
            0 => self.disk.allocate(node, offset.saturating_add(length)),
            _ => self.disk.punch(node, offset, length),
        }
    }
}
