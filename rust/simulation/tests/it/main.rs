//! The core on simulated disks, clocks and peers. All tests of the simulation are one program, since each program costs
//! a link.

mod archives;
mod cluster;
mod connected;
mod copies;
mod copying;
mod damage_seen;
mod downtime;
mod facts_judged;
mod faults_of_bytes;
mod faults_of_qmq;
mod flipped_bits;
mod golden_store;
mod histories;
mod holes;
mod interleaving;
mod keys;
mod load_files;
mod merging;
mod mixed_formats;
mod moments;
mod moving;
mod planted;
mod rebuilding;
mod recurring;
mod retention_by_subject;
mod rig;
mod run_holes;
mod salvage;
mod small_worlds;
mod snapshots;
mod staging;
mod storage_sweep;
mod turns;
