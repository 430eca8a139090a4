//! A server whose disk fails when it is told to.

use std::sync::Arc;

use delaymq_engine::{Durability, Options, Store};
use delaymq_server::{Server, ServerOptions};

use crate::engine_support::{Faults, Switches};
use crate::support::Served;

/// A served store on a disk with switches, in small segments.
pub(crate) fn serve_faulty(options: ServerOptions) -> (Served, Arc<Switches>) {
    let folder = tempfile::tempdir().unwrap();
    let (storage, switches) = Faults::over(folder.path());
    let chosen = Options { durability: Durability::Disk, segment_bytes: 1 << 20, ..Options::default() };
    let store = Store::open_on(storage, folder.path(), chosen, &mut |_| {}).unwrap();
    let server = Server::start(Arc::clone(&store), options).unwrap();
    (Served { server, store, folder }, switches)
}
