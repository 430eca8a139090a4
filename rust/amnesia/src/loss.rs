//! What a power cut leaves of that which was not synced.

use crate::chance::Chance;

/// In which way what was not synced is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Loss {
    /// All of it.
    All,
    /// What came after one moment, of whatever file; what was written at that moment is torn.
    Later,
    /// Any sectors, lengths and names, each by chance.
    Any,
    /// What came before one moment, which is another for each file: the newest is there, the older is not.
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

/// Decides, for one file or for all names, how much of its history is found after the cut.
#[derive(Debug)]
pub(crate) struct Survival<'a> {
    loss: Loss,
    chance: &'a mut Chance,
    /// The moment before or after which things are lost.
    horizon: u64,
    /// Of what was written at the horizon, sectors below this one survive a loss of what is later.
    torn_at: usize,
    /// How often all of a sector's history survives, where any may be lost.
    percent: u64,
}

impl<'a> Survival<'a> {
    /// What survives where the moments of everything that is not synced lie in `first..=last`.
    /// `horizon` is the moment that all files have in common.
    pub(crate) fn new(loss: Loss, moments: (u64, u64), horizon: u64, chance: &'a mut Chance) -> Self {
        let (first, last) = moments;
        let horizon = match loss {
            Loss::Earlier => first + chance.up_to(last.saturating_sub(first) + 1),
            _ => horizon,
        };
        let percent = [10, 50, 90].get(chance.place_up_to(2)).copied().unwrap_or(50);
        Self { loss, chance, horizon, torn_at: 0, percent }
    }

    /// Tears what was written at the horizon, in one of its sectors.
    pub(crate) fn tear(&mut self, at: u64, first_sector: usize, last_sector: usize) {
        if at == self.horizon {
            let count = last_sector.saturating_sub(first_sector) + 1;
            self.torn_at = first_sector + self.chance.place_up_to(count);
        }
    }

    /// How many of the changes of one sector are found, given their moments in order.
    pub(crate) fn of_sector(&mut self, sector: usize, moments: &[u64]) -> usize {
        match self.loss {
            Loss::Later => {
                let is_whole = |at: &&u64| **at < self.horizon || (**at == self.horizon && sector < self.torn_at);
                moments.iter().take_while(is_whole).count()
            }
            _ => self.of_history(moments),
        }
    }

    /// How many of the changes of a length are found.
    pub(crate) fn of_history(&mut self, moments: &[u64]) -> usize {
        match self.loss {
            Loss::Later => moments.iter().take_while(|at| **at <= self.horizon).count(),
            Loss::Any if self.chance.percent(self.percent) => moments.len(),
            Loss::Any => self.chance.place_up_to(moments.len()),
            Loss::Earlier if moments.last().is_some_and(|at| *at >= self.horizon) => moments.len(),
            Loss::All | Loss::Earlier => 0,
        }
    }

    /// True where a change of a name is found, whatever became of others.
    pub(crate) fn of_name(&mut self, at: u64) -> bool {
        match self.loss {
            Loss::All => false,
            Loss::Later => at < self.horizon,
            Loss::Any => self.chance.percent(self.percent),
            Loss::Earlier => at >= self.horizon,
        }
    }
}
