//! Who asks: sockets around the core's connections and the engine's store. A decision in here is a
//! defect.
//!
//! One thread runs everything that has to do with sockets. A [`peer`] is one connection and its task;
//! what it asks is taken to the [`hub`], which all of them share. What may have to wait for the disk or
//! for other threads goes to a small [`pool`]; what waits for the log to be durable waits in the hub by
//! its position, which costs no thread. A [`courier`] sends a subscription's messages as its credit and
//! the connection's room allow. A QMQ consumer has a [`session`], whatever connection it comes by, and
//! its pulls wait at the [`desks`] of its group or subject. The [`guard`] knows who may ask, and [`metrics`] what was counted.

mod acknowledging;
mod administration;
mod asking;
mod borrowing;
mod broadcasting;
mod by_key;
mod consumers;
mod counters;
mod courier;
mod desks;
mod errands;
mod guard;
mod holding;
mod hub;
mod listener;
mod loading;
mod managing;
mod metrics;
mod network;
mod on_offline;
mod options;
mod peer;
mod pending;
mod pool;
mod publishing;
mod pulling;
mod recurring;
mod requests;
mod room;
mod routes;
mod server;
mod session;
mod settling;
mod sharing;
mod sockets;
mod subscribing;
mod switched_off;
mod token;
mod waits;

pub use administration::status_told;
pub use guard::GuardOptions;
pub use network::Network;
pub use options::{ServerError, ServerOptions};
pub use server::{Places, Server, Stopped};
pub use token::TokenHash;
