use super::*;

#[test]
fn the_wait_ends_with_the_millisecond_of_the_wall() {
    let clock = ClockReading { wall_ns: 5_400_000, boot_ns: 0 };
    let agrees = Reading { now: Millis(5), held: false };
    assert_eq!(until(Millis(7), agrees, clock), Duration::from_micros(1_600));
    assert_eq!(until(Millis(5), agrees, clock), Duration::ZERO);
    let ahead = Reading { now: Millis(6), held: false };
    assert_eq!(until(Millis(7), ahead, clock), Duration::from_millis(1));
}
