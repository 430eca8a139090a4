//! Histories over connections break no promise, exercise every promise about connections, and find every fault that is
//! planted for them.
#![expect(clippy::panic, clippy::print_stdout, reason = "a test may")]

use delaymq_core::planted::Planted;
use delaymq_simulation::connected::{Connected, Counts, QmqCounts};
use delaymq_simulation::options::Options;
use delaymq_simulation::planted::Plant;
use delaymq_simulation::shrink::shrink;

fn first_that_finds(fault: Planted, seeds: u64) -> Option<(u64, String)> {
    let _plant = Plant::new(Some(fault));
    (1..=seeds).find_map(|seed| {
        let violations = Connected::new(seed, false).run().violations;
        violations.first().map(|first| (seed, first.clone()))
    })
}

/// It is found within so many seeds; by what.
fn is_found(fault: Planted, seeds: u64) -> String {
    let Some((seed, what)) = first_that_finds(fault, seeds) else {
        panic!("{fault:?} was not found in {seeds} seeds");
    };
    println!("{fault:?}: seed {seed}: {what}");
    assert_eq!(Connected::new(seed, false).run().violations, Vec::<String>::new(), "seed {seed} without {fault:?}");
    what
}

/// The finding is what the fault does, and not something that follows of it.
fn is_found_by(fault: Planted, seeds: u64, words: &[&str]) {
    let what = is_found(fault, seeds);
    assert!(words.iter().any(|words| what.contains(words)), "{fault:?}: {what}");
}

#[test]
fn an_answer_before_its_sync_is_found() {
    is_found(Planted::AckBeforeSync, 1_500);
}

/// Of a series two wait, or one when it has ended: its user sees a time twice, or one that comes too late.
#[test]
fn an_occurrence_that_is_not_judged_is_found() {
    is_found_by(
        Planted::OccurrenceUnjudged,
        200,
        &["once false", "in order true and false", "in order false", "before its end false"],
    );
}

/// A series that was answered is gone with the machine, or one that has ended is there again.
#[test]
fn a_series_that_no_checkpoint_saves_is_found() {
    is_found_by(Planted::RecurringNotSaved, 1_500, &["lost: ", "before its end false"]);
}

/// It comes at a time that no answer named, and then once more; or a cancel of its old receipt is done.
#[test]
fn a_message_that_is_moved_and_stays_too_is_found() {
    is_found_by(Planted::MovedStaysToo, 200, &["due at another time", "moved to Some"]);
}

#[test]
fn a_move_that_is_asked_for_once_more_and_not_known_is_found() {
    is_found_by(Planted::MoveForgotten, 1_000, &["done before: true"]);
}

/// What is sent again after the server ended is stored twice.
#[test]
fn ids_that_no_checkpoint_saves_are_found() {
    is_found_by(Planted::IdsNotSaved, 200, &["was answered with sequence", "2 copies of message"]);
}

/// A message that is taken for another one is stored nowhere, and answered as that one.
#[test]
fn a_batch_whose_messages_all_have_the_first_ones_id_is_found() {
    is_found_by(Planted::FirstTermsForAll, 100, &["was answered with sequence", "copies of message"]);
}

/// Messages that do not pass are handed over nevertheless.
#[test]
fn what_a_filter_keeps_back_and_is_given_all_the_same_is_found() {
    is_found_by(Planted::FilteredAssigned, 100, &["does not pass the filters"]);
}

/// Messages that pass are finished together with those that do not.
#[test]
fn what_passes_a_filter_and_is_passed_over_is_found() {
    is_found_by(Planted::PassingPassedOver, 100, &["lost: message"]);
}

#[test]
fn a_woken_queue_that_is_forgotten_for_another_one_is_found() {
    // A subscription never takes what is ready there.
    is_found_by(Planted::WokenLastForgotten, 100, &["lost: message", "nothing comes to its end"]);
}

#[test]
fn an_expired_message_that_is_handed_over_is_found() {
    is_found_by(Planted::ExpiredHandedOver, 100, &["it has expired"]);
}

#[test]
fn an_expired_message_that_is_handed_over_in_its_last_millisecond_is_found() {
    is_found_by(Planted::ExpiredOneTickLate, 1_500, &["it has expired"]);
}

#[test]
fn an_expired_message_that_stays_with_its_consumer_is_found() {
    // There is no room for the next ones.
    is_found_by(Planted::ExpiredStays, 300, &["lost: message", "nothing comes to its end"]);
}

#[test]
fn an_expired_message_that_becomes_no_dead_letter_is_found() {
    let _plant = Plant::new(Some(Planted::DeadLetterDropped));
    // QMQ's clients find it, too.
    let of_own = |seed| {
        let mut plan = Connected::plan_of(seed);
        (plan.qmq_groups, plan.broadcasts) = (0, 0);
        plan
    };
    let found = (1..=300).find_map(|seed| Connected::of(seed, of_own(seed), false).run().violations.into_iter().next());
    assert!(found.as_ref().is_some_and(|what| what.contains("is no dead letter")), "{found:?}");
}

#[test]
fn a_step_of_the_clock_that_nobody_accepted_and_that_is_believed_is_found() {
    is_found_by(Planted::StepBelieved, 300, &["the server's clock is ahead", "the clock is "]);
}

#[test]
fn a_step_of_the_clock_that_is_accepted_for_another_one_is_found() {
    is_found_by(Planted::OtherStepAccepted, 1_000, &["is accepted, and"]);
}

/// QMQ's D9, over connections.
#[test]
fn d9_an_answer_before_the_commit_is_visible_is_found() {
    is_found(Planted::AnswerBeforeVisible, 100);
}

#[test]
fn an_acknowledgement_that_names_offsets_of_another_epoch_is_found() {
    is_found(Planted::OffsetsBeginAnew, 200);
}

#[test]
fn settlements_in_another_order_than_their_connections_are_found() {
    is_found(Planted::SettledOutOfOrder, 200);
}

#[test]
fn a_pull_answered_before_its_reserve_is_durable_is_found() {
    // It is given once more, and not marked, or under an offset that its consumer has received.
    is_found_by(Planted::PulledBeforeReserved, 600, &["redelivered: false", "comes to who has received"]);
}

#[test]
fn the_end_of_a_lease_that_forgets_what_was_held_is_found() {
    // A message that nobody finished never comes again.
    is_found_by(Planted::LeaseEndIsDone, 600, &["lost: message"]);
}

#[test]
fn what_a_broadcast_consumer_did_not_acknowledge_and_does_not_get_again_is_found() {
    is_found_by(Planted::BroadcastForgotten, 1_000, &["was given and not acknowledged", "lost: message"]);
}

#[test]
fn a_sign_of_life_that_acknowledges_is_found() {
    // A message that nobody finished never comes again, and something newer comes first.
    is_found_by(Planted::HeartbeatAcknowledges, 600, &["lost: message", " follows "]);
}

#[test]
fn what_is_judged_for_one_consumer_while_another_is_given_it_and_assigned_twice_is_found() {
    is_found(Planted::JudgedTwice, 600);
}

#[test]
fn r1_what_was_passed_over_and_counted_as_done_is_found() {
    // Nobody finishes it, and nobody gets it.
    is_found_by(Planted::PassedOverIsDone, 600, &["nothing comes to its end", "lost: message"]);
}

#[test]
fn r2_a_consumer_that_comes_back_and_gets_nothing_again_is_found() {
    // A held message is not given again, or something newer comes before it.
    let words = ["nothing comes to its end", "was given and not acknowledged", " follows "];
    is_found_by(Planted::LostFromReceived, 600, &words);
}

#[test]
fn a_consumer_that_is_forgotten_before_its_end_is_durable_is_found() {
    // What it acknowledged is held for ever by one whose client is done with it, or comes again.
    is_found_by(Planted::ForgottenBeforeEnd, 4_000, &["nothing comes to its end", "and over: true"]);
}

/// A publish whose answer was lost is stored once more by the client itself.
#[test]
fn a_request_in_doubt_that_a_client_repeats_although_nobody_deduplicates_it_is_found() {
    is_found_by(Planted::DoubtRepeated, 100, &["copies of message", "fails, without a connection false"]);
}

/// A publish that was told not to be sent is stored.
#[test]
fn a_request_that_was_sent_and_given_up_and_is_told_not_to_be_sent_is_found() {
    is_found_by(Planted::SentUntold, 200, &["asked for 0 times"]);
}

#[test]
fn a_flush_that_confirms_what_was_settled_after_it_is_found() {
    is_found_by(Planted::FlushCoversLater, 2_000, &["being Done", "is told to be finished"]);
}

#[test]
fn what_was_settled_on_a_lost_connection_and_counts_as_settled_is_found() {
    is_found_by(Planted::LostCountsAsSettled, 200, &["being Done", "being GivenBack", "is told to be finished"]);
}

/// The client takes keys of the lost connection for its own, and says that their messages are settled; or it says after
/// the next loss that they may not be.
#[test]
fn a_subscription_that_is_made_again_and_keeps_its_number_is_found() {
    let words =
        ["is told to be settled", "being Done", "is told to be finished", "a flush fails, and nothing was lost"];
    is_found_by(Planted::NumberKept, 600, &words);
}

#[test]
fn what_a_lost_connection_delivered_and_is_handed_over_is_found() {
    is_found_by(Planted::LostHandedOver, 200, &["is handed over", "is there to take"]);
}

#[test]
fn credit_that_a_client_gives_twice_is_found() {
    is_found_by(Planted::CreditGivenTwice, 100, &["messages with credit"]);
}

/// A message that its consumer has had for too long can be settled, and comes to nobody.
#[test]
fn a_message_that_is_held_for_ever_is_found() {
    is_found_by(Planted::HoldNeverEnds, 200, &["what was passed on is settled", "is handed over", "lost: message"]);
}

#[test]
fn a_late_acknowledgement_that_is_accepted_is_found() {
    is_found_by(Planted::LateAcknowledged, 200, &["what was passed on is settled"]);
}

/// Seeds whose histories broke a promise once. Each of these faults has a test of its own as well
/// (`connected/account/tests.rs`, `connected/ledger/tests.rs`, `rust/server/tests/it/stuck_disk.rs`), since a seed gives
/// another history as soon as the generator changes.
const REPLAYED: [u64; 10] =
    [14_409, 17_616, 26_953, 81_229, 141_783, 168_644, 188_024, 610_333_361, 610_333_885, 984_194_352];

#[test]
fn seeds_that_broke_a_promise_once_are_in_order() {
    for seed in REPLAYED {
        let mut plan = Connected::plan_of(seed);
        for changes in [false, true] {
            plan.changes = changes;
            let once = Connected::of(seed, plan, false).run();
            assert_eq!(once.violations, Vec::<String>::new(), "seed {seed} {:?}", once.plan);
        }
    }
}

#[test]
fn a_failing_history_over_connections_is_shrunk_and_fails_in_the_same_way_again() {
    let _plant = Plant::new(Some(Planted::AckBeforeSync));
    let failing = (1..=1_500).find_map(|seed| {
        let ending = Connected::new(seed, false).run();
        (!ending.violations.is_empty()).then_some((seed, ending))
    });
    let Some((seed, ending)) = failing else { panic!("nothing fails") };
    let mut plan = Connected::plan_of(seed);
    let before = plan.options();
    let live = |plan| Connected::of(seed, plan, false).run().violations;
    let shrunk = shrink(plan, (plan, ending.violations), ending.turns, live);
    assert!(shrunk.plan.turns < plan.turns && shrunk.set.len() > 3, "{:?} of {before:?}", shrunk.set);
    for (name, value) in &shrunk.set {
        assert!(plan.set(name, *value));
    }
    assert_eq!(Connected::of(seed, plan, true).run().violations, shrunk.violations);
}

#[test]
fn one_seed_is_one_history_over_connections() {
    for seed in 1..=200 {
        assert_eq!(Connected::new(seed, true).run().hash, Connected::new(seed, false).run().hash, "seed {seed}");
    }
}

#[test]
fn two_thousand_seeds_are_in_order_and_put_everything_to_the_test() {
    let mut counts = Counts::default();
    let mut of_qmq = QmqCounts::default();
    for seed in 1..=2_000 {
        let once = Connected::new(seed, false).run();
        assert_eq!(once.violations, Vec::<String>::new(), "seed {seed} {:?}", once.plan);
        counts.add(once.counts);
        of_qmq.add(once.qmq);
    }
    println!("{counts:?}");
    let Counts {
        published,
        ambiguous,
        ambiguous_stored,
        delivered,
        repeated,
        retried,
        passed_on,
        dead,
        cancelled,
        stale,
        cuts,
        crashes,
        occurrences,
        moved,
        moved_again,
        told_again,
        told_late,
        kept_back,
        of_others,
        expired,
        expired_dead,
        accepted,
    } = counts;
    let each = [
        published,
        ambiguous_stored,
        delivered,
        repeated,
        retried,
        passed_on,
        dead,
        cancelled,
        stale,
        cuts,
        crashes,
        occurrences,
        moved,
        moved_again,
        told_again,
        told_late,
        kept_back,
        of_others,
        expired,
        expired_dead,
        accepted,
    ];
    assert!(each.iter().all(|count| *count > 10), "{counts:?}");
    let QmqCounts { sent, pulled, pulled_again, retried, acknowledged, passed_over, doubled, failed, empty, .. } =
        of_qmq;
    let each = [sent, pulled, pulled_again, retried, acknowledged, passed_over, doubled, failed, empty];
    assert!(each.iter().all(|count| *count > 1), "{of_qmq:?}");
    assert!(ambiguous_stored < ambiguous, "some are stored and some are not: {counts:?}");
}
