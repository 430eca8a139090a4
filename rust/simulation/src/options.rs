//! Options of a history by their names. A plan lists them, a command line sets them, and shrinking a failed history
//! changes them.

use delaymq_core::message_log::Durability;

/// Where a value of a plan stands.
pub enum Slot<'a> {
    /// A number.
    Number(&'a mut u64),
    /// A number of 32 bits.
    Small(&'a mut u32),
    /// A number of bytes or entries.
    Size(&'a mut usize),
    /// 0 or 1.
    Switch(&'a mut bool),
    /// 1 for `os`.
    Waits(&'a mut Durability),
}

impl Slot<'_> {
    fn get(&self) -> u64 {
        match self {
            Self::Number(number) => **number,
            Self::Small(number) => u64::from(**number),
            Self::Size(number) => **number as u64,
            Self::Switch(on) => u64::from(**on),
            Self::Waits(durability) => u64::from(**durability == Durability::Os),
        }
    }

    fn set(&mut self, value: u64) {
        match self {
            Self::Number(number) => **number = value,
            Self::Small(number) => **number = u32::try_from(value).unwrap_or(u32::MAX),
            Self::Size(number) => **number = usize::try_from(value).unwrap_or(usize::MAX),
            Self::Switch(on) => **on = value > 0,
            Self::Waits(durability) => **durability = if value > 0 { Durability::Os } else { Durability::Disk },
        }
    }
}

/// A plan of a history, as options.
pub trait Options: Copy {
    /// The option that says how long a history is.
    const LENGTH: &'static str;

    /// Every option by its name; the order is the one in which a failing plan is made simpler.
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)>;

    /// Values of one option that make a history simpler, the simplest first; for its length they are known.
    fn simpler(name: &str) -> Vec<u64>;

    /// Every option, by its name; a switch is 0 or 1.
    fn options(mut self) -> Vec<(&'static str, u64)> {
        self.slots().iter().map(|(name, slot)| (*name, slot.get())).collect()
    }

    /// Sets one option. False where there is none of that name.
    fn set(&mut self, name: &str, value: u64) -> bool {
        let mut slots = self.slots();
        let slot = slots.iter_mut().find(|(known, _)| *known == name);
        slot.map(|(_, slot)| slot.set(value)).is_some()
    }

    /// Values to which an option that has this one may be set to make a history simpler.
    fn simpler_than(name: &str, value: u64) -> Vec<u64> {
        let by_length = || vec![value / 4, value / 2, value.saturating_sub(value / 4), value.saturating_sub(1)];
        let candidates = if name == Self::LENGTH { by_length() } else { Self::simpler(name) };
        candidates.into_iter().filter(|candidate| *candidate != value).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Options;

    /// Every option of a plan is set by its name, to another value than it has.
    pub(crate) fn are_set_by_their_names<P: Options>(mut plan: P) {
        for (name, value) in plan.options() {
            let other = P::simpler_than(name, value).first().copied().unwrap_or(value);
            assert!(plan.set(name, other), "{name}");
            assert!(plan.options().contains(&(name, other)), "{name} is {other}");
        }
        assert!(!plan.set("nothing", 1));
    }
}
