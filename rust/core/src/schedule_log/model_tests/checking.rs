//! Invariants of schedule and feed.

use super::*;

impl Pair {
    /// Shows one more page. An entry that is pending from the first page to the last is shown once, whatever
    /// happens in between.
    pub(super) fn list(&mut self, limit: usize) {
        let (now, pending) = (self.now, &self.pending);
        let mut listing = self.listing.take().unwrap_or_else(|| {
            let (from, to) = (DueKey { due: Millis(now), sequence: Sequence(2) }, DueKey::end_of(Millis(now + 40)));
            let within = pending.keys().filter(|key| **key > from && **key <= to).copied();
            Listing { from, to, stayed: within.collect(), shown: Vec::new() }
        });
        listing.stayed.retain(|key| pending.contains_key(key));
        let view = self.schedule.view(listing.from, listing.to, limit.max(3));
        // The subject in its fact decides whether a moved entry is chosen.
        let of_all = |subject: SubjectNumber| (1..=SUBJECTS).contains(&subject.0);
        let piece = view.read(&of_all, limit, &mut ScanBuffer::default()).unwrap();
        assert!(piece.hidden.is_empty() && piece.entries.len() <= limit);
        assert!(piece.entries.iter().all(|entry| self.pending.get(&entry.key()) == Some(entry)), "not pending");
        assert!(piece.entries.iter().all(|entry| entry.key() > listing.from && entry.key() <= piece.to));
        listing.shown.extend(piece.entries.iter().map(Entry::key));
        assert!(listing.shown.windows(2).all(|pair| pair[0] < pair[1]), "out of order, or twice");
        assert!(piece.to > listing.from && piece.to <= listing.to && piece.cut == (piece.to < listing.to));
        listing.from = piece.to;
        let due: Vec<DueKey> = listing.stayed.range(..=listing.from).copied().collect();
        assert!(due.iter().all(|key| listing.shown.binary_search(key).is_ok()), "{due:?} of {:?}", listing.shown);
        self.listing = piece.cut.then_some(listing);
    }

    /// The whole list, in pages of `limit` entries.
    fn listed(&mut self, limit: usize) -> Vec<Entry> {
        let (mut from, to) = (DueKey::START, DueKey::end_of(DUE_MAX));
        let mut listed = Vec::new();
        while from < to {
            let view = self.schedule.view(from, to, limit * 2);
            let piece = view.read(&|_| true, limit, &mut ScanBuffer::default()).unwrap();
            listed.extend(piece.entries);
            from = piece.to;
        }
        listed
    }

    pub(super) fn check(&mut self) {
        let expected: Vec<Entry> = self.pending.values().copied().collect();
        assert_eq!(self.listed(7), expected);
        assert_eq!(self.schedule.pending(), self.pending.len() as u64);
        for sequence in 0..self.schedule.next_sequence().0 + 2 {
            let expected = self.states.get(&sequence).copied().unwrap_or(EntryState::Nothing);
            assert_eq!(self.schedule.state(Sequence(sequence)), expected);
        }
        for (key, entry) in &self.pending {
            assert_eq!(self.schedule.find(*key).unwrap(), Some(*entry));
        }
        self.check_horizon();
        let mut shown = BTreeMap::new();
        let mut show = |entry: &Entry| assert_eq!(shown.insert(entry.key(), *entry), None);
        self.schedule.each_pending(&mut show, &mut |block| panic!("{block:?}"));
        assert_eq!(shown, self.pending);
    }

    /// The count of each minute is the number of its pending entries.
    pub(super) fn check_horizon(&self) {
        let mut expected = Cells::new();
        for entry in self.pending.values() {
            let cell = expected.entry((entry.subject(), entry.due().minute())).or_default();
            cell.add(Tally::one(entry.size().unwrap()));
        }
        for subject in [None, Some(SubjectNumber(1)), Some(SubjectNumber(3)), Some(SubjectNumber(8))] {
            let told = self.schedule.horizon(subject).read(&|entry| panic!("{entry:?}")).unwrap();
            let of_subject = expected.iter().filter(|((of, _), _)| subject.is_none_or(|subject| subject == *of));
            let of_subject: Cells = of_subject.map(|(key, tally)| (*key, *tally)).collect();
            assert_eq!(told, Horizon { cells: of_subject, hidden_rows: 0 });
        }
    }
}
