//! Connection quotas: how many connections there may be, of one address and in all.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use delaymq_core::wire::quota::admission::ConnectionCounts;

use crate::access::network::counted;

/// The quota of one kind of connection.
pub(crate) struct ConnectionQuota(Rc<RefCell<ConnectionCounts<IpAddr>>>);

impl ConnectionQuota {
    pub(crate) fn new(all_max: usize, each_max: usize) -> Self {
        let limit = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
        Self(Rc::new(RefCell::new(ConnectionCounts::new(limit(all_max), limit(each_max)))))
    }

    /// A slot; `None` if the quota is full.
    pub(crate) fn take(&self, address: IpAddr) -> Option<ConnectionSlot> {
        let address = counted(address);
        let is_open = self.0.borrow_mut().open(address);
        is_open.then(|| ConnectionSlot { counts: Rc::clone(&self.0), address })
    }

    /// How many slots are taken.
    pub(crate) fn taken(&self) -> u32 {
        self.0.borrow().all()
    }
}

/// See the module; it is given back when this is dropped.
pub(crate) struct ConnectionSlot {
    counts: Rc<RefCell<ConnectionCounts<IpAddr>>>,
    address: IpAddr,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.counts.borrow_mut().close(self.address);
    }
}
