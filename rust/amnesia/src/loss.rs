//! Decides which unsynced changes survive a power cut.

use crate::chance::Chance;

/// How unsynced changes are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// All of them.
    All,
    /// Those after one moment, in all files; the write at that moment is torn.
    Later,
    /// Any sectors, lengths and names, each by chance.
    Any,
    /// Those before a moment that differs for each file: the newest change survives, older ones do not.
    Earlier,
}

impl Loss {
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "all" => Some(Self::All),
            "later" => Some(Self::Later),
            "any" => Some(Self::Any),
            "earlier" => Some(Self::Earlier),
            _ => None,
        }
    }
}

/// Decides, for one file or for all names, which changes survive the cut.
#[derive(Debug)]
pub(crate) struct Survival<'a> {
    loss: Loss,
    chance: &'a mut Chance,
    /// The moment before or after which changes are lost.
    horizon: u64,
    /// For the write at the horizon: sectors below this one survive a loss of later changes.
    torn_at: usize,
    /// How often all changes of a sector survive, if any may be lost.
    percent: u64,
}

impl<'a> Survival<'a> {
    /// The survivors among unsynced changes with moments in `first..=last`. `horizon` is the moment that all files
    /// have in common.
    pub(crate) fn new(loss: Loss, moments: (u64, u64), horizon: u64, chance: &'a mut Chance) -> Self {
        let (first, last) = moments;
        let horizon = match loss {
            Loss::Earlier => first + chance.up_to(last.saturating_sub(first) + 1),
            _ => horizon,
        };
        let percent = [10, 50, 90].get(chance.place_up_to(2)).copied().unwrap_or(50);
        Self { loss, chance, horizon, torn_at: 0, percent }
    }

    /// Tears the write at the horizon, in one of its sectors.
    pub(crate) fn tear(&mut self, at: u64, first_sector: usize, last_sector: usize) {
        if at == self.horizon {
            let count = last_sector.saturating_sub(first_sector) + 1;
            self.torn_at = first_sector + self.chance.place_up_to(count);
        }
    }

    /// The number of surviving changes of one sector, given their moments in order.
    pub(crate) fn of_sector(&mut self, sector: usize, moments: &[u64]) -> usize {
        match self.loss {
            Loss::Later => {
                let is_whole = |at: &&u64| **at < self.horizon || (**at == self.horizon && sector < self.torn_at);
                moments.iter().take_while(is_whole).count()
            }
            _ => self.of_history(moments),
        }
    }

    /// The number of surviving changes of a length.
    pub(crate) fn of_history(&mut self, moments: &[u64]) -> usize {
        match self.loss {
            Loss::Later => moments.iter().take_while(|at| **at <= self.horizon).count(),
            Loss::Any if self.chance.percent(self.percent) => moments.len(),
            Loss::Any => self.chance.place_up_to(moments.len()),
            Loss::Earlier if moments.last().is_some_and(|at| *at >= self.horizon) => moments.len(),
            Loss::All | Loss::Earlier => 0,
        }
    }

    /// True if a change of a name survives, independent of the others.
    pub(crate) fn of_name(&mut self, at: u64) -> bool {
        match self.loss {
            Loss::All => false,
            Loss::Later => at < self.horizon,
            Loss::Any => self.chance.percent(self.percent),
            Loss::Earlier => at >= self.horizon,
        }
    }
}
