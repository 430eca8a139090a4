//! Options of a history by their names. A plan lists them, a command line sets them, and shrinking changes them.

use delaymq_core::message_log::Durability;

/// The value of an option, as a number.
pub trait Slot {
    /// Reads it.
    fn get(&self) -> u64;

    /// Changes it. A number that does not fit becomes the largest that does.
    fn put(&mut self, value: u64);
}

impl Slot for u64 {
    fn get(&self) -> u64 {
        *self
    }

    fn put(&mut self, value: u64) {
        *self = value;
    }
}

impl Slot for u32 {
    fn get(&self) -> u64 {
        u64::from(*self)
    }

    fn put(&mut self, value: u64) {
        *self = Self::try_from(value).unwrap_or(Self::MAX);
    }
}

impl Slot for usize {
    fn get(&self) -> u64 {
        *self as u64
    }

    fn put(&mut self, value: u64) {
        *self = Self::try_from(value).unwrap_or(Self::MAX);
    }
}

/// 0 or 1.
impl Slot for bool {
    fn get(&self) -> u64 {
        u64::from(*self)
    }

    fn put(&mut self, value: u64) {
        *self = value > 0;
    }
}

/// 1 for `os`.
impl Slot for Durability {
    fn get(&self) -> u64 {
        u64::from(*self == Self::Os)
    }

    fn put(&mut self, value: u64) {
        *self = if value > 0 { Self::Os } else { Self::Disk };
    }
}

/// The options of a plan, with their names.
pub type Slots<'a> = Vec<(&'static str, &'a mut dyn Slot)>;

/// Fields of a value as options, under the names of the fields.
macro_rules! slots {
    ($from:ident: $($field:ident),+ $(,)?) => {
        vec![$((stringify!($field), &mut $from.$field as &mut dyn $crate::options::Slot)),+]
    };
}

pub(crate) use slots;

/// A plan of a history, as options.
pub trait Options: Copy {
    /// The option that is the length of a history.
    const LENGTH: &'static str;

    /// All options, in the order in which a failing plan is simplified.
    fn slots(&mut self) -> Slots<'_>;

    /// Values of an option that make a history simpler, the simplest first. Those of its length are known.
    fn simpler(name: &str) -> Vec<u64>;

    /// All options and their values.
    fn options(mut self) -> Vec<(&'static str, u64)> {
        self.slots().iter().map(|(name, slot)| (*name, slot.get())).collect()
    }

    /// Sets one option. False if there is none of that name.
    fn set(&mut self, name: &str, value: u64) -> bool {
        let slot = self.slots().into_iter().find(|(known, _)| *known == name);
        slot.map(|(_, slot)| slot.put(value)).is_some()
    }

    /// Values that make a history simpler than this value of an option.
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
