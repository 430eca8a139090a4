//! Stores for salvage, and functions that inspect and damage them.

use std::collections::BTreeMap;

use delaymq_core::error::Result;
use delaymq_core::storage::Storage;
use delaymq_core::store::StartAt;
use delaymq_core::store::{Outcome, Salvage, SalvagedSubject, salvage};

use super::{Place, Rig, lean, small};

pub const HOUR_MS: u64 = 3_600_000;
pub const NAMES: (&str, &str) = ("now", "quick");

/// Ready messages that one group has finished in part and another not at all, one given back and one dead among
/// them; pending ones, of which one is cancelled; two checkpoints, and facts behind them.
pub fn filled() -> (Rig, Place) {
    let mut rig = Rig::new(small());
    rig.group("now", "slow", StartAt::Unfinished);
    let quick = rig.earliest("now", "quick");
    for number in 0..10 {
        rig.publish("now", 0, &format!("now {number}"));
    }
    let handed = rig.pull(quick);
    let offsets: Vec<u64> = handed[..4].iter().map(|one| one.delivery.offset.0).collect();
    rig.acknowledge(quick, &offsets);
    rig.give_back(NAMES, quick, &handed[4], HOUR_MS);
    rig.node().dead_letter(NAMES, quick, &handed[5].delivery, "no such order", 0).unwrap();
    rig.settle();
    publish_all(&mut rig, "late", 0..120);
    let cancelled = rig.publish("late", HOUR_MS, "cancelled");
    assert_eq!(rig.cancel(&cancelled), Outcome::Done);
    rig.checkpoint();
    publish_all(&mut rig, "late", 120..140);
    rig.checkpoint();
    publish_all(&mut rig, "behind", 0..20);
    rig.publish("now", 0, "now behind");
    (rig, quick)
}

/// Pending messages that say their number, due in its order.
pub fn publish_all(rig: &mut Rig, subject: &str, numbers: std::ops::Range<u64>) {
    for number in numbers {
        rig.publish(subject, HOUR_MS + number, &format!("{subject} {number:03}"));
    }
}

/// Looks for what can be saved, and sees that no byte is changed by it.
pub fn look(rig: &Rig) -> Result<Salvage> {
    let before = rig.disk.storage().image();
    let found = salvage(&rig.disk.shared());
    assert!(rig.disk.storage().image() == before, "the damaged store was changed");
    found
}

/// Every saved body, with the subject and groups that it goes to, sorted.
pub fn saved(found: &Salvage) -> Vec<(String, String)> {
    let mut told = Vec::new();
    found
        .each(&mut |message| {
            let to = [&[message.subject], message.groups.as_slice()].concat().join(" ");
            told.push((to, String::from_utf8(message.message.body.to_vec()).unwrap()));
            Ok(())
        })
        .unwrap();
    assert_eq!(told.len() as u64, found.saved());
    told.sort();
    told
}

pub fn bodies(found: &Salvage) -> Vec<String> {
    let mut bodies: Vec<String> = saved(found).into_iter().map(|(_, body)| body).collect();
    bodies.sort();
    bodies
}

pub fn subject<'a>(found: &'a Salvage, name: &str) -> &'a SalvagedSubject {
    found.subjects.iter().find(|subject| subject.name == name).unwrap()
}

/// (pending, ready, doubtful, lost) of each subject.
pub fn counts(found: &Salvage) -> BTreeMap<&str, (u64, u64, u64, u64)> {
    let of = |one: &SalvagedSubject| (one.pending, one.ready, one.doubtful, one.lost);
    found.subjects.iter().map(|one| (one.name.as_str(), of(one))).collect()
}

/// What a whole store of [`filled`] gives.
pub fn whole() -> BTreeMap<&'static str, (u64, u64, u64, u64)> {
    BTreeMap::from([
        ("now", (0, 11, 0, 0)),
        ("late", (140, 0, 0, 0)),
        ("behind", (20, 0, 0, 0)),
        ("%RETRY%now%quick", (1, 0, 0, 0)),
        ("%DEAD_RETRY%now%quick", (0, 1, 0, 0)),
    ])
}

pub fn files_of(rig: &Rig, folder: &str) -> Vec<String> {
    rig.files().into_iter().filter(|path| path.starts_with(folder)).collect()
}

/// The file in which these bytes stand, and where; those of the log before those of a run.
pub fn place_of(rig: &Rig, text: &str) -> (String, u64) {
    let image = rig.disk.storage().image();
    let at = |bytes: &[u8]| bytes.windows(text.len()).position(|window| window == text.as_bytes());
    let found = image.iter().find_map(|(path, bytes)| Some((path.clone(), at(bytes)? as u64)));
    found.unwrap_or_else(|| panic!("{text} is nowhere"))
}

pub fn flip(rig: &Rig, path: &str, offset: u64) {
    assert!(rig.disk.storage().damage(path, offset, 0x10), "{path} has no byte {offset}");
}

pub fn remove(rig: &Rig, path: &str) {
    rig.disk.storage().remove(path).unwrap();
}

/// The runs whose footers say this kind.
pub fn runs_of(rig: &Rig, kind: u32) -> Vec<String> {
    let image = rig.disk.storage().image();
    let is_of = |path: &String| {
        let bytes = &image[path];
        let trailer = bytes.len() - 40;
        let footer = u64::from_le_bytes(bytes[trailer..trailer + 8].try_into().unwrap()) as usize;
        bytes[footer..footer + 4] == kind.to_le_bytes()
    };
    files_of(rig, "runs/").into_iter().filter(is_of).collect()
}

pub const SCHEDULE: u32 = 1;
pub const DISPATCH: u32 = 2;

/// A store whose log begins long after its first fact, because all before is finished.
pub fn retired() -> Rig {
    let mut rig = Rig::new(lean());
    let place = rig.earliest("now", "quick");
    publish_all(&mut rig, "late", 0..3);
    let cancelled = rig.publish("late", HOUR_MS, "cancelled");
    for number in 0..40 {
        rig.publish("now", 0, &format!("{number:->200}"));
        rig.clock.advance(1);
    }
    rig.take_all(place);
    rig.checkpoint();
    for number in 0..60 {
        rig.publish("now", 0, &format!("unfinished {number:->190}"));
    }
    rig.checkpoint();
    assert_eq!(rig.cancel(&cancelled), Outcome::Done);
    rig.checkpoint();
    rig.checkpoint();
    assert!(!rig.files().contains("log/0000000002.segment"), "nothing was retired");
    rig
}
