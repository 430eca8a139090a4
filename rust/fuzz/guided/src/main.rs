//! libFuzzer over one of the targets, which the variable `DELAYMQ_FUZZ_TARGET` names. `make fuzz` builds it with
//! coverage and runs it for each of them; first with the fault that `DELAYMQ_FUZZ_PLANTED` names, which it must find.
#![no_main]

use std::sync::OnceLock;

use delaymq_core::planted::{Planted, plant_everywhere};
use delaymq_fuzz::targets::{Target, named};
use libfuzzer_sys::fuzz_target;

fn chosen() -> &'static Target {
    let name = std::env::var("DELAYMQ_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = named(&name) else { panic!("no target is called {name:?}") };
    if let Ok(fault) = std::env::var("DELAYMQ_FUZZ_PLANTED") {
        let Some(planted) = Planted::named(&fault) else { panic!("no fault is called {fault:?}") };
        plant_everywhere(Some(planted));
    }
    target
}

fuzz_target!(|input: &[u8]| {
    static TARGET: OnceLock<&'static Target> = OnceLock::new();
    if let Err(what) = TARGET.get_or_init(chosen).judge(input) {
        panic!("{what}");
    }
});
