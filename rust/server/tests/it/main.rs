//! The server over its sockets. All tests of the server are one program, since each program costs a link.

#![cfg(test)]

mod access;
mod broadcasts;
mod cluster_pages;
#[path = "../../../engine/tests/it/support/mod.rs"]
mod engine_support;
mod faults_of_qmq;
#[path = "support/faulty.rs"]
mod faulty;
mod floods;
mod gathered_publishes;
#[path = "support/keeping.rs"]
mod keeping;
mod leases;
mod limits;
mod listening;
mod memory;
mod own_commands;
#[path = "support/planting.rs"]
mod planting;
mod prometheus;
mod qmq;
mod qmq_consumers;
mod qmq_filters;
mod quotas;
mod relay;
mod standby;
mod stuck_disk;
mod subjects;
mod support;
