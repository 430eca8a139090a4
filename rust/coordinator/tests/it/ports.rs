//! Ports for servers that are stopped and started again at the same place.

use std::net::TcpListener;
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that Linux gives to outgoing connections, of which another process could get one while its server
/// is down.
const PORTS: Range<u16> = 10_000..20_800;

/// The number of ports that were tried by this process.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// Ports on 127.0.0.1 that nobody listens at, all different. Processes that ask at the same time begin at different ports.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let length = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(97) % length;
    let next = || (first + u32::from(TRIED.fetch_add(1, Ordering::Relaxed))) % length;
    let ports = std::iter::repeat_with(|| PORTS.start + u16::try_from(next()).unwrap());
    ports.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(count).collect()
}
