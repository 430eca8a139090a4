//! Texts and bytes of an array, in each of Arrow's layouts.

use arrow_array::{
    Array, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};

/// An array of texts.
#[derive(Clone, Copy)]
pub(super) enum Texts<'a> {
    Short(&'a StringArray),
    Large(&'a LargeStringArray),
    View(&'a StringViewArray),
}

impl<'a> Texts<'a> {
    /// `None` for an array that holds something else.
    pub(super) fn of(array: &'a dyn Array) -> Option<Self> {
        let any = array.as_any();
        let short = any.downcast_ref().map(Self::Short);
        short.or_else(|| any.downcast_ref().map(Self::Large)).or_else(|| any.downcast_ref().map(Self::View))
    }

    /// The text at a place of the array; `None` if it is null.
    pub(super) fn at(self, place: usize) -> Option<&'a str> {
        match self {
            Self::Short(array) => array.is_valid(place).then(|| array.value(place)),
            Self::Large(array) => array.is_valid(place).then(|| array.value(place)),
            Self::View(array) => array.is_valid(place).then(|| array.value(place)),
        }
    }
}

/// An array of bytes, or of texts, whose bytes are meant.
#[derive(Clone, Copy)]
pub(super) enum Bodies<'a> {
    Short(&'a BinaryArray),
    Large(&'a LargeBinaryArray),
    View(&'a BinaryViewArray),
    Texts(Texts<'a>),
}

impl<'a> Bodies<'a> {
    /// `None` for an array that holds something else.
    pub(super) fn of(array: &'a dyn Array) -> Option<Self> {
        let any = array.as_any();
        let short = any.downcast_ref().map(Self::Short);
        let known =
            short.or_else(|| any.downcast_ref().map(Self::Large)).or_else(|| any.downcast_ref().map(Self::View));
        known.or_else(|| Texts::of(array).map(Self::Texts))
    }

    /// The bytes at a place of the array; `None` if it is null.
    pub(super) fn at(self, place: usize) -> Option<&'a [u8]> {
        match self {
            Self::Short(array) => array.is_valid(place).then(|| array.value(place)),
            Self::Large(array) => array.is_valid(place).then(|| array.value(place)),
            Self::View(array) => array.is_valid(place).then(|| array.value(place)),
            Self::Texts(texts) => texts.at(place).map(str::as_bytes),
        }
    }
}
