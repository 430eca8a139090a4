//! Histories with a name: faults that happened once, or nearly, step by step.

mod backlog;
mod clock;
mod consumers;
mod files;
mod filtering;
mod forecast;
mod judging;
mod moves;
mod opening;
mod pending;
mod qmq;
mod queues;
mod read_again;
mod starts;
mod trouble;
