//! Registers for tests, and what every coordinator must do.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use delaymq_coordinator::Coordinator;
use delaymq_core::replication::{GroupState, NodeId, Reading, Register, SwapAnswer, Version};
use delaymq_core::units::Epoch;

/// A register of this epoch.
pub(crate) fn register(epoch: u32) -> Register {
    let node = |byte: u8| NodeId([byte; 16]);
    Register {
        stream: [0xAB; 16],
        timeline: 3,
        epoch: Epoch(epoch),
        primary: node(1),
        sync: [node(1), node(2)].into(),
        complete: [node(1), node(2), node(3)].into(),
        state: GroupState::Serving,
        min_copies: 2,
        made_for: u64::MAX,
    }
}

/// The first value, the next one, and one from a version that is over.
pub(crate) fn swaps_from_the_version_that_it_read(coordinator: &dyn Coordinator) {
    assert!(coordinator.read().unwrap().is_none());
    let SwapAnswer::Won(number, first) = coordinator.swap(Version(0), &register(1)).unwrap() else {
        panic!("nothing is there yet");
    };
    let now = |version, epoch| Reading { coordinator: number, version, value: register(epoch) };
    assert_eq!(coordinator.read().unwrap(), Some(now(first, 1)));
    let lost = coordinator.swap(Version(0), &register(9)).unwrap();
    assert_eq!(lost, SwapAnswer::Lost(now(first, 1)));
    let SwapAnswer::Won(_, second) = coordinator.swap(first, &register(2)).unwrap() else {
        panic!("the version was right");
    };
    assert!(second > first);
    assert_eq!(coordinator.swap(first, &register(3)).unwrap(), SwapAnswer::Lost(now(second, 2)));
    assert_eq!(coordinator.read().unwrap(), Some(now(second, 2)));
    assert!(coordinator.changed(first, Duration::from_secs(30)).unwrap());
    assert!(!coordinator.changed(second, Duration::from_millis(50)).unwrap());
}

/// Threads swap at once, each from what it read. Every version is won by one of them alone.
pub(crate) fn one_swap_wins_each_version(coordinators: &[Box<dyn Coordinator>], swaps: u32) {
    coordinators.first().unwrap().swap(Version(0), &register(0)).unwrap();
    let won: Vec<Version> = thread::scope(|scope| {
        let each = |coordinator: &dyn Coordinator| {
            let (mut won, mut known) = (Vec::new(), coordinator.read().unwrap().unwrap());
            while won.len() < swaps as usize {
                let next = Register { epoch: known.value.epoch.next(), ..known.value.clone() };
                known = match coordinator.swap(known.version, &next).unwrap() {
                    SwapAnswer::Won(_, version) => {
                        won.push(version);
                        Reading { version, value: next, ..known }
                    }
                    SwapAnswer::Lost(reading) => reading,
                    SwapAnswer::Unknown => panic!("a coordinator answers, or fails"),
                };
            }
            won
        };
        let threads: Vec<_> = coordinators.iter().map(|one| scope.spawn(move || each(one.as_ref()))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let count = coordinators.len() * swaps as usize;
    assert_eq!(won.iter().collect::<BTreeSet<_>>().len(), count);
    let last = coordinators.first().unwrap().read().unwrap().unwrap();
    assert_eq!(last.value.epoch, Epoch(u32::try_from(count).unwrap()));
}
