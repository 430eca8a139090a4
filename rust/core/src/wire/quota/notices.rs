//! Log messages about peers, in a bounded number whatever the peers do.
//!
//! Repetitions of a notice before it was logged are logged once, with their count. `K` is the peer's address.

/// The kind of event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NoticeKind {
    /// A connection was closed at once: the maximum number was open.
    ConnectionRefused,
    /// A peer sent a command before it had given a token.
    Unauthorized,
    /// A wrong token came.
    WrongToken,
    /// A token was not checked, since too many wrong ones came from its address.
    TokenUnheard,
    /// A QMQ client came from an address outside the network of QMQ clients.
    QmqClientRefused,
    /// A connection was ended because of its peer's bytes, or because the peer was too slow.
    CutOff,
    /// An operator switched a consumer on or off.
    Switched,
}

impl NoticeKind {
    /// The name of the event, in lower case with underscores.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ConnectionRefused => "connection_refused",
            Self::Unauthorized => "unauthorized",
            Self::WrongToken => "wrong_token",
            Self::TokenUnheard => "token_unheard",
            Self::QmqClientRefused => "qmq_client_refused",
            Self::CutOff => "cut_off",
            Self::Switched => "consumer_switched",
        }
    }

    /// The description of the event.
    pub const fn words(self) -> &'static str {
        match self {
            Self::ConnectionRefused => "a connection was refused: there are as many as there may be",
            Self::Unauthorized => "a peer asked before it had given the token, and was refused",
            Self::WrongToken => "a wrong token came",
            Self::TokenUnheard => "a token was not looked at: too many wrong ones came from there",
            Self::QmqClientRefused => "a QMQ client was turned away: its address is not in server.qmq_clients_from",
            Self::CutOff => "a connection was cut off",
            Self::Switched => "a consumer was switched",
        }
    }

    /// True if an operator should look at it.
    pub const fn is_warning(self) -> bool {
        !matches!(self, Self::CutOff | Self::Switched)
    }
}

/// One notice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice<K> {
    /// The kind of event.
    pub kind: NoticeKind,
    /// The address of the peer.
    pub address: K,
    /// Details; may be empty.
    pub detail: String,
    /// How often.
    pub count: u64,
}

/// The notices that are not logged yet.
#[derive(Debug)]
pub struct Notices<K> {
    kept_max: usize,
    kept: Vec<Notice<K>>,
    unlisted: u64,
}

impl<K: PartialEq> Notices<K> {
    /// An empty list, which keeps at most `kept_max` notices between two calls of [`Self::take`].
    pub const fn new(kept_max: usize) -> Self {
        Self { kept_max, kept: Vec::new(), unlisted: 0 }
    }

    /// Adds an event.
    pub fn note(&mut self, kind: NoticeKind, address: K, detail: &str) {
        let is_same = |other: &&mut Notice<K>| other.kind == kind && other.address == address && other.detail == detail;
        if let Some(same) = self.kept.iter_mut().find(is_same) {
            same.count = same.count.saturating_add(1);
        } else if self.kept.len() < self.kept_max {
            self.kept.push(Notice { kind, address, detail: detail.to_owned(), count: 1 });
        } else {
            self.unlisted = self.unlisted.saturating_add(1);
        }
    }

    /// Takes the notices, in order, and the number of events that were dropped because the list was full.
    pub fn take(&mut self) -> (Vec<Notice<K>>, u64) {
        (std::mem::take(&mut self.kept), std::mem::take(&mut self.unlisted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_again_is_told_once_and_a_flood_is_counted() {
        let mut notices = Notices::new(3);
        for _ in 0..1_000 {
            notices.note(NoticeKind::WrongToken, 7, "");
        }
        notices.note(NoticeKind::CutOff, 7, "malformed");
        notices.note(NoticeKind::CutOff, 7, "frame_late");
        notices.note(NoticeKind::CutOff, 8, "malformed");
        notices.note(NoticeKind::CutOff, 7, "malformed");
        let (told, unlisted) = notices.take();
        let told: Vec<_> = told.iter().map(|one| (one.kind.word(), one.address, &*one.detail, one.count)).collect();
        let expected = [("wrong_token", 7, "", 1_000), ("cut_off", 7, "malformed", 2), ("cut_off", 7, "frame_late", 1)];
        assert_eq!((told.as_slice(), unlisted), (&expected[..], 1));
        assert_eq!(notices.take(), (vec![], 0));
    }
}
