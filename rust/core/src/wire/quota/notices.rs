//! What a server has to say of its peers, for a log: whatever peers do, it is little.
//!
//! What happens again before it was told is told once, with how often. `K` is where it came from.

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NoticeKind {
    /// A connection was closed at once: there were as many as there may be.
    ConnectionRefused,
    /// A peer asked before it had given a token.
    Unauthorized,
    /// A wrong token came.
    WrongToken,
    /// A token was not looked at, since too many wrong ones had come from there.
    TokenUnheard,
    /// A QMQ client came from where none is expected.
    QmqClientRefused,
    /// A connection was ended because of what its peer sent, or because it was too slow.
    CutOff,
    /// An operator switched a consumer on or off.
    Switched,
}

impl NoticeKind {
    /// One word with underscores.
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

    /// What happened, in words.
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

    /// True for what an operator should look at.
    pub const fn is_warning(self) -> bool {
        !matches!(self, Self::CutOff | Self::Switched)
    }
}

/// One thing to tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice<K> {
    /// What happened.
    pub kind: NoticeKind,
    /// Where it came from.
    pub address: K,
    /// More of it; may be empty.
    pub detail: String,
    /// How often.
    pub count: u64,
}

/// What is to be told.
#[derive(Debug)]
pub struct Notices<K> {
    kept_max: usize,
    kept: Vec<Notice<K>>,
    unlisted: u64,
}

impl<K: PartialEq> Notices<K> {
    /// Nothing yet, and never more than so many between two that take them.
    pub const fn new(kept_max: usize) -> Self {
        Self { kept_max, kept: Vec::new(), unlisted: 0 }
    }

    /// This happened.
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

    /// Takes what is there, in order, and how many happened for which there was no room.
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
