//! Judges the disk that a crash left. The tape says what the log, the state and the promises must be; only the holes of
//! the log are taken from the recovered state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{FileEpochSource, Holes, Identity, segment_path};
use delaymq_core::record::{Fact, Records, decode};
use delaymq_core::storage::{MemoryStorage, Storage, StorageFile, read_upto};
use delaymq_core::store::{NewStore, Recovered, open_identity, recover, verify};
use delaymq_core::units::{Epoch, GroupNumber, Sequence};

use super::machine::Machine;
use super::tape::{Place, Promise, Tape, Tree};
use crate::node::NodeOptions;

/// How often a group must receive, or received, a body; by group and body.
type Owed = BTreeMap<(GroupNumber, Vec<u8>), usize>;

/// The result of a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Came {
    /// The place in the history that the recovery restored.
    pub to: Place,
    /// The epoch that the recovery began.
    pub epoch: Epoch,
}

/// Recovers the store on this disk and checks that the restored state is exactly that of one moment of the history.
///
/// # Errors
/// A text that says what is wrong.
pub fn recovers(storage: &MemoryStorage, options: NodeOptions, tree: &Tree) -> std::result::Result<Came, String> {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let (identity, recovered) = recover_on(&storage, options).map_err(|error| match error {
        Error::Corrupt { .. } | Error::MissingFile { .. } => format!("a clean tail is called corrupt: {error}"),
        other => format!("it cannot be opened: {other}"),
    })?;
    let position = recovered.position;
    let came = Came { to: (position.next_sequence, position.chain), epoch: recovered.epoch };
    let Some(stand) = tree.get(came.to) else {
        return Err(format!("made up: the log goes on at {} behind {:08x}", position.next_sequence, position.chain));
    };
    if let Some(wrong) = compare_log(storage.as_ref(), tree, came.to, &recovered.owner.state().holes)
        .map_err(|error| error.to_string())?
    {
        return Err(wrong);
    }
    let differences = stand.ledger.differences_of_store(&recovered.owner);
    match differences.first() {
        Some(first) => Err(format!("not what the log says at {}: {first}", position.next_sequence)),
        None if recovered.epoch <= identity.promised_epoch => Err(format!("epoch {} is begun again", recovered.epoch)),
        None => Ok(came),
    }
}

fn recover_on(storage: &Arc<dyn Storage>, options: NodeOptions) -> Result<(Identity, Recovered)> {
    let new = NewStore { stream: [7; 16], node: [9; 16], segment_bytes: options.segment_bytes };
    let identity = open_identity(storage.as_ref(), Some(new))?;
    let mut epochs = FileEpochSource::new(Arc::clone(storage), identity);
    Ok((identity, recover(storage, &identity, &mut epochs, options.owner, &mut |_| {})?))
}

/// Checks that every batch is where it was written, byte for byte, unless it lies in a hole or its segment was retired.
fn compare_log(storage: &dyn Storage, tree: &Tree, place: Place, holes: &Holes) -> Result<Option<String>> {
    let mut files: BTreeMap<String, Option<Arc<dyn StorageFile>>> = BTreeMap::new();
    for (at, stand) in tree.path(place) {
        let Some(batch) = &stand.batch else { continue };
        let Some(segment) = batch.start.segment() else { continue };
        if holes.iter().any(|hole| (hole.from.end..hole.to.end).contains(&batch.start)) {
            continue;
        }
        let path = segment_path(segment);
        if !files.contains_key(&path) {
            let opened = match storage.open(&path) {
                Ok(file) => Some(file),
                Err(error) if error.is_not_found() => None,
                Err(error) => return Err(error),
            };
            files.insert(path.clone(), opened);
        }
        let file = files.get(&path).and_then(Option::as_ref);
        let Some(file) = file else { continue };
        if read_upto(file.as_ref(), u64::from(batch.start.offset()), batch.bytes.len())? != batch.bytes {
            return Ok(Some(format!("a batch is not whole: the one that ends at {} in {path}", at.0)));
        }
    }
    Ok(None)
}

/// Checks that a recovery kept what had been promised.
///
/// # Errors
/// A text that says what is wrong.
pub fn keeps(came: Came, promise: &Promise, cut: bool, tree: &Tree) -> std::result::Result<(), String> {
    let promised = if cut { promise.cut } else { promise.killed };
    if !tree.leads_to(promised, came.to) {
        return Err(format!("lost: the log goes on at {}, and all below {} was promised", came.to.0, promised.0));
    }
    if came.epoch <= promise.epoch {
        return Err(format!("epoch {} was in use, and {} is begun after it", promise.epoch, came.epoch));
    }
    Ok(())
}

/// Opens the store again, publishes another message, delivers all messages and verifies every byte.
///
/// # Errors
/// A text that says what is wrong.
pub fn goes_on(
    storage: &MemoryStorage,
    options: NodeOptions,
    tree: &Tree,
    came: Came,
    seed: u64,
) -> std::result::Result<(), String> {
    let mut expected = owed(tree, came.to);
    let mut machine = Machine::on(storage.clone(), Tape::new(), options, seed);
    let found = deliver(&mut machine, &mut expected).map_err(|error| format!("it does not go on: {error}"))?;
    if let Some(((group, body), times)) = expected.iter().find(|(key, times)| found.get(*key) != Some(*times)) {
        let times_found = found.get(&(*group, body.clone())).copied().unwrap_or_default();
        return Err(format!("group {group} is owed {} {times} times and got it {times_found} times", words(body)));
    }
    if let Some(((group, body), _)) = found.iter().find(|(key, _)| !expected.contains_key(*key)) {
        return Err(format!("group {group} got {}, which it was not owed", words(body)));
    }
    let identity = machine.node().map(|node| *node.identity()).map_err(|error| error.to_string())?;
    machine.close().map_err(|error| format!("it does not close: {error}"))?;
    let disk: Arc<dyn Storage> = Arc::new(machine.disk().disk().clone());
    match verify(&disk, &identity) {
        Ok(verified) => verified.findings.first().map_or(Ok(()), |finding| Err(format!("verify: {finding}"))),
        Err(error) => Err(format!("verify: {error}")),
    }
}

fn words(body: &[u8]) -> String {
    let end = body.iter().rposition(|byte| *byte == b':').unwrap_or(body.len());
    String::from_utf8_lossy(body.get(..end).unwrap_or(body)).into_owned()
}

/// The bodies that each group must still receive, according to the history alone.
fn owed(tree: &Tree, place: Place) -> Owed {
    let mut bodies: BTreeMap<Sequence, Vec<u8>> = BTreeMap::new();
    // Retries, redrives and moves: the sequence of the new entry, and that of the entry with its body.
    let mut again: Vec<(Sequence, Sequence)> = Vec::new();
    for (_, stand) in tree.path(place) {
        let Some(batch) = &stand.batch else { continue };
        let base = Sequence(batch.header.base_sequence.get());
        for (_, record) in Records::new(batch.visible().records, base).flatten() {
            match decode(&record) {
                Some(Fact::Message(message)) => {
                    bodies.insert(record.sequence, message.body.to_vec());
                }
                Some(Fact::Retry(retry)) => again.push((record.sequence, retry.payload_sequence)),
                Some(Fact::Redrive(redrive)) => again.push((record.sequence, redrive.payload_sequence)),
                fact => {
                    let moved = fact.and_then(|fact| fact.as_move());
                    again.extend(moved.map(|moved| (record.sequence, moved.target.sequence)));
                }
            }
        }
    }
    // In log order, so that an entry that was moved twice finds its body through the first move.
    for (entry, of) in again {
        if let Some(body) = bodies.get(&of).cloned() {
            bodies.insert(entry, body);
        }
    }
    let mut owed = Owed::new();
    let ledger = tree.get(place).map(|stand| stand.ledger.owed()).unwrap_or_default();
    for (group, sequence) in ledger {
        *owed.entry((group, bodies.get(&sequence).cloned().unwrap_or_default())).or_default() += 1;
    }
    owed
}

fn deliver(machine: &mut Machine, expected: &mut Owed) -> Result<Owed> {
    machine.open()?;
    machine.settle()?;
    let groups: BTreeSet<(GroupNumber, String)> = {
        let state = machine.node()?.owner().state();
        let named = state.subjects.iter().map(|(number, subject)| (number, subject.name.clone())).collect::<Vec<_>>();
        let name = |number| named.iter().find(|(known, _)| *known == number).map(|(_, name)| name.clone());
        state.groups.iter().map(|(number, group)| (*number, name(group.subject).unwrap_or_default())).collect()
    };
    let subject = groups.iter().map(|(_, subject)| subject).find(|name| !name.starts_with('%')).cloned();
    if let Some(subject) = subject {
        let before = machine.node()?.commits().next_sequence();
        let receipts = machine.publish(&subject, &[5], 9)?;
        let body = format!("{subject}:1:").into_bytes();
        debug_assert!(receipts.iter().all(|receipt| receipt.key.sequence >= before));
        for (group, _) in groups.iter().filter(|(_, name)| *name == subject) {
            let filler = (0..9_u64).map(|at| (1 + at % 7) as u8 | 1);
            *expected.entry((*group, body.iter().copied().chain(filler).collect())).or_default() += 1;
        }
    }
    machine.node()?.release_clock();
    machine.pass(1)?;
    machine.pass(40 * 86_400_000)?;
    machine.node()?.release_clock();
    machine.pass(1)?;
    let mut found = Owed::new();
    for (group, _) in groups {
        let consumer = machine.consumer_of(group)?;
        for handed in machine.take_all(consumer)? {
            *found.entry((group, handed.body)).or_default() += 1;
        }
    }
    Ok(found)
}
