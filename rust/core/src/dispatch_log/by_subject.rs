//! A table with one value for each subject, found by its number. Numbers may be far apart, if names got
//! numbers and were never stored, or in a damaged file. The table therefore allocates pages, only for the
//! numbers that are used.

use crate::units::SubjectNumber;

/// Subjects in one page.
const PAGE: usize = 256;

/// The table; see the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BySubject<T> {
    pages: Vec<Option<Box<[T]>>>,
    /// The number after the highest one that has room.
    end: usize,
}

impl<T> Default for BySubject<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), end: 0 }
    }
}

impl<T: Default> BySubject<T> {
    /// Makes room for this number.
    pub fn admit(&mut self, number: SubjectNumber) {
        let index = number.0 as usize;
        let page = index / PAGE;
        if self.pages.len() <= page {
            self.pages.resize_with(page.saturating_add(1), || None);
        }
        if let Some(page) = self.pages.get_mut(page) {
            page.get_or_insert_with(|| std::iter::repeat_with(T::default).take(PAGE).collect());
        }
        self.end = self.end.max(index.saturating_add(1));
    }
}

impl<T> BySubject<T> {
    /// The value of a number. `None` if the number has no room.
    #[inline]
    pub fn get(&self, number: SubjectNumber) -> Option<&T> {
        let index = number.0 as usize;
        let page = self.pages.get(index / PAGE)?.as_deref()?;
        page.get(index % PAGE).filter(|_| index < self.end)
    }

    /// The same, mutable.
    #[inline]
    pub fn get_mut(&mut self, number: SubjectNumber) -> Option<&mut T> {
        let index = number.0 as usize;
        let page = self.pages.get_mut(index / PAGE)?.as_deref_mut()?;
        page.get_mut(index % PAGE).filter(|_| index < self.end)
    }

    /// The number after the highest one that has room.
    pub fn end(&self) -> SubjectNumber {
        SubjectNumber(u32::try_from(self.end).unwrap_or(u32::MAX))
    }

    /// All values that have room, by number.
    pub fn iter(&self) -> impl Iterator<Item = (SubjectNumber, &T)> {
        self.pages.iter().zip(first_numbers()).flat_map(|(page, first)| {
            page.iter().flat_map(|page| page.iter()).zip(first..).map(|(one, number)| (SubjectNumber(number), one))
        })
    }

    /// The same, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (SubjectNumber, &mut T)> {
        self.pages.iter_mut().zip(first_numbers()).flat_map(|(page, first)| {
            page.iter_mut()
                .flat_map(|page| page.iter_mut())
                .zip(first..)
                .map(|(one, number)| (SubjectNumber(number), one))
        })
    }
}

/// The first number of each page.
fn first_numbers() -> impl Iterator<Item = u32> {
    (0_u32..).step_by(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_lie_far_apart_take_little_room() {
        let mut table = BySubject::<Option<u64>>::default();
        let numbers = [0, 255, 256, 70_000, 1 << 24].map(SubjectNumber);
        for number in numbers {
            assert_eq!(table.get(number), None, "{number}");
            table.admit(number);
            *table.get_mut(number).unwrap() = Some(u64::from(number.0));
        }
        assert_eq!(table.pages.iter().flatten().count(), 4);
        let found: Vec<_> = table.iter().filter_map(|(number, one)| one.map(|one| (number, one))).collect();
        assert_eq!(found, numbers.map(|number| (number, u64::from(number.0))));
        table.iter_mut().for_each(|(_, one)| *one = None);
        assert!(table.iter().all(|(_, one)| one.is_none()));
        assert_eq!(table.end(), SubjectNumber((1 << 24) + 1));
        assert_eq!(table.get(SubjectNumber((1 << 24) + 1)), None, "above all that have room");
    }
}
