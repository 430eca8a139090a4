//! Publishes with a key, and commands by key.

use delaymq_core::record::terms::{IfExists, TermsLimits};
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::Sequence;
use delaymq_simulation::node::{Due, NewMessage, NewTerms, Node};

use super::Rig;

/// Asks, with room made where there is none, and lets it be applied.
pub fn tried<T>(rig: &mut Rig, ask: impl Fn(&mut Node) -> Option<T>) -> T {
    let now = rig.clock.read();
    for _ in 0..3 {
        rig.node().look(now);
        if let Some(asked) = ask(rig.node()) {
            rig.settle();
            return asked;
        }
        rig.node().commit().unwrap();
        rig.node().prepare().unwrap();
    }
    panic!("no room")
}

/// Publishes a message with a key that is free.
pub fn publish_keyed(rig: &mut Rig, subject: &str, key: &str, delay_ms: u64, body: &str) -> Receipt {
    let terms = NewTerms { key: Some(key.to_owned()), if_exists: IfExists::Refuse, id: None };
    let message = NewMessage { subject, due: Due::After(delay_ms), body: body.as_bytes(), expires: None, meta: b"" };
    let limits = TermsLimits::default();
    let published = tried(rig, |node| node.publish_on_terms(&[(message, terms.clone())], limits).unwrap());
    assert_eq!(rig.node().take_outcome(published.terms), Some(Outcome::Done));
    published.receipts[0]
}

/// What asking something by a key is answered.
pub fn asked(rig: &mut Rig, ask: impl Fn(&mut Node) -> Option<Sequence>) -> Outcome {
    let command = tried(rig, ask);
    rig.node().take_outcome(command).unwrap()
}

/// Moves what has the key; its new receipt.
pub fn move_keyed(rig: &mut Rig, subject: &str, key: &str, delay_ms: u64) -> Receipt {
    let outcome = asked(rig, |node| {
        let moved = node.move_key(subject, key, Due::After(delay_ms), None).unwrap();
        moved.map(|moved| moved.key.sequence)
    });
    let Outcome::Moved(moved) = outcome else { panic!("{outcome:?}") };
    let number = rig.node().subject_number(subject).unwrap();
    rig.node().receipt_of(moved, number, 0).unwrap()
}
