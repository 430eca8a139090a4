//! Salvage of damaged stores.

mod any_damage;
mod elsewhere;
mod files;
mod kept_apart;
mod loads;
mod rescues;
mod rescues_by_key;
