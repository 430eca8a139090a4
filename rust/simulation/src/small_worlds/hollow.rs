//! Scenes that punch holes in the log and in runs. One checkpoint names the holes, and they are punched after the next.

use delaymq_core::error::Result;

use super::machine::Machine;
use super::stores::{GROUP, LONG, SUBJECT};

/// Two messages that no consumer takes, among many messages that were taken.
pub(super) fn before(machine: &mut Machine) -> Result<()> {
    machine.open()?;
    machine.consumer("slow", GROUP)?;
    let consumer = machine.consumer(SUBJECT, GROUP)?;
    for slow in [true, false, true, false, false] {
        machine.publish(SUBJECT, &[0, 0], LONG)?;
        if slow {
            machine.publish("slow", &[0], 40)?;
        }
        machine.take_all(consumer)?;
    }
    machine.publish(SUBJECT, &[0, 90_000], LONG).map(drop)
}

/// Makes two checkpoints: the first names the holes, and they are punched after the second.
pub(super) fn act(machine: &mut Machine) -> Result<()> {
    machine.checkpoint(u64::MAX)?;
    machine.publish(SUBJECT, &[0], 20)?;
    machine.checkpoint(u64::MAX)?;
    machine.publish(SUBJECT, &[0], 20).map(drop)
}

/// A run in which most messages are pending; two messages in its middle are cancelled.
pub(super) fn before_runs(machine: &mut Machine) -> Result<()> {
    machine.open()?;
    machine.consumer(SUBJECT, GROUP)?;
    let mut receipts = machine.publish(SUBJECT, &[60_000, 61_000, 62_000], LONG)?;
    receipts.extend(machine.publish(SUBJECT, &[63_000, 64_000, 65_000], LONG)?);
    machine.checkpoint(u64::MAX)?;
    receipts.iter().skip(1).take(2).try_for_each(|receipt| machine.cancel(receipt))
}
