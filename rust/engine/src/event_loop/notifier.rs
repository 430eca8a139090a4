//! Wake-ups for threads that wait for many things at once, as event loops do. A descriptor becomes readable or a
//! function is called, and one call returns everything that happened since the last one.
//!
//! All that happens until it is drained costs one wake-up, so a batch costs one, and a store without listeners none.
//! Each event loop has a notifier of its own.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Sequence;

use crate::files::system_errors::storage_error;
use crate::held;
use crate::sync::{AtomicU64, Mutex, RwLock};

/// No thread waits for a position.
const NOWHERE: u64 = u64::MAX;

/// Wakes the listener of a notifier. Any thread of the store calls it, under locks of the store: it neither waits nor
/// calls the store.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// How the listening thread is woken.
enum Way {
    /// By a pair of sockets.
    Wire { listener: UnixStream, teller: UnixStream },
    /// By a call.
    Call(Wake),
}

impl Way {
    fn wire() -> Result<Self> {
        let failed = |error| storage_error("open", "a socket pair", &error);
        let (listener, teller) = UnixStream::pair().map_err(failed)?;
        for end in [&listener, &teller] {
            end.set_nonblocking(true).map_err(failed)?;
        }
        Ok(Self::Wire { listener, teller })
    }

    fn wake(&self) {
        match self {
            // A full socket is readable already, and one whose other end is gone has no listener.
            Self::Wire { teller, .. } => {
                while matches!((&*teller).write(&[1]), Err(error) if error.kind() == ErrorKind::Interrupted) {}
            }
            Self::Call(wake) => wake(),
        }
    }

    /// The listener has drained everything.
    fn rest(&self) {
        if let Self::Wire { listener, .. } = self {
            // At most one byte is there, since it is written under a lock and only once.
            let mut bytes = [0; 16];
            while matches!((&*listener).read(&mut bytes), Err(error) if error.kind() == ErrorKind::Interrupted) {}
        }
    }

    /// Fails with `Closed` if it is woken by a call.
    fn descriptor(&self) -> Result<RawFd> {
        match self {
            Self::Wire { listener, .. } => Ok(listener.as_raw_fd()),
            Self::Call(_) => Err(Error::Closed),
        }
    }
}

/// See the module.
pub(crate) struct Notifier {
    way: OnceLock<Way>,
    /// The smallest position that a thread waits for.
    wanted: AtomicU64,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    is_woken: bool,
    tokens: Vec<u64>,
    /// Tokens that are reported for each event, once until drained.
    watched: BTreeSet<u64>,
    reports: bool,
}

impl Default for Notifier {
    fn default() -> Self {
        Self { way: OnceLock::new(), wanted: AtomicU64::new(NOWHERE), told: Mutex::default() }
    }
}

/// What happened since the last drain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wakeup {
    /// The tokens of what has something new, each once.
    pub tokens: Vec<u64>,
    /// There are reports to fetch.
    pub reports: bool,
}

impl Notifier {
    /// A notifier that wakes by a call.
    pub(crate) fn calling(wake: Wake) -> Self {
        Self { way: OnceLock::from(Way::Call(wake)), ..Self::default() }
    }

    /// The descriptor that becomes readable; the first call creates it.
    /// Fails with `Storage` if the system has no more descriptors.
    pub(crate) fn listen(&self) -> Result<RawFd> {
        if let Some(way) = self.way.get() {
            return way.descriptor();
        }
        let wire = Way::wire()?;
        self.way.get_or_init(|| wire).descriptor()
    }

    /// What happened, once. The listener is not woken until more happens.
    pub(crate) fn drain(&self) -> Wakeup {
        let mut told = held(&self.told);
        if let Some(way) = self.way.get() {
            way.rest();
        }
        told.is_woken = false;
        let Told { tokens, watched, reports, .. } = &mut *told;
        tokens.extend(std::mem::take(watched));
        Wakeup { tokens: std::mem::take(tokens), reports: std::mem::take(reports) }
    }

    /// From now on `reached` wakes when everything below `position` is visible. The caller looks at the position
    /// afterwards.
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

    /// The subscription with this token has something new.
    pub(crate) fn news(&self, token: u64) {
        self.tell(|told| told.tokens.push(token));
    }

    /// Something new under a token that is reported for each event.
    pub(crate) fn watched(&self, token: u64) {
        self.tell(|told| {
            told.watched.insert(token);
        });
    }

    /// There is a report.
    pub(crate) fn report(&self) {
        self.tell(|told| told.reports = true);
    }

    /// Something ended: the listener looks at everything.
    pub(crate) fn end(&self) {
        self.tell(|_| {});
    }

    fn tell(&self, note: impl FnOnce(&mut Told)) {
        let Some(way) = self.way.get() else { return };
        let mut told = held(&self.told);
        note(&mut told);
        if !std::mem::replace(&mut told.is_woken, true) {
            way.wake();
        }
    }
}

/// The notifiers of a store: its own, and one for each listener.
#[derive(Default)]
pub(crate) struct Notifiers {
    own: Arc<Notifier>,
    others: RwLock<Vec<Arc<Notifier>>>,
}

impl Notifiers {
    /// The store's own.
    pub(crate) fn own(&self) -> &Arc<Notifier> {
        &self.own
    }

    /// Adds a notifier.
    pub(crate) fn add(&self, notifier: &Arc<Notifier>) {
        self.others.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(notifier));
    }

    /// Removes a notifier.
    pub(crate) fn remove(&self, notifier: &Arc<Notifier>) {
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        others.retain(|other| !Arc::ptr_eq(other, notifier));
    }

    /// Calls `tell` with each notifier.
    pub(crate) fn each(&self, tell: impl Fn(&Notifier)) {
        tell(&self.own);
        for other in self.others.read().unwrap_or_else(PoisonError::into_inner).iter() {
            tell(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(notifier: &Notifier) -> bool {
        let mut byte = [0];
        let Some(Way::Wire { listener, .. }) = notifier.way.get() else { panic!("nobody listens") };
        matches!((&*listener).read(&mut byte), Ok(1))
    }

    #[test]
    fn each_notifier_wants_its_own_position_and_is_called_once() {
        let calls = Arc::new(AtomicU64::new(0));
        let called = Arc::clone(&calls);
        let notifiers = Notifiers::default();
        let other = Arc::new(Notifier::calling(Box::new(move || {
            called.fetch_add(1, Ordering::SeqCst);
        })));
        notifiers.add(&other);
        notifiers.own().listen().unwrap();
        assert!(other.listen().is_err(), "there is nothing to be read");
        other.want(Sequence(5));
        notifiers.own().want(Sequence(9));
        notifiers.each(|one| one.reached(Sequence(6)));
        assert_eq!((calls.load(Ordering::SeqCst), is_readable(notifiers.own())), (1, false));
        other.want(Sequence(7));
        notifiers.each(|one| one.reached(Sequence(9)));
        assert_eq!((calls.load(Ordering::SeqCst), is_readable(notifiers.own())), (1, true), "not drained yet");
        other.drain();
        notifiers.remove(&other);
        notifiers.each(Notifier::report);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
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
        assert_eq!(notifier.drain(), Wakeup { tokens: vec![7, 9], reports: true });
        assert!(!is_readable(&notifier));
        assert_eq!(notifier.drain(), Wakeup::default());
        notifier.news(7);
        assert!(is_readable(&notifier));
    }

    #[test]
    fn what_is_watched_is_told_once_however_often_it_has_news() {
        let notifier = Notifier::default();
        notifier.listen().unwrap();
        for token in [5, 3, 5, 5] {
            notifier.watched(token);
        }
        notifier.news(9);
        assert_eq!(notifier.drain().tokens, [9, 3, 5]);
        notifier.watched(5);
        assert_eq!(notifier.drain().tokens, [5], "without asking for it again");
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
