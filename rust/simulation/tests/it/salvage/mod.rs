//! What is salvaged of a damaged store.

mod any_damage;
mod elsewhere;
mod files;
mod kept_apart;
mod loads;
mod rescues;
mod rescues_by_key;
