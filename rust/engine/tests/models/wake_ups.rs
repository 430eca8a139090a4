//! Wake-ups of an event loop.

use std::sync::Arc;

use delaymq_engine::{Listener, Store};
use shuttle::sync::{Condvar, Mutex};

use crate::world::Kept;

/// Rung by a listener; who waits for it hears each ring once.
#[derive(Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    ring: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.ring.notify_one();
    }

    pub(crate) fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.ring.wait(rung).unwrap();
        }
        *rung = false;
    }

    /// A bell that a listener of this store rings.
    pub(crate) fn hung_up(store: &Store) -> (Arc<Self>, Kept<Listener>) {
        let bell = Arc::new(Self::default());
        let rung = Arc::clone(&bell);
        let listener = store.listener(Box::new(move || rung.ring())).unwrap();
        (bell, Kept::new(listener))
    }
}
