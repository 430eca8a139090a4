//! A server whose disk fails when it is told to.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_engine::{Durability, Options, Store};
use delaymq_server::{Server, ServerOptions};

use crate::engine_support::{Faults, Switches};
use crate::support::Served;

/// The switches of a disk, which is stuck no longer once a test is over: a server whose disk is stuck cannot end, and
/// a test that fails meanwhile would never say so.
pub(crate) struct Faulty(Arc<Switches>);

impl Deref for Faulty {
    type Target = Switches;

    fn deref(&self) -> &Switches {
        &self.0
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        for stuck in [&self.0.stuck, &self.0.stuck_runs, &self.0.stuck_reads, &self.0.no_segments] {
            stuck.store(false, Ordering::SeqCst);
        }
    }
}

/// A served store on a disk with switches, in small segments.
pub(crate) fn serve_faulty(options: ServerOptions) -> (Served, Faulty) {
    let folder = tempfile::tempdir().unwrap();
    let (storage, switches) = Faults::over(folder.path());
    let chosen = Options { durability: Durability::Disk, segment_bytes: 1 << 20, ..Options::default() };
    let store = Store::open_on(storage, folder.path(), chosen, &mut |_| {}).unwrap();
    let server = Server::start(Arc::clone(&store), options).unwrap();
    (Served { server, store, folder }, Faulty(switches))
}
