//! Tells a thread that waits for many things at once, an event loop's: a descriptor becomes
//! readable, and one call says what happened since the last one.
//!
//! Whatever happens until it is drained makes the descriptor readable once, so that a batch costs
//! one wake-up and a store that nobody listens to costs none.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use delaymq_core::error::Result;
use delaymq_core::units::Sequence;

use crate::files::storage_error;
use crate::held;

/// Nobody waits for a position.
const NOWHERE: u64 = u64::MAX;

/// The two ends of the way to the listening thread.
#[derive(Debug)]
struct Wire {
    listener: UnixStream,
    teller: UnixStream,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Notifier {
    wire: OnceLock<Wire>,
    /// The smallest position that somebody waits for.
    wanted: AtomicU64,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    is_readable: bool,
    tokens: Vec<u64>,
    reports: bool,
}

impl Default for Notifier {
    fn default() -> Self {
        Self { wire: OnceLock::new(), wanted: AtomicU64::new(NOWHERE), told: Mutex::default() }
    }
}

/// What happened since the last look.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tidings {
    /// The tokens of the subscriptions that have news, each once.
    pub tokens: Vec<u64>,
    /// There are reports to fetch.
    pub reports: bool,
}

impl Notifier {
    /// The descriptor that becomes readable; made by the first call.
    ///
    /// # Errors
    /// `Storage` where the system gives no more descriptors.
    pub(crate) fn listen(&self) -> Result<RawFd> {
        if let Some(wire) = self.wire.get() {
            return Ok(wire.listener.as_raw_fd());
        }
        let failed = |error| storage_error("open", "a socket pair", &error);
        let (listener, teller) = UnixStream::pair().map_err(failed)?;
        for end in [&listener, &teller] {
            end.set_nonblocking(true).map_err(failed)?;
        }
        Ok(self.wire.get_or_init(|| Wire { listener, teller }).listener.as_raw_fd())
    }

    /// What happened, once; the descriptor is not readable until more does.
    pub(crate) fn drain(&self) -> Tidings {
        let mut told = held(&self.told);
        if let Some(wire) = self.wire.get() {
            // One byte at most is there, since it is written under this lock and only once.
            let mut bytes = [0; 16];
            while matches!((&wire.listener).read(&mut bytes), Err(error) if error.kind() == ErrorKind::Interrupted) {}
        }
        told.is_readable = false;
        let Told { tokens, reports, .. } = &mut *told;
        Tidings { tokens: std::mem::take(tokens), reports: std::mem::take(reports) }
    }

    /// From now on `reached` tells when everything below `position` is visible; whoever calls looks
    /// at the position afterwards.
    pub(crate) fn want(&self, position: Sequence) {
        self.wanted.store(position.0, Ordering::SeqCst);
    }

    /// Everything below `visible` is visible now.
    pub(crate) fn reached(&self, visible: Sequence) {
        if self.wanted.load(Ordering::SeqCst) <= visible.0 {
            self.wanted.store(NOWHERE, Ordering::SeqCst);
            self.tell(|_| {});
        }
    }

    /// There is news for the subscription that has this token.
    pub(crate) fn news(&self, token: u64) {
        self.tell(|told| told.tokens.push(token));
    }

    /// There is a report.
    pub(crate) fn report(&self) {
        self.tell(|told| told.reports = true);
    }

    /// Something ended: whoever listens looks at everything.
    pub(crate) fn end(&self) {
        self.tell(|_| {});
    }

    fn tell(&self, note: impl FnOnce(&mut Told)) {
        let Some(wire) = self.wire.get() else { return };
        let mut told = held(&self.told);
        note(&mut told);
        if std::mem::replace(&mut told.is_readable, true) {
            return;
        }
        // A full wire is readable already; one whose other end is gone has nobody to tell.
        while matches!((&wire.teller).write(&[1]), Err(error) if error.kind() == ErrorKind::Interrupted) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(notifier: &Notifier) -> bool {
        let mut byte = [0];
        matches!((&notifier.wire.get().unwrap().listener).read(&mut byte), Ok(1))
    }

    #[test]
    fn what_happens_between_two_looks_is_told_once() {
        let notifier = Notifier::default();
        notifier.news(1);
        notifier.listen().unwrap();
        assert!(!is_readable(&notifier));
        notifier.news(7);
        notifier.news(9);
        notifier.report();
        assert_eq!(notifier.drain(), Tidings { tokens: vec![7, 9], reports: true });
        assert!(!is_readable(&notifier));
        assert_eq!(notifier.drain(), Tidings::default());
        notifier.news(7);
        assert!(is_readable(&notifier));
    }

    #[test]
    fn a_position_is_told_when_it_is_reached_and_not_before() {
        let notifier = Notifier::default();
        notifier.listen().unwrap();
        notifier.want(Sequence(5));
        notifier.reached(Sequence(4));
        assert!(!is_readable(&notifier));
        notifier.reached(Sequence(6));
        assert!(is_readable(&notifier));
        notifier.drain();
        notifier.reached(Sequence(7));
        assert!(!is_readable(&notifier));
    }
}
