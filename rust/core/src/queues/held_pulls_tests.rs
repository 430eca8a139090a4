//! Held pulls against a plain list of them.

use proptest::prelude::*;

use super::*;

fn pull(owner: u32, group: u32, deadline: u64) -> HeldPull<u32> {
    HeldPull { owner, subject: SubjectNumber(group / 10), group: GroupNumber(group), deadline: Millis(deadline) }
}

fn owners(pulls: &[HeldPull<u32>]) -> Vec<u32> {
    pulls.iter().map(|pull| pull.owner).collect()
}

#[test]
fn one_of_each_group_wakes() {
    let mut held = HeldPulls::new(100);
    for (owner, group) in [(1, 10), (2, 10), (3, 11), (4, 12), (5, 20)] {
        held.hold(pull(owner, group, 9)).unwrap();
    }
    let mut woken = Vec::new();
    held.wake_subject(SubjectNumber(1), &mut woken);
    assert_eq!(owners(&woken), [1, 3, 4]);
    woken.clear();
    held.wake_subject(SubjectNumber(1), &mut woken);
    assert_eq!(owners(&woken), [2]);
    woken.clear();
    held.wake_subject(SubjectNumber(1), &mut woken);
    held.wake_group(GroupNumber(99), &mut woken);
    assert_eq!((woken.len(), held.len()), (0, 1));
    held.wake_group(GroupNumber(20), &mut woken);
    assert_eq!((owners(&woken), held.is_empty(), held.next_deadline()), (vec![5], true, None));
}

#[test]
fn no_more_are_held_than_may_be() {
    let mut held = HeldPulls::new(2);
    let first = held.hold(pull(1, 10, 9)).unwrap();
    held.hold(pull(2, 10, 9)).unwrap();
    assert_eq!(held.hold(pull(3, 10, 9)), None);
    assert_eq!(held.cancel(first).map(|pull| pull.owner), Some(1));
    assert_eq!(held.cancel(first), None);
    let again = held.hold(pull(3, 10, 9)).unwrap();
    assert_eq!(held.cancel(first), None, "the place is another's now");
    assert!(held.cancel(again).is_some());
}

#[test]
fn ten_thousand_wait_and_go_in_the_order_of_their_deadlines() {
    let mut held = HeldPulls::new(10_000);
    for owner in 0..10_000_u32 {
        held.hold(pull(owner, 10 + owner % 100, u64::from(owner.wrapping_mul(7_919) % 10_000))).unwrap();
    }
    let mut expired = Vec::new();
    assert_eq!(held.next_deadline(), Some(Millis(0)));
    held.expire(Millis(4_999), &mut expired);
    assert_eq!((expired.len(), held.len()), (5_000, 5_000));
    assert!(expired.is_sorted_by_key(|pull| pull.deadline));
    assert_eq!(held.next_deadline(), Some(Millis(5_000)));
}

#[test]
fn deadlines_of_pulls_that_were_woken_are_forgotten() {
    let mut held = HeldPulls::new(10);
    let mut woken = Vec::new();
    for owner in 0..100_000 {
        held.hold(pull(owner, 10, 1_000_000)).unwrap();
        held.wake_group(GroupNumber(10), &mut woken);
    }
    assert_eq!(woken.len(), 100_000);
    assert!(held.deadlines.len() <= STALE_MIN + 20, "{}", held.deadlines.len());
    assert_eq!((held.places.len(), held.groups.len(), held.subjects.len()), (1, 0, 0));
}

proptest! {
    #[test]
    fn agrees_with_a_plain_list(steps in prop::collection::vec((0_u8..6, 0_u32..4, 0_u64..40), 1..120)) {
        let mut held = HeldPulls::new(20);
        let mut plain: Vec<(HeldId, HeldPull<u32>)> = Vec::new();
        for (owner, (what, number, time)) in (0_u32..).zip(steps) {
            // Groups 10 and 11 of subject 1, 20 and 21 of subject 2.
            let group = 10 + number % 2 + 10 * (number / 2);
            let mut found = Vec::new();
            let mut expected = Vec::new();
            match what {
                0..3 => {
                    let one = pull(owner, group, time);
                    if let Some(id) = held.hold(one) {
                        plain.push((id, one));
                    } else {
                        prop_assert_eq!(plain.len(), 20);
                    }
                }
                3 => {
                    held.wake_subject(SubjectNumber(group / 10), &mut found);
                    for group in [group / 10 * 10, group / 10 * 10 + 1] {
                        if let Some(at) = plain.iter().position(|(_, one)| one.group.0 == group) {
                            expected.push(plain.remove(at).1);
                        }
                    }
                }
                4 => {
                    held.expire(Millis(time), &mut found);
                    plain.retain(|(_, one)| {
                        let stays = one.deadline.0 > time;
                        if !stays {
                            expected.push(*one);
                        }
                        stays
                    });
                    prop_assert!(found.is_sorted_by_key(|one| one.deadline));
                    expected.sort_by_key(|one| one.owner);
                    found.sort_by_key(|one| one.owner);
                }
                _ => {
                    if !plain.is_empty() {
                        let (id, one) = plain.remove(time as usize % plain.len());
                        expected.push(one);
                        found.extend(held.cancel(id));
                        prop_assert_eq!(held.cancel(id), None);
                    }
                }
            }
            prop_assert_eq!(found, expected);
            prop_assert_eq!(held.len(), plain.len());
            prop_assert_eq!(held.next_deadline(), plain.iter().map(|(_, one)| one.deadline).min());
        }
    }
}
