//! (base)
