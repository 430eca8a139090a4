//! The parts of delaymq and its shapes under criterion, which compares each with the run before.
//! `cargo test` runs every one of them once.

mod codec;
mod shapes;
mod wheel;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    codec::benches(&mut criterion);
    wheel::benches(&mut criterion);
    shapes::benches(&mut criterion);
    criterion.final_summary();
}
