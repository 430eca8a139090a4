//! The limits of one peer.

/// The limits of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimits {
    /// How long a peer may take to authenticate, in milliseconds.
    pub first_request_ms_max: u64,
    /// The largest frame of a peer that is not admitted.
    pub first_request_bytes_max: usize,
    /// How long a frame may take from its first byte to its last, in milliseconds.
    pub frame_ms_max: u64,
    /// How long bytes may wait for the peer to read them, in milliseconds.
    pub reader_ms_max: u64,
    /// How long a peer that has subscriptions may be silent, in milliseconds.
    pub silence_ms_max: u64,
    /// Requests under way, without held pulls.
    pub requests_max: usize,
    /// Held pulls.
    pub held_max: usize,
    /// Bytes that may wait to be written before the connection stops taking requests.
    pub output_bytes_max: usize,
    /// Bytes that requests under way may hold before the connection stops taking more; also the limit for
    /// subscriptions.
    pub kept_bytes_max: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            first_request_ms_max: 5_000,
            first_request_bytes_max: 16 << 10,
            frame_ms_max: 60_000,
            reader_ms_max: 30_000,
            silence_ms_max: 60_000,
            requests_max: 1_024,
            held_max: 10_000,
            output_bytes_max: 16 << 20,
            kept_bytes_max: 16 << 20,
        }
    }
}
