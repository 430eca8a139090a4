//! Tests of the trusted clock.

use proptest::prelude::*;

use super::*;

const MS: u64 = NANOS_PER_MILLI;

#[test]
fn it_takes_the_walls_time_and_follows_small_steps_ahead() {
    let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
    assert_eq!(clock.read(Millis(1_010), 10 * MS), Reading { now: Millis(1_010), held: false });
    assert_eq!(clock.read(Millis(6_000), 11 * MS), Reading { now: Millis(6_000), held: false });
}

#[test]
fn a_wall_behind_the_floor_at_open_holds_until_it_passes_the_floor() {
    let mut clock = TrustedClock::new(Millis(10_000), Millis(9_000), 0);
    assert_eq!(clock.reading(), Reading { now: Millis(10_000), held: true });
    assert_eq!(clock.hold(), Some(Hold::BehindFloor { floor: Millis(10_000) }));
    assert_eq!(clock.read(Millis(9_500), 500 * MS), Reading { now: Millis(10_500), held: true });
    let released = clock.read(Millis(10_000), 1_000 * MS);
    assert!(!released.held);
    assert!(released.now >= Millis(10_500), "it never goes back: {released:?}");
}

#[test]
fn a_wall_that_jumps_past_the_floor_is_where_it_belongs() {
    let mut clock = TrustedClock::new(Millis(10_000), Millis(5), 0);
    assert!(clock.read(Millis(10), 5 * MS).held);
    assert_eq!(clock.read(Millis(3_600_000), 6 * MS), Reading { now: Millis(3_600_000), held: false });
}

#[test]
fn a_step_ahead_holds_until_it_is_undone_or_released() {
    let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
    assert_eq!(clock.read(Millis(90_000), 10 * MS), Reading { now: Millis(1_010), held: true });
    assert_eq!(clock.read(Millis(1_020), 20 * MS), Reading { now: Millis(1_020), held: false });
    assert!(clock.read(Millis(90_000), 30 * MS).held);
    clock.release();
    assert_eq!(clock.read(Millis(90_010), 40 * MS), Reading { now: Millis(90_010), held: false });
    assert!(clock.read(Millis(190_010), 50 * MS).held, "only one reading is believed");
}

#[test]
fn release_without_a_hold_believes_nothing() {
    let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
    clock.release();
    assert!(clock.read(Millis(90_000), 10 * MS).held);
}

#[test]
fn a_wall_that_fell_behind_is_met_slowly() {
    let mut clock = TrustedClock::new(Millis(0), Millis(10_000), 0);
    let first = clock.read(Millis(9_100), 100 * MS);
    assert!(!first.held && first.now > Millis(10_090), "{first:?}");
    let mut last = first.now;
    for step in 2..400_u64 {
        let reading = clock.read(Millis(9_000 + step * 100), step * 100 * MS);
        assert!(reading.now >= last);
        last = reading.now;
    }
    assert_eq!(last, Millis(9_000 + 39_900));
}

#[test]
fn a_floor_found_in_the_log_moves_it_up() {
    let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
    clock.raise_floor(Millis(900));
    assert_eq!(clock.reading(), Reading { now: Millis(1_000), held: false });
    clock.raise_floor(Millis(1_500));
    assert_eq!(clock.reading(), Reading { now: Millis(1_500), held: true });
    assert!(clock.read(Millis(1_499), 499 * MS).held);
    assert!(!clock.read(Millis(1_500), 500 * MS).held);
}

#[test]
fn an_open_holds_where_the_wall_is_ahead_of_what_was_known_since_the_machine_started() {
    let remembered = Remembered { trusted: Millis(1_000), boot_ns: 10 * MS };
    let clock = TrustedClock::resumed(Millis(900), Millis(90_000), 510 * MS, remembered);
    assert_eq!(clock.reading(), Reading { now: Millis(1_500), held: true });
    assert_eq!(clock.hold(), Some(Hold::SteppedAhead { by_ms: 88_500, while_closed: true }));
    let mut undone = clock.clone();
    assert_eq!(undone.read(Millis(1_520), 530 * MS), Reading { now: Millis(1_520), held: false });
    let mut released = clock;
    released.release();
    assert_eq!(released.read(Millis(90_010), 530 * MS), Reading { now: Millis(90_010), held: false });
}

#[test]
fn an_open_that_holds_is_not_before_the_floor() {
    let remembered = Remembered { trusted: Millis(1_000), boot_ns: 0 };
    let clock = TrustedClock::resumed(Millis(2_000), Millis(90_000), 500 * MS, remembered);
    assert_eq!(clock.reading(), Reading { now: Millis(2_000), held: true });
}

#[test]
fn an_open_believes_a_wall_that_may_have_been_slewed_to_where_it_is() {
    let (day_ms, slewed_ms) = (86_400_000, 43_200);
    let remembered = Remembered { trusted: Millis(1_000), boot_ns: 0 };
    for (ahead_ms, held) in
        [(0, false), (STEP_AHEAD_MS_MAX + slewed_ms, false), (STEP_AHEAD_MS_MAX + slewed_ms + 1, true)]
    {
        let clock = TrustedClock::resumed(Millis(0), Millis(1_000 + day_ms + ahead_ms), day_ms * MS, remembered);
        assert_eq!(clock.reading().held, held, "{ahead_ms} ms ahead");
    }
}

#[test]
fn an_open_knows_nothing_of_a_boot_clock_that_began_anew() {
    let remembered = Remembered { trusted: Millis(1_000), boot_ns: 10 * MS };
    let clock = TrustedClock::resumed(Millis(0), Millis(90_000), 9 * MS, remembered);
    assert_eq!(clock.reading(), Reading { now: Millis(90_000), held: false });
}

#[test]
fn steps_are_counted_and_slewing_is_none() {
    let mut clock = TrustedClock::new(Millis(0), Millis(10_000), 0);
    clock.read(Millis(10_999), 0);
    clock.read(Millis(11_100), 100 * MS);
    assert_eq!(clock.steps(), Steps::default());
    clock.read(Millis(10_100), 100 * MS);
    assert_eq!(clock.steps(), Steps { count: 1, last_ms: -1_000 });
    clock.read(Millis(99_200), 200 * MS);
    assert_eq!(clock.steps(), Steps { count: 2, last_ms: 89_000 });
}

/// A clock that a step of 89 s holds since 10 ms after the open.
fn stepped() -> TrustedClock {
    let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
    assert!(clock.read(Millis(90_010), 10 * MS).held);
    clock
}

#[test]
fn an_operator_accepts_the_step_that_was_seen() {
    let mut clock = stepped();
    assert_eq!(clock.read(Millis(90_110), 110 * MS), Reading { now: Millis(1_110), held: true });
    assert_eq!(clock.accept(89_000), Ok(89_000));
    assert_eq!(clock.reading(), Reading { now: Millis(90_110), held: false });
    assert_eq!(clock.accepted(), Accepted { count: 1, last_ms: 89_000, last_by_pace: false });
    assert_eq!(clock.read(Millis(90_120), 120 * MS), Reading { now: Millis(90_120), held: false });
    assert!(clock.read(Millis(190_120), 120 * MS).held, "one step is accepted, and no later one");
    assert_eq!(clock.accepted().count, 1);
}

#[test]
fn a_step_since_the_operator_looked_is_not_accepted() {
    let mut clock = stepped();
    assert!(clock.read(Millis(91_110), 110 * MS).held);
    assert_eq!(clock.accept(89_000), Err(AcceptRefused::OtherStep { ahead_ms: 90_000 }));
    assert_eq!(clock.reading(), Reading { now: Millis(1_110), held: true });
    assert_eq!(clock.hold(), Some(Hold::SteppedAhead { by_ms: 90_000, while_closed: false }));
    assert_eq!(clock.accept(89_001), Ok(90_000), "less than a second is no step");
    assert_eq!(clock.accept(90_000), Err(AcceptRefused::NotHeld), "it was accepted");
}

#[test]
fn a_step_over_a_restart_is_accepted_by_its_name() {
    let remembered = Remembered { trusted: Millis(1_000), boot_ns: 10 * MS };
    let mut clock = TrustedClock::resumed(Millis(900), Millis(90_000), 510 * MS, remembered);
    assert_eq!(clock.accept(88_500), Ok(88_500));
    assert_eq!(clock.reading(), Reading { now: Millis(90_000), held: false });
}

#[test]
fn nothing_takes_back_the_time_of_the_log() {
    let mut clock = TrustedClock::new(Millis(10_000), Millis(9_000), 0).accepting_after(Some(1_000));
    assert_eq!(clock.accept(0), Err(AcceptRefused::BehindFloor { floor: Millis(10_000) }));
    assert!(clock.read(Millis(9_001), 5_000 * MS).held, "its pace does not matter");
    assert_eq!(clock.reading().now, Millis(15_000));
    assert_eq!(clock.accepted(), Accepted::default());
}

#[test]
fn without_a_hold_there_is_nothing_to_accept() {
    let mut clock = TrustedClock::new(Millis(0), Millis(1_000), 0);
    assert_eq!(clock.accept(0), Err(AcceptRefused::NotHeld));
    assert!(clock.read(Millis(90_000), 10 * MS).held);
}

#[test]
fn a_pace_that_is_kept_for_long_enough_is_accepted_where_the_setting_is_on() {
    let mut never = stepped();
    let mut clock = stepped().accepting_after(Some(60_000));
    for passed in (0..60_000).step_by(500) {
        let (wall, boot_ns) = (Millis(90_010 + passed), (10 + passed) * MS);
        assert!(clock.read(wall, boot_ns).held, "after {passed} ms");
        assert!(never.read(wall, boot_ns).held);
    }
    assert!(never.read(Millis(150_010), 60_010 * MS).held);
    assert_eq!(clock.read(Millis(150_010), 60_010 * MS), Reading { now: Millis(150_010), held: false });
    assert_eq!(clock.accepted(), Accepted { count: 1, last_ms: 89_000, last_by_pace: true });
    assert!(clock.read(Millis(250_010), 60_010 * MS).held, "the next step waits as long");
    assert!(clock.read(Millis(310_009), 120_009 * MS).held);
    assert!(!clock.read(Millis(310_010), 120_010 * MS).held);
}

#[test]
fn a_further_step_lets_the_count_of_the_pace_begin_anew() {
    for further_ms in [1_000, -1_000, 40_000, -40_000] {
        let mut clock = stepped().accepting_after(Some(60_000));
        assert!(clock.read(Millis(140_010), 50_010 * MS).held);
        let wall = |passed: u64| Millis((90_010 + passed).saturating_add_signed(further_ms));
        assert!(clock.read(wall(59_000), 59_010 * MS).held);
        assert!(clock.read(wall(118_999), 119_009 * MS).held, "a further step by {further_ms} ms");
        assert!(!clock.read(wall(119_000), 119_010 * MS).held);
    }
    let mut creeping = stepped().accepting_after(Some(60_000));
    for second in 1..=180 {
        let wall = Millis(90_010 + second * 1_300);
        assert!(creeping.read(wall, (10 + second * 1_000) * MS).held, "many small steps are no pace");
    }
}

#[test]
fn the_report_says_since_when_why_and_what_ends_it() {
    let mut clock = stepped();
    clock.read(Millis(92_010), 2_010 * MS);
    let report = clock.report(false);
    assert_eq!((report.now, report.wall, report.ahead_ms()), (Millis(3_010), Millis(92_010), 89_000));
    let held = report.held.unwrap();
    assert_eq!((held.since, held.held_ms, held.accepted_in_ms), (Millis(1_010), 2_000, None));
    assert_eq!(
        held.to_string(),
        "dispatch is held since 1970-01-01T00:00:01.010Z: the wall clock stepped ahead by 89000 ms; if it is right now, \
         `delaymq clock accept --ahead-ms 89000` ends the hold"
    );
    let remembered = Remembered { trusted: Millis(1_000), boot_ns: 10 * MS };
    let clock = TrustedClock::resumed(Millis(900), Millis(90_000), 510 * MS, remembered).accepting_after(Some(60_000));
    let words = clock.report(false).held.unwrap().to_string();
    assert!(words.contains("ahead by 88500 ms while the store was closed; "), "{words}");
    assert!(words.ends_with("; the step is accepted in 1m without another one"), "{words}");
    let clock = TrustedClock::new(Millis(10_000), Millis(9_000), 0);
    assert_eq!(clock.report(true).ahead_ms(), -1_000);
    let words = clock.report(true).held.unwrap().to_string();
    assert!(words.contains("is behind 1970-01-01T00:00:10Z, a time that is in the log; "), "{words}");
    assert_eq!(TrustedClock::new(Millis(0), Millis(1), 0).report(true).held, None);
}

proptest! {
    #[test]
    fn it_never_goes_back_and_is_never_ahead_of_both_its_sources(
        floor in 0_u64..20_000,
        start in 0_u64..20_000,
        steps in prop::collection::vec((0_u64..3_000, 0_u64..40_000, any::<bool>()), 1..60),
    ) {
        let mut clock = TrustedClock::new(Millis(floor), Millis(start), 0);
        let mut last = clock.reading().now;
        let mut boot = 0;
        for (passed, wall, release) in steps {
            boot += passed;
            if release { clock.release(); }
            let reading = clock.read(Millis(wall), boot * MS);
            prop_assert!(reading.now >= last);
            prop_assert!(reading.now <= Millis(wall.max(last.0 + passed)));
            last = reading.now;
        }
    }
}
