//! The loads of users. The name of a staged file decides its messages, so that whoever reads a log knows what its loads stored.

use std::collections::BTreeMap;

use delaymq_core::error::Result;
use delaymq_core::record::adopt::{KIND_ADOPT, decode_adopt};
use delaymq_core::record::header::Records;
use delaymq_core::record::terms::NameHash;
use delaymq_core::run::LoadName;
use delaymq_core::store::Outcome;
use delaymq_core::units::Sequence;

use crate::chance::Chance;
use crate::ledger::{Ledger, StagedLine};
use crate::node::{AppliedBatch, NewRow, Node, stage, unless_full};

pub(super) const SUBJECTS: [&str; 2] = ["orders", "mail"];

/// The messages of the file with this name, by due time.
fn rows_of(name: LoadName) -> Vec<NewRow> {
    let chance = &mut Chance::new(u64::from_le_bytes(name.nonce.first_chunk().copied().unwrap_or_default()));
    let mut rows = Vec::new();
    for _ in 0..chance.between(1, 4) {
        let subject = chance.pick(&SUBJECTS).copied().unwrap_or("orders").to_owned();
        let due = name.staged.plus(chance.one_of(&[0, 300, 5_000, 90_000]));
        rows.push(NewRow { subject, due, body: chance.bytes16().to_vec() });
    }
    rows.sort_by_key(|row| row.due);
    rows
}

/// Loads that are not answered: the checks of their bodies, by the sequence of the fact.
#[derive(Default)]
pub(super) struct Loads {
    asked: BTreeMap<Sequence, Vec<u32>>,
}

impl Loads {
    /// Stages one file or several, and asks for their load.
    pub(super) fn load(&mut self, node: &mut Node, chance: &mut Chance) -> Result<()> {
        let (mut runs, mut checks) = (Vec::new(), Vec::new());
        for _ in 0..chance.between(1, 3) {
            let begun = LoadName { staged: node.reading().now, nonce: chance.bytes16() };
            // The file gets the next name.
            let nonce = u128::from_le_bytes(begun.nonce).wrapping_add(1).to_le_bytes();
            let rows = rows_of(LoadName { nonce, ..begun });
            checks.extend(rows.iter().map(|row| crc32fast::hash(&row.body)));
            runs.extend(stage(node.storage().as_ref(), &rows, begun, u32::MAX)?);
        }
        let job = NameHash { low: chance.next_number(), high: 7 };
        if let Some(fact) = unless_full(node.load(job, &runs))? {
            self.asked.insert(fact, checks);
        }
        Ok(())
    }

    /// What was stored of the loads below `applied`: the sequence of each message, and the check of its body.
    pub(super) fn hear(&mut self, node: &mut Node, applied: Sequence) -> Vec<(Sequence, u32)> {
        let mut stored = Vec::new();
        while let Some(first) = self.asked.first_entry().filter(|first| *first.key() < applied) {
            let (fact, checks) = first.remove_entry();
            if let Some(Outcome::Loaded(base, _)) = node.take_outcome(fact) {
                stored.extend((base.0..).map(Sequence).zip(checks));
            }
        }
        stored
    }

    /// The machine has ended.
    pub(super) fn forget(&mut self) {
        self.asked.clear();
    }
}

/// Tells the ledger the messages of the loads in a batch.
pub(super) fn tell_loads(batch: &AppliedBatch, ledger: &mut Ledger) {
    let records = Records::new(batch.visible().records, Sequence(batch.header.base_sequence.get()));
    let adopted = records.flatten().map(|(_, record)| record).filter(|record| record.header.kind == KIND_ADOPT);
    for record in adopted {
        let Some(adopt) = decode_adopt(&record) else { continue };
        for run in adopt.runs() {
            let name = LoadName { staged: run.staged, nonce: run.nonce };
            let line = |row: NewRow| StagedLine {
                subject: row.subject,
                due: row.due,
                size: u32::try_from(row.body.len()).unwrap_or(u32::MAX),
            };
            ledger.know_staged(name, rows_of(name).into_iter().map(line).collect());
        }
    }
}
