//! The scenes of small worlds. Each prepares a store, and then does what is recorded.

use delaymq_core::error::{Error, Result};
use delaymq_core::storage::{Call, Crash, Errno};

use super::golden_store::{STORE_OF_FORMAT_1, lay};
use super::hollow;
use super::machine::{Consumer, Machine};
use super::stores::{FAR_MS, GROUP, LONG, SUBJECT, copying, hollow, hollow_runs, kept, lean, merging, os};
use super::tape::Tape;
use crate::node::NodeOptions;
use crate::planted::KnowsNext;

/// The most bytes of the random bodies of `append_long` and of the scenes that roll.
const FILLS: usize = 900;
/// The time from the beginning of a golden store to its next opening. No message pending in it is due by then.
const KEPT_MS: u64 = 5_000;

/// One scene.
#[derive(Clone, Copy)]
pub struct Scene {
    /// The name of the scene.
    pub name: &'static str,
    /// The options with which its store is opened.
    pub options: fn() -> NodeOptions,
    /// Prepares the store. It may leave the store open or closed.
    before: fn(&mut Machine) -> Result<()>,
    /// Does what is recorded.
    act: fn(&mut Machine) -> Result<()>,
    /// True if a build of the next format runs `act` and all that follows.
    by_next: bool,
}

impl Scene {
    /// Runs the scene. The tape then has all moments of `act`.
    ///
    /// # Errors
    /// None if the core is correct.
    pub fn live(&self, machine: &mut Machine) -> Result<()> {
        (self.before)(machine)?;
        machine.record();
        let _next = self.next_format();
        (self.act)(machine)
    }

    /// Makes this thread a build of the next format while the value lives, if the scene needs one.
    pub(super) fn next_format(&self) -> Option<KnowsNext> {
        self.by_next.then(KnowsNext::new)
    }
}

/// Every scene.
pub const SCENES: [Scene; 21] = [
    scene("first start", kept, nothing, Machine::open),
    scene("append", kept, begun, append),
    scene("append, os", os, begun, append),
    scene("append long", os, begun, append_long),
    scene("roll into the stock", kept, nearly_full, roll),
    scene("roll without stock, os", os, nearly_full, roll),
    scene("seal", kept, written, close_and_open),
    scene("reopen after a kill", kept, killed, open_and_append),
    scene("reopen after a kill, os", os, killed, open_and_append),
    scene("reopen after a torn tail", os, torn, open_and_append),
    scene("reopen after a roll was cut short", os, killed_in_roll, open_and_append),
    scene("reopen after a failed sync", kept, sync_failed, open_and_append),
    scene("run writing", copying, written, first_checkpoint),
    scene("checkpoint", copying, checkpointed, second_checkpoint),
    scene("reopen with a checkpoint unread", copying, unread, open_and_append),
    scene("merge", merging, in_runs, merge),
    scene("retire", lean, finished, retire),
    scene("consuming", lean, checkpointed, consume),
    scene("holes", hollow, hollow::before, hollow::act),
    scene("holes of runs", hollow_runs, hollow::before_runs, hollow::act),
    UPGRADE,
];

/// A scene with one build.
const fn scene(
    name: &'static str,
    options: fn() -> NodeOptions,
    before: fn(&mut Machine) -> Result<()>,
    act: fn(&mut Machine) -> Result<()>,
) -> Scene {
    Scene { name, options, before, act, by_next: false }
}

/// A build of the next format opens a store of this format and takes it over.
const UPGRADE: Scene = Scene {
    name: "upgrade to the next format",
    options: copying,
    before: found_store,
    act: open_checkpoint_and_append,
    by_next: true,
};

#[expect(clippy::unnecessary_wraps, reason = "it stands among others that may fail")]
fn nothing(_: &mut Machine) -> Result<()> {
    Ok(())
}

/// Opens a store and subscribes a group.
fn begin(machine: &mut Machine) -> Result<Consumer> {
    machine.open()?;
    machine.consumer(SUBJECT, GROUP)
}

fn begun(machine: &mut Machine) -> Result<()> {
    begin(machine)?;
    let bytes = machine.chance().below(400) as usize;
    machine.publish(SUBJECT, &[0, 50], bytes).map(drop)
}

/// Messages of every kind: due now, soon and far ahead, cancelled, in flight, acknowledged, given back.
fn written(machine: &mut Machine) -> Result<()> {
    let consumer = begin(machine)?;
    let bytes = machine.chance().below(200) as usize;
    machine.publish(SUBJECT, &[0, 0, 0, 30], bytes)?;
    let far = machine.publish(SUBJECT, &[60_000, FAR_MS, 90_000], bytes)?;
    if let Some(first) = far.first() {
        machine.cancel(first)?;
    }
    let handed = machine.pull(consumer, 3)?;
    if let Some((first, others)) = handed.split_first() {
        machine.give_back((SUBJECT, GROUP), consumer, first)?;
        machine.acknowledge(consumer, others.get(..1).unwrap_or_default())?;
    }
    machine.pass(30)
}

fn append(machine: &mut Machine) -> Result<()> {
    let bytes = machine.chance().below(300) as usize;
    let receipts = machine.submit(SUBJECT, &[0, 20, FAR_MS], bytes)?;
    machine.write()?;
    machine.submit("another", &[0], 3)?;
    machine.write()?;
    machine.node()?.cancel(receipts.last().ok_or(Error::Closed)?)?;
    machine.write()?;
    machine.witness()?;
    let bytes = machine.chance().below(LONG as u64) as usize;
    machine.publish(SUBJECT, &[1], bytes)?;
    machine.pass(25)
}

/// Writes batches of several sectors, and syncs at the end.
fn append_long(machine: &mut Machine) -> Result<()> {
    for _ in 0..3 {
        let bytes = machine.chance().between(100, FILLS as u64) as usize;
        machine.submit(SUBJECT, &[0, 40], bytes)?;
        machine.write()?;
    }
    machine.settle()
}

/// Leaves room for at most two bodies of `FILLS` bytes in the current segment.
fn nearly_full(machine: &mut Machine) -> Result<()> {
    begin(machine)?;
    while machine.node()?.appender().tail_room() > 2 * FILLS as u64 {
        machine.publish(SUBJECT, &[FAR_MS], LONG)?;
    }
    Ok(())
}

fn roll(machine: &mut Machine) -> Result<()> {
    let bytes = machine.chance().between(FILLS as u64 / 2, FILLS as u64) as usize;
    for _ in 0..3 {
        machine.submit(SUBJECT, &[10], bytes)?;
        machine.write()?;
    }
    machine.prepare()?;
    machine.settle()
}

fn close_and_open(machine: &mut Machine) -> Result<()> {
    machine.close()?;
    open_and_append(machine)
}

fn open_and_append(machine: &mut Machine) -> Result<()> {
    machine.open()?;
    let bytes = machine.chance().below(300) as usize;
    machine.publish(SUBJECT, &[0, 40], bytes)?;
    machine.pass(41)
}

fn killed(machine: &mut Machine) -> Result<()> {
    begun(machine)?;
    unsynced(machine)?;
    machine.kill();
    Ok(())
}

/// Writes two batches without a sync.
fn unsynced(machine: &mut Machine) -> Result<()> {
    for _ in 0..2 {
        let bytes = machine.chance().below(300) as usize;
        machine.submit(SUBJECT, &[0, 40], bytes)?;
        machine.node()?.write_batch()?;
        machine.note();
    }
    Ok(())
}

fn torn(machine: &mut Machine) -> Result<()> {
    begun(machine)?;
    unsynced(machine)?;
    append_long(machine)?;
    unsynced(machine)?;
    machine.crash(Crash::PowerCut);
    Ok(())
}

fn killed_in_roll(machine: &mut Machine) -> Result<()> {
    nearly_full(machine)?;
    let bytes = machine.chance().between(FILLS as u64 / 2, FILLS as u64) as usize;
    for _ in 0..3 {
        machine.submit(SUBJECT, &[10], bytes)?;
        machine.write()?;
    }
    let crash = if machine.chance().percent(50) { Crash::PowerCut } else { Crash::Kill };
    machine.crash(crash);
    Ok(())
}

/// After a failed sync, the page cache shows bytes that the disk does not have and never will have.
fn sync_failed(machine: &mut Machine) -> Result<()> {
    begun(machine)?;
    unsynced(machine)?;
    machine.disk().disk().fail_call_as(Call::Sync, 0, Errno::Io, false);
    if machine.node()?.sync().is_ok() {
        return Err(Error::Closed);
    }
    machine.kill();
    Ok(())
}

fn first_checkpoint(machine: &mut Machine) -> Result<()> {
    let piece = machine.chance().one_of(&[1, 400, u64::MAX]);
    machine.checkpoint(piece)?;
    machine.publish(SUBJECT, &[5], 20)?;
    machine.pass(6)
}

fn checkpointed(machine: &mut Machine) -> Result<()> {
    written(machine)?;
    machine.checkpoint(u64::MAX)?;
    let bytes = machine.chance().below(300) as usize;
    machine.publish(SUBJECT, &[0, 200, FAR_MS], bytes).map(drop)
}

/// Publishes while a checkpoint is written. The next checkpoint removes the oldest one.
fn second_checkpoint(machine: &mut Machine) -> Result<()> {
    machine.node()?.begin_checkpoint();
    let far = machine.publish(SUBJECT, &[FAR_MS, 3], 40)?;
    machine.checkpoint(300)?;
    if let Some(first) = far.first() {
        machine.cancel(first)?;
    }
    machine.pass(3)?;
    machine.checkpoint(u64::MAX)
}

/// Damages the newer of two checkpoints.
fn unread(machine: &mut Machine) -> Result<()> {
    checkpointed(machine)?;
    machine.checkpoint(u64::MAX)?;
    unsynced(machine)?;
    machine.kill();
    let image = machine.disk().disk().image();
    let newest = image.keys().rfind(|path| path.ends_with(".checkpoint"));
    machine.disk().disk().damage(newest.ok_or(Error::Closed)?, 30, 1);
    Ok(())
}

/// Fills segments with messages that every group has finished.
fn finished(machine: &mut Machine) -> Result<()> {
    let consumer = begin(machine)?;
    for _ in 0..6 {
        machine.publish(SUBJECT, &[0, 0, 0], LONG)?;
        let handed = machine.take_all(consumer)?;
        debug_assert_eq!(handed.len(), 3);
    }
    machine.publish(SUBJECT, &[0, FAR_MS, 40], LONG)?;
    machine.checkpoint(u64::MAX)?;
    machine.pass(41)
}

/// Two runs with pending messages.
fn in_runs(machine: &mut Machine) -> Result<()> {
    checkpointed(machine)?;
    machine.publish(SUBJECT, &[FAR_MS, 300, FAR_MS], 40)?;
    machine.checkpoint(u64::MAX)
}

/// Dispatches while a merge is written, then cancels and merges again. The merged files are removed.
fn merge(machine: &mut Machine) -> Result<()> {
    let last = machine.publish(SUBJECT, &[FAR_MS], 30)?;
    machine.node()?.begin_checkpoint();
    machine.pass(200)?;
    machine.checkpoint(300)?;
    if let Some(last) = last.first() {
        machine.cancel(last)?;
    }
    machine.pass(100)?;
    machine.checkpoint(u64::MAX)
}

fn retire(machine: &mut Machine) -> Result<()> {
    for _ in 0..3 {
        machine.checkpoint(u64::MAX)?;
        machine.publish(SUBJECT, &[0], 30)?;
        machine.pass(2)?;
    }
    Ok(())
}

fn consume(machine: &mut Machine) -> Result<()> {
    let consumer = machine.consumer(SUBJECT, GROUP)?;
    let handed = machine.pull(consumer, 2)?;
    machine.acknowledge(consumer, &handed)?;
    machine.pass(250)?;
    machine.take_all(consumer)?;
    machine.checkpoint(u64::MAX)
}

/// Puts the golden store on the disk, as a build of this format left it.
fn found_store(machine: &mut Machine) -> Result<()> {
    let disk = machine.disk().disk().clone();
    lay(&disk, STORE_OF_FORMAT_1)?;
    *machine.disk().tape() = Tape::of_store(&disk)?;
    machine.clock.advance(KEPT_MS);
    Ok(())
}

fn open_checkpoint_and_append(machine: &mut Machine) -> Result<()> {
    open_and_append(machine)?;
    machine.checkpoint(u64::MAX)?;
    machine.close()
}
