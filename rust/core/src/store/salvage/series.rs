//! The series of a damaged store that continue: those of the certain state, changed by later facts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::recurring::{Occurrence, Recur};
use crate::record::terms::IfExists;
use crate::schedule_log::Entry;
use crate::store::state::State;
use crate::store::state::recurring::Recurs;
use crate::units::{Millis, Sequence, SubjectNumber};

/// A series that is begun again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SalvagedSeries {
    /// Its subject.
    pub subject: String,
    /// Its definition; its subject number is that of the damaged store.
    pub recurs: Arc<Recurs>,
    /// The due time, by the rule, of the last occurrence that is known to be stored. That message is saved like any
    /// other, so the series continues after this time.
    pub last_due: Millis,
}

/// The facts about series after the first lost fact, in order.
#[derive(Debug, Default)]
pub(in crate::store) struct LateSeries {
    facts: Vec<(Sequence, LateFact)>,
}

#[derive(Debug)]
enum LateFact {
    Begun { recurs: Recurs, if_exists: IfExists, after: Millis },
    Ended { subject: SubjectNumber, name: String },
    Occurred(Occurrence),
}

impl LateSeries {
    /// Adds the beginning or the end of a series. The exhaustion of a rule is left out: the search for the next
    /// occurrence finds it again.
    pub(in crate::store) fn recur(&mut self, sequence: Sequence, recur: &Recur<'_>) {
        let fact = match recur {
            Recur::Begin(new) => {
                LateFact::Begun { recurs: Recurs::of(new), if_exists: new.if_exists, after: new.after }
            }
            Recur::End { subject, name } => LateFact::Ended { subject: *subject, name: (*name).to_owned() },
            Recur::Over { .. } => return,
        };
        self.facts.push((sequence, fact));
    }

    /// Notes that the message after this fact is an occurrence.
    pub(in crate::store) fn occurrence(&mut self, sequence: Sequence, occurrence: Occurrence) {
        self.facts.push((sequence, LateFact::Occurred(occurrence)));
    }
}

/// A series that continues as far as is known.
struct Known {
    number: Sequence,
    recurs: Arc<Recurs>,
    last_due: Millis,
}

/// Returns all series that continue, by subject and name, and adds their subjects to `names`. An end is trusted
/// wherever it occurs: it ended whichever series had the name. An occurrence counts only if its message is also there;
/// a lost occurrence is repeated.
pub(super) fn series_of(
    state: &State,
    late: &LateSeries,
    messages: &BTreeMap<Sequence, Entry>,
    names: &mut BTreeMap<SubjectNumber, String>,
) -> Vec<SalvagedSeries> {
    let mut all: BTreeMap<(SubjectNumber, String), Known> = BTreeMap::new();
    for (number, series) in state.recurring.after(Sequence(0)) {
        let recurs = Arc::clone(&series.recurs);
        all.insert((recurs.subject, recurs.name.clone()), Known { number, recurs, last_due: series.last_due });
    }
    for (sequence, fact) in &late.facts {
        match fact {
            LateFact::Begun { recurs, if_exists, after } => {
                let key = (recurs.subject, recurs.name.clone());
                if *if_exists == IfExists::Replace || !all.contains_key(&key) {
                    let recurs = Arc::new(recurs.clone());
                    all.insert(key, Known { number: *sequence, recurs, last_due: *after });
                }
            }
            LateFact::Ended { subject, name } => drop(all.remove(&(*subject, name.clone()))),
            LateFact::Occurred(occurrence) => {
                let due = messages.get(&sequence.next()).map(Entry::due);
                let of_it = all.values_mut().find(|known| known.number == occurrence.series);
                if let (Some(known), Some(due)) = (of_it, due) {
                    known.last_due = known.last_due.max(due);
                }
            }
        }
    }
    let mut salvaged = |known: &Known| {
        let number = known.recurs.subject;
        let subject = names.entry(number).or_insert_with(|| format!("salvaged.{number}"));
        SalvagedSeries { subject: subject.clone(), recurs: Arc::clone(&known.recurs), last_due: known.last_due }
    };
    all.values().map(&mut salvaged).collect()
}
