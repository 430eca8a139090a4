//! Access control: which peers may ask what, by their token or by the address of a QMQ client, and the notices about
//! peers that may not.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::quota::admission::{Standing, WrongTokens};
use delaymq_core::wire::quota::notices::{Notice, NoticeKind, Notices};

use crate::access::network::counted;
use crate::access::token::TokenHash;
use crate::counters::Counter;
use crate::options::{AccessOptions, ServerOptions};

/// How many wrong tokens an address may send at once, and how long it then waits for another try.
const WRONG_TOKENS: u32 = 10;
const WRONG_TOKEN_MS: u64 = 10_000;
/// Addresses whose wrong tokens are remembered.
const WRONG_ADDRESSES_MAX: usize = 10_000;
/// Notices that are kept at the same time.
const NOTICES_MAX: usize = 64;

/// The verdict on a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Right,
    Wrong,
    /// It was not checked.
    Unheard,
}

impl Verdict {
    /// The answer to a hello whose token is not accepted.
    pub(crate) fn refusal(self) -> Option<RemoteError> {
        let (code, words) = match self {
            Self::Right => return None,
            Self::Wrong => (ErrorCode::Unauthorized, "the token is wrong"),
            Self::Unheard => (ErrorCode::Busy, "too many wrong tokens came from this address; try again later"),
        };
        Some(RemoteError::new(code, words))
    }
}

/// Notices about peers, from the server's thread to the thread that logs them.
#[derive(Clone, Debug)]
pub(crate) struct NoticeLog(Arc<Mutex<Notices<IpAddr>>>);

impl NoticeLog {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Notices::new(NOTICES_MAX))))
    }

    pub(crate) fn take(&self) -> (Vec<Notice<IpAddr>>, u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, kind: NoticeKind, address: IpAddr, detail: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).note(kind, address.to_canonical(), detail);
    }
}

/// See the module.
pub(crate) struct AccessControl {
    options: AccessOptions,
    wrong: RefCell<WrongTokens<IpAddr>>,
    log: NoticeLog,
    /// Tokens that were wrong.
    pub(crate) wrong_tokens: Counter,
    /// Tokens that were not checked.
    pub(crate) unheard_tokens: Counter,
    /// Requests of peers that had not sent the token.
    pub(crate) unauthorized: Counter,
    /// QMQ clients that were refused by their address.
    pub(crate) turned_away: Counter,
}

impl AccessControl {
    pub(crate) fn new(options: AccessOptions, log: NoticeLog) -> Self {
        Self {
            options,
            wrong: RefCell::new(WrongTokens::new(WRONG_TOKENS, WRONG_TOKEN_MS, WRONG_ADDRESSES_MAX)),
            log,
            wrong_tokens: Counter::default(),
            unheard_tokens: Counter::default(),
            unauthorized: Counter::default(),
            turned_away: Counter::default(),
        }
    }

    /// The standing of a peer, by its address.
    pub(crate) fn standing(&self, address: IpAddr) -> Standing {
        if self.options.token.is_none() {
            Standing::Trusted
        } else if self.options.qmq_clients_from.iter().any(|network| network.contains(address)) {
            Standing::QmqClient
        } else {
            Standing::Stranger
        }
    }

    /// Checks the token of a hello.
    pub(crate) fn enter(&self, address: IpAddr, token: &[u8], now: Millis) -> Verdict {
        match &self.options.token {
            Some(expected) => self.judge(expected, address, token, now),
            None => Verdict::Right,
        }
    }

    /// True if there is an administrator's token.
    pub(crate) const fn has_administrator(&self) -> bool {
        self.options.admin_token.is_some()
    }

    /// Checks the administrator's token.
    pub(crate) fn administer(&self, address: IpAddr, token: &[u8], now: Millis) -> Verdict {
        match &self.options.admin_token {
            Some(expected) => self.judge(expected, address, token, now),
            None => Verdict::Wrong,
        }
    }

    fn judge(&self, expected: &TokenHash, address: IpAddr, token: &[u8], now: Millis) -> Verdict {
        let key = counted(address);
        let mut wrong = self.wrong.borrow_mut();
        if !wrong.may_try(key, now) {
            self.unheard_tokens.add(1);
            self.note(NoticeKind::TokenUnheard, address, "");
            return Verdict::Unheard;
        }
        if expected.is_of(token) {
            return Verdict::Right;
        }
        wrong.note(key, now);
        self.wrong_tokens.add(1);
        self.note(NoticeKind::WrongToken, address, "");
        Verdict::Wrong
    }

    /// A peer sent a request before its token. Returns the answer.
    pub(crate) fn refused(&self, address: IpAddr) -> RemoteError {
        self.unauthorized.add(1);
        self.note(NoticeKind::Unauthorized, address, "");
        RemoteError::new(ErrorCode::Unauthorized, "a hello with the server's token comes first")
    }

    /// A QMQ client came from an address that is not expected.
    pub(crate) fn turned_away(&self, address: IpAddr) {
        self.turned_away.add(1);
        self.note(NoticeKind::QmqClientRefused, address, "");
    }

    /// Adds a notice for the log.
    pub(crate) fn note(&self, kind: NoticeKind, address: IpAddr, detail: &str) {
        self.log.note(kind, address, detail);
    }
}

/// Refuses options that would serve strangers without a token.
pub(crate) fn check(options: &ServerOptions) -> Result<()> {
    let refused = |argument, expected: &str, found: &str| {
        Err(Error::InvalidArgument { argument, expected: expected.to_owned(), found: found.to_owned() })
    };
    let addresses = [Some(options.listen), options.http];
    let open = addresses.into_iter().flatten().find(|address| !address.ip().to_canonical().is_loopback());
    let Some(open) = open else { return Ok(()) };
    if options.access.token.is_none() {
        let found = format!("none, to listen on {}", open.ip());
        return refused("server.token_hash", "the hash of a token, as `delaymq token` prints it", &found);
    }
    match &options.advertised_address {
        None => {
            let found = format!("none, to listen on {}", open.ip());
            refused("server.advertised_address", "host:port, where clients reach this server", &found)
        }
        Some(address) if leads_nowhere(address) => {
            refused("server.advertised_address", "a host that clients can connect to", address)
        }
        Some(_) => Ok(()),
    }
}

/// True for an address that stands for all addresses of a machine: no client can connect to it.
fn leads_nowhere(address: &str) -> bool {
    address.parse().is_ok_and(|address: SocketAddr| address.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::network::Network;

    fn access(options: AccessOptions) -> AccessControl {
        AccessControl::new(options, NoticeLog::new())
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_server_without_a_token_trusts_whom_it_hears() {
        let open = access(AccessOptions::default());
        assert_eq!(open.standing(address("127.0.0.1")), Standing::Trusted);
        assert_eq!(open.enter(address("127.0.0.1"), b"any", Millis(0)), Verdict::Right);
        assert_eq!(open.administer(address("127.0.0.1"), b"any", Millis(0)), Verdict::Wrong, "nobody may");
        assert!(!open.has_administrator());
    }

    #[test]
    fn a_token_opens_and_where_a_peer_comes_from_opens_qmqs_commands() {
        let from = vec![Network::parse("server.qmq_clients_from", "10.0.0.0/8").unwrap()];
        let options =
            AccessOptions { token: Some(TokenHash::of(b"token")), qmq_clients_from: from, ..Default::default() };
        let access = access(options);
        assert_eq!(access.standing(address("127.0.0.1")), Standing::Stranger);
        assert_eq!(access.standing(address("10.1.2.3")), Standing::QmqClient);
        assert_eq!(access.standing(address("::ffff:10.1.2.3")), Standing::QmqClient);
        assert_eq!(access.enter(address("10.1.2.3"), b"token", Millis(0)), Verdict::Right);
        assert_eq!(access.enter(address("10.1.2.3"), b"Token", Millis(0)), Verdict::Wrong);
        assert_eq!(access.administer(address("10.1.2.3"), b"token", Millis(0)), Verdict::Wrong);
    }

    #[test]
    fn an_address_that_sends_wrong_tokens_is_not_listened_to_for_a_while() {
        let hash = |token: &[u8]| Some(TokenHash::of(token));
        let both = AccessOptions { token: hash(b"token"), admin_token: hash(b"admin"), ..Default::default() };
        let access = access(both);
        let (bad, good) = (address("2001:db8::1"), address("2001:db8:0:1::1"));
        for _ in 0..WRONG_TOKENS / 2 {
            assert_eq!(access.enter(bad, b"admin", Millis(0)), Verdict::Wrong);
            assert_eq!(access.administer(bad, b"token", Millis(0)), Verdict::Wrong);
        }
        // Even a right token, from any address of the same owner.
        assert_eq!(access.enter(address("2001:db8::ffff"), b"token", Millis(0)), Verdict::Unheard);
        assert_eq!(access.administer(bad, b"admin", Millis(WRONG_TOKEN_MS - 1)), Verdict::Unheard);
        assert_eq!(access.enter(good, b"token", Millis(0)), Verdict::Right);
        assert_eq!(access.administer(bad, b"admin", Millis(WRONG_TOKEN_MS)), Verdict::Right);
        assert_eq!((access.wrong_tokens.read(), access.unheard_tokens.read()), (u64::from(WRONG_TOKENS), 2));
        let (told, unlisted) = access.log.take();
        let told: Vec<_> = told.iter().map(|notice| (notice.kind, notice.count)).collect();
        let expected = [(NoticeKind::WrongToken, 10), (NoticeKind::TokenUnheard, 1), (NoticeKind::TokenUnheard, 1)];
        assert_eq!((told.as_slice(), unlisted), (&expected[..], 0));
    }

    #[test]
    fn strangers_are_not_listened_to_without_a_token_and_an_address_for_clients() {
        let open = |listen: &str, token: bool, advertised: Option<&str>| ServerOptions {
            listen: listen.parse().unwrap(),
            access: AccessOptions { token: token.then(|| TokenHash::of(b"token")), ..Default::default() },
            advertised_address: advertised.map(str::to_owned),
            ..ServerOptions::default()
        };
        let named = |options: &ServerOptions| check(options).err().map(|error| error.to_string());
        for listen in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(named(&open(listen, false, None)), None, "{listen}");
        }
        for listen in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[2001:db8::1]:1", "[::ffff:10.0.0.1]:1"] {
            assert!(named(&open(listen, false, Some("a:1"))).unwrap().contains("server.token_hash"), "{listen}");
            let refused = named(&open(listen, true, None)).unwrap();
            assert!(refused.contains("server.advertised_address"), "{refused}");
            for nowhere in ["0.0.0.0:20801", "[::]:20801"] {
                let refused = named(&open(listen, true, Some(nowhere))).unwrap();
                assert!(refused.contains("server.advertised_address"), "{refused}");
            }
            assert_eq!(named(&open(listen, true, Some("queue.example:20801"))), None);
        }
        let http = ServerOptions { http: Some("0.0.0.0:1".parse().unwrap()), ..ServerOptions::default() };
        assert!(named(&http).unwrap().contains("server.token_hash"), "its other address counts, too");
    }
}
