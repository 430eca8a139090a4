//! Histories with a name: what was once wrong, or nearly, step by step.

mod backlog;
mod consumers;
mod files;
mod forecast;
mod judging;
mod moves;
mod opening;
mod pending;
mod qmq;
mod queues;
mod trouble;
