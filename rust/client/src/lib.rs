//! A client of a delaymq server: what a program that calls `connect` runs on.
//!
//! Enter: encoded requests from any thread, and bytes from a socket. Leave: one answer or error for each request,
//! messages of subscriptions, and bytes to the socket.
//!
//! Read [`session`] first: the state of a client, without a socket, thread or clock, which the simulation over
//! connections drives. Then [`nodes`]: which server is connected to next. Then [`transport`]: the socket, the thread
//! that reconnects, and how callers wait. [`failure`] has the errors, [`options`] what a client is opened with.

pub mod failure;
pub mod nodes;
pub mod options;
pub mod session;
pub mod transport;
