//! What a server answers with is an error of Python's: each has its class there, and each detail its attribute.
#![cfg(test)]

use delaymq_core::wire::extension::errors::{Attribute, ErrorCode};

const CLASSES: &str = include_str!("../../../python/delaymq/errors.py");

#[test]
fn every_error_has_its_class_in_python() {
    for code in ErrorCode::ALL {
        assert!(CLASSES.contains(&format!("class {}(", code.class())), "{code:?}");
    }
    assert_eq!(ErrorCode::ALL.len(), 26);
}

#[test]
fn every_detail_is_an_attribute_in_python() {
    for number in 1..=17 {
        let name = Attribute::of(number).unwrap().name();
        assert!(CLASSES.contains(&format!("\n    {name}: ")) || name == "errno", "{name}");
    }
}
