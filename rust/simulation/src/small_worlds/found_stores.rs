//! Disks on which a store lies that a build of an earlier format has written.

use delaymq_core::error::Result;

use super::formats;
use super::machine::Machine;
use super::scenes::KEPT_MS;
use super::tape::Tape;

/// As a build of that time has left it; so are those below.
pub(super) fn kept_of_7(machine: &mut Machine) -> Result<()> {
    found(machine, formats::OF_FORMAT_7)
}

pub(super) fn kept_of_6(machine: &mut Machine) -> Result<()> {
    found(machine, formats::OF_FORMAT_6)
}

pub(super) fn kept_of_5(machine: &mut Machine) -> Result<()> {
    found(machine, formats::OF_FORMAT_5)
}

pub(super) fn kept_of_4(machine: &mut Machine) -> Result<()> {
    found(machine, formats::OF_FORMAT_4)
}

pub(super) fn kept_of_3(machine: &mut Machine) -> Result<()> {
    found(machine, formats::OF_FORMAT_3)
}

pub(super) fn kept_of_2(machine: &mut Machine) -> Result<()> {
    found(machine, formats::OF_FORMAT_2)
}

pub(super) fn kept_of_1(machine: &mut Machine) -> Result<()> {
    found(machine, formats::OF_FORMAT_1)
}

fn found(machine: &mut Machine, golden: &str) -> Result<()> {
    let disk = machine.disk().disk().clone();
    formats::lay(&disk, golden)?;
    *machine.disk().tape() = Tape::of_store(&disk)?;
    machine.clock.advance(KEPT_MS);
    Ok(())
}
