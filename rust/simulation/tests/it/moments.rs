//! The visible state of a store at one moment is found again while its files are kept, and no other state is taken for
//! it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::rig::{Rig, lean};
use delaymq_core::error::{Error, StorageFault};
use delaymq_core::message_log::Identity;
use delaymq_core::storage::Call;
use delaymq_core::store::{Moment, checkpoint_path, visible_state, visible_state_at};
use delaymq_core::units::Sequence;

/// A store with a checkpoint and facts behind it, and the moment that it is in.
fn looked_at() -> (Rig, Identity, Moment) {
    let mut rig = Rig::new(lean());
    for number in 0..5 {
        rig.publish("orders", 60_000, &format!("order {number}"));
    }
    rig.checkpoint();
    rig.publish("orders", 60_000, "behind the checkpoint");
    rig.node().witness().unwrap();
    let identity = *rig.node().identity();
    let moment = visible_state(&rig.disk.shared(), &identity).unwrap().moment();
    (rig, identity, moment)
}

/// How much is pending then, and the sequence behind the last fact.
fn found(rig: &Rig, identity: &Identity, moment: &Moment) -> Result<(u64, Sequence), Error> {
    let again = visible_state_at(&rig.disk.shared(), identity, moment)?;
    assert_eq!(again.moment().end, moment.end);
    Ok((again.state().schedule.pending(), again.state().position.next_sequence))
}

#[test]
fn a_moment_is_found_again_whatever_was_written_since() {
    let (mut rig, identity, moment) = looked_at();
    let before = found(&rig, &identity, &moment).unwrap();
    assert_eq!(before.0, 6);
    let late = rig.publish("orders", 60_000, "too late for it");
    rig.cancel(&late);
    rig.publish("orders", 60_000, "and this");
    assert_eq!(found(&rig, &identity, &moment).unwrap(), before);
}

#[test]
fn a_moment_without_a_checkpoint_is_found_from_the_first_fact_on() {
    let mut rig = Rig::new(lean());
    rig.publish("orders", 60_000, "alone");
    rig.node().witness().unwrap();
    let identity = *rig.node().identity();
    let moment = visible_state(&rig.disk.shared(), &identity).unwrap().moment();
    assert_eq!(found(&rig, &identity, &moment).unwrap().0, 1);
}

#[test]
fn a_moment_whose_checkpoint_is_gone_is_told_as_missing() {
    let (mut rig, identity, moment) = looked_at();
    let (number, _) = moment.checkpoints.into_iter().flatten().next().unwrap();
    while rig.files().contains(&checkpoint_path(number)) {
        rig.publish("orders", 60_000, "on and on");
        rig.checkpoint();
    }
    let missing = found(&rig, &identity, &moment);
    assert!(matches!(missing, Err(Error::MissingFile { .. })), "{missing:?}");
}

#[test]
fn what_is_not_the_same_store_any_more_is_no_moment_of_it() {
    let (rig, identity, moment) = looked_at();
    let [first, second] = moment.checkpoints;
    let other_check = first.map(|(number, check)| (number, check ^ 1));
    let others =
        [Moment { checkpoints: [other_check, second], ..moment }, Moment { chain: moment.chain ^ 1, ..moment }];
    for other in others {
        let refused = found(&rig, &identity, &other);
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "name", .. })), "{refused:?}");
    }
}

#[test]
fn a_disk_that_fails_is_told_as_such() {
    let (rig, identity, moment) = looked_at();
    rig.disk.storage().fail_call_of(Call::Read, 0, StorageFault::Io);
    let failed = found(&rig, &identity, &moment);
    assert!(matches!(failed, Err(Error::Storage { .. })), "{failed:?}");
}
