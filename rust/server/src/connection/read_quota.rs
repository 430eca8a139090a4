//! The read quota: how much a connection may read of a large request if its address has left many requests unfinished.

use std::cell::RefCell;
use std::net::IpAddr;

use delaymq_core::units::Millis;
use delaymq_core::wire::quota::unfinished::{Borrower, ReadsOn};

use crate::access::network::counted;
use crate::server_state::ServerState;

/// See the module.
pub(crate) struct ReadQuota {
    address: IpAddr,
    borrower: RefCell<Borrower>,
}

impl ReadQuota {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self { address: counted(address), borrower: RefCell::default() }
    }

    /// When a connection may read on that has sent so many bytes of a request.
    pub(crate) fn reads_on(&self, state: &ServerState, input_bytes: usize, now: Millis) -> ReadsOn {
        let mut book = state.unfinished.borrow_mut();
        self.borrower.borrow_mut().reads_on(&mut book, self.address, input_bytes, now)
    }

    /// Until when nothing is read.
    pub(crate) fn rests_until(&self, now: Millis) -> Option<Millis> {
        self.borrower.borrow().rests_until(now)
    }

    /// A request of so many bytes is complete.
    pub(crate) fn finished(&self, state: &ServerState, bytes: usize, now: Millis) {
        let mut book = state.unfinished.borrow_mut();
        self.borrower.borrow_mut().finished(&mut book, self.address, bytes, now);
    }

    /// A request of so many bytes was useless.
    pub(crate) fn worthless(&self, state: &ServerState, bytes: usize) {
        let mut book = state.unfinished.borrow_mut();
        self.borrower.borrow_mut().worthless(&mut book, self.address, bytes, state.now());
    }

    /// The connection ended within a request, after so many bytes of it.
    pub(crate) fn ended(&self, state: &ServerState, bytes: usize) {
        let mut book = state.unfinished.borrow_mut();
        self.borrower.borrow_mut().ended(&mut book, self.address, bytes, state.now());
    }
}
