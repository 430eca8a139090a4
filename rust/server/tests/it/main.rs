//! The server by its sockets. One program has all tests of the server, since each more costs a link.

#![cfg(test)]

#[path = "../../../engine/tests/it/support/mod.rs"]
mod engine_support;
mod faults_of_qmq;
#[path = "support/faulty.rs"]
mod faulty;
mod floods;
mod guarded;
#[path = "support/keeping.rs"]
mod keeping;
mod kept;
mod leases;
mod limits;
mod own;
#[path = "support/planting.rs"]
mod planting;
mod prometheus;
mod pulling;
mod qmq;
mod shares;
mod stuck_disk;
mod support;
