//! Failing calls: which ones, how, and how often; and the number of calls of each kind.

use crate::chance::Chance;

/// The kinds of calls that a store makes, as the file system sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Open,
    Create,
    Read,
    Write,
    Sync,
    SyncData,
    SyncFolder,
    Rename,
    Remove,
    Allocate,
    CreateFolder,
    OpenFolder,
    List,
    Status,
}

impl Call {
    pub(crate) const ALL: [(Self, &'static str); 14] = [
        (Self::Open, "open"),
        (Self::Create, "create"),
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Sync, "fsync"),
        (Self::SyncData, "fdatasync"),
        (Self::SyncFolder, "fsync_folder"),
        (Self::Rename, "rename"),
        (Self::Remove, "unlink"),
        (Self::Allocate, "fallocate"),
        (Self::CreateFolder, "mkdir"),
        (Self::OpenFolder, "open_folder"),
        (Self::List, "list"),
        (Self::Status, "stat"),
    ];

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(call, _)| *call)
    }
}

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// With this error number.
    Errno(i32),
    /// A write that takes fewer bytes than given; other calls do not fail.
    Short,
}

impl Failure {
    pub(crate) fn of(name: &str) -> Option<Self> {
        use rustix::io::Errno;
        let errno = match name {
            "EIO" => Errno::IO,
            "ENOSPC" => Errno::NOSPC,
            "EDQUOT" => Errno::DQUOT,
            "EINTR" => Errno::INTR,
            "short" => return Some(Self::Short),
            _ => return None,
        };
        Some(Self::Errno(errno.raw_os_error()))
    }
}

/// The planned fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) call: Call,
    /// The number of the call within its kind, from 1.
    pub(crate) place: u64,
    pub(crate) failure: Failure,
    /// All later calls of the kind fail as well.
    pub(crate) for_ever: bool,
}

/// Counts calls and makes some fail.
#[derive(Debug)]
pub(crate) struct Faults {
    counts: [u64; Call::ALL.len()],
    fault: Option<Fault>,
    /// The number of failed calls.
    pub(crate) failed: u64,
    pub(crate) chance: Chance,
}

impl Default for Faults {
    fn default() -> Self {
        Self { counts: [0; Call::ALL.len()], fault: None, failed: 0, chance: Chance::new(0) }
    }
}

impl Faults {
    /// Restarts the counts, with this fault.
    pub(crate) fn set(&mut self, fault: Option<Fault>, seed: u64) {
        *self = Self { fault, chance: Chance::new(seed), ..Self::default() };
    }

    /// Counts a call, and returns how it fails.
    pub(crate) fn meet(&mut self, call: Call) -> Option<Failure> {
        let count = self.counts.get_mut(call as usize)?;
        *count += 1;
        let fault = self.fault.filter(|fault| fault.call == call)?;
        let fails = *count == fault.place || (fault.for_ever && *count > fault.place);
        self.failed += u64::from(fails);
        fails.then_some(fault.failure)
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Call::ALL.iter().zip(self.counts).map(|((_, name), count)| (*name, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_call_of_its_kind_fails_once_or_for_ever() {
        for for_ever in [false, true] {
            let mut faults = Faults::default();
            let failure = Failure::of("EIO").unwrap();
            faults.set(Some(Fault { call: Call::Write, place: 2, failure, for_ever }), 0);
            assert_eq!(faults.meet(Call::Read), None);
            let met: Vec<bool> = (0..4).map(|_| faults.meet(Call::Write).is_some()).collect();
            assert_eq!(met, [false, true, for_ever, for_ever]);
            assert!(faults.counts().any(|counted| counted == ("write", 4)));
        }
    }

    #[test]
    fn each_kind_is_counted_in_its_own_place() {
        for (place, (call, name)) in Call::ALL.iter().enumerate() {
            assert_eq!((*call as usize, Call::of(name)), (place, Some(*call)));
        }
    }
}
