//! The options of a client.

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientOptions {
    /// The addresses of all nodes as errors show them.
    pub address: String,
    /// The timeout of a call as errors show it.
    pub timeout: String,
    /// The name and release of the client.
    pub client: String,
    /// The token that authorizes the client, or empty.
    pub token: Vec<u8>,
    /// Timeout of the first request of a connection.
    pub hello_ms: u64,
    /// After this time without traffic in one of the directions, the client pings the server.
    pub ping_ms: u64,
    /// After this time without a byte from the server, the connection is closed.
    pub silence_ms: u64,
    /// Delay before a subscription is requested again after a temporary refusal.
    pub again_ms: u64,
}

#[cfg(test)]
impl ClientOptions {
    /// The options of the clients of tests.
    pub(crate) fn of_tests() -> Self {
        Self {
            address: "delaymq://server:1".to_owned(),
            timeout: "30 s".to_owned(),
            client: "test".to_owned(),
            token: Vec::new(),
            hello_ms: 10_000,
            ping_ms: 10_000,
            silence_ms: 30_000,
            again_ms: 250,
        }
    }
}
