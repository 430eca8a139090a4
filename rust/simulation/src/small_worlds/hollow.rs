//! A store that punches holes in its log: they are named first, and punched with the next checkpoint.

use delaymq_core::error::Result;

use super::machine::Machine;
use super::stores::{GROUP, LONG, SUBJECT};

/// A message that no consumer takes, and segments of others that were taken.
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

/// The first checkpoint names holes, the second is followed by the punches.
pub(super) fn act(machine: &mut Machine) -> Result<()> {
    machine.checkpoint(u64::MAX)?;
    machine.publish(SUBJECT, &[0], 20)?;
    machine.checkpoint(u64::MAX)?;
    machine.publish(SUBJECT, &[0], 20).map(drop)
}

/// A run of messages of which most wait; those in its midst were cancelled.
pub(super) fn before_runs(machine: &mut Machine) -> Result<()> {
    machine.open()?;
    machine.consumer(SUBJECT, GROUP)?;
    let mut receipts = machine.publish(SUBJECT, &[60_000, 61_000, 62_000], LONG)?;
    receipts.extend(machine.publish(SUBJECT, &[63_000, 64_000, 65_000], LONG)?);
    machine.checkpoint(u64::MAX)?;
    receipts.iter().skip(1).take(2).try_for_each(|receipt| machine.cancel(receipt))
}
