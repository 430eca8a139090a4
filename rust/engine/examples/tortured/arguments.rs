//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use delaymq_engine::{Durability, Receipt};

/// What the disk only says that it did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forgets {
    Nothing,
    Syncs,
    FolderSyncs,
}

/// The options; see the program.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) is_drain: bool,
    pub(crate) store: PathBuf,
    pub(crate) life: u64,
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    pub(crate) messages_per_second: u64,
    pub(crate) submitted_percent: u64,
    pub(crate) delay_ms_max: u64,
    pub(crate) far_ms_max: u64,
    pub(crate) body_bytes_max: u64,
    pub(crate) subjects: u64,
    pub(crate) groups: u64,
    pub(crate) in_flight: u32,
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u32,
    pub(crate) checkpoint_facts: u64,
    pub(crate) copy_after_ms: u64,
    pub(crate) keep_finished_ms: u64,
    pub(crate) changes: Vec<(String, Receipt)>,
    pub(crate) quiet_ms: u64,
    pub(crate) drain_seconds: u64,
    pub(crate) verify: bool,
    pub(crate) has_terms: bool,
    pub(crate) forgets: Forgets,
    pub(crate) sync_after_ms: u64,
    pub(crate) planted: Option<String>,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            is_drain: false,
            store: PathBuf::new(),
            life: 0,
            seed: 0,
            steps: 0,
            messages_per_second: 2_000,
            submitted_percent: 25,
            delay_ms_max: 1_500,
            far_ms_max: 8_000,
            body_bytes_max: 400,
            subjects: 2,
            groups: 2,
            in_flight: 64,
            durability: Durability::Disk,
            segment_bytes: 65_536,
            checkpoint_facts: 400,
            copy_after_ms: 500,
            keep_finished_ms: 0,
            changes: Vec::new(),
            quiet_ms: 1_000,
            drain_seconds: 60,
            verify: false,
            has_terms: false,
            forgets: Forgets::Nothing,
            sync_after_ms: 0,
            planted: None,
        }
    }
}

impl Arguments {
    /// Reads the words behind the name of the program.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let is_drain = match words.next().as_deref() {
            Some("work") => false,
            Some("drain") => true,
            other => return Err(format!("the first word is `work` or `drain`, not {other:?}")),
        };
        let mut read = Self { is_drain, ..Self::default() };
        let mut is_life_told = false;
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| format!("{name} has no value"))?;
            is_life_told |= name == "--life";
            read.take(&name, value)?;
        }
        if read.store.as_os_str().is_empty() || !is_life_told {
            return Err("--store and --life must be told".to_owned());
        }
        Ok(read)
    }

    fn take(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "--store" => self.store = PathBuf::from(value),
            "--life" => self.life = number(name, &value)?,
            "--seed" => self.seed = number(name, &value)?,
            "--steps" => self.steps = number(name, &value)?,
            "--messages-per-second" => self.messages_per_second = number(name, &value)?,
            "--submitted-percent" => self.submitted_percent = number(name, &value)?,
            "--delay-ms-max" => self.delay_ms_max = number(name, &value)?,
            "--far-ms-max" => self.far_ms_max = number(name, &value)?,
            "--body-bytes-max" => self.body_bytes_max = number(name, &value)?,
            "--subjects" => self.subjects = number(name, &value)?,
            "--groups" => self.groups = number(name, &value)?,
            "--in-flight" => self.in_flight = number(name, &value)?,
            "--durability" => self.durability = one_of(name, &value, &DURABILITIES)?,
            "--segment-bytes" => self.segment_bytes = number(name, &value)?,
            "--checkpoint-facts" => self.checkpoint_facts = number(name, &value)?,
            "--copy-after-ms" => self.copy_after_ms = number(name, &value)?,
            "--keep-finished-ms" => self.keep_finished_ms = number(name, &value)?,
            "--change" => self.changes.push(receipt(&value)?),
            "--quiet-ms" => self.quiet_ms = number(name, &value)?,
            "--drain-seconds" => self.drain_seconds = number(name, &value)?,
            "--verify" => self.verify = one_of(name, &value, &YES_OR_NO)?,
            "--terms" => self.has_terms = one_of(name, &value, &YES_OR_NO)?,
            "--forgets" => self.forgets = one_of(name, &value, &FORGETS)?,
            "--sync-after-ms" => self.sync_after_ms = number(name, &value)?,
            "--planted" => self.planted = Some(value),
            other => return Err(format!("no option is called {other}")),
        }
        Ok(())
    }
}

const YES_OR_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];
const DURABILITIES: [(&str, Durability); 2] = [("disk", Durability::Disk), ("os", Durability::Os)];
const FORGETS: [(&str, Forgets); 3] =
    [("nothing", Forgets::Nothing), ("syncs", Forgets::Syncs), ("folder-syncs", Forgets::FolderSyncs)];

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} is a number, not {value:?}"))
}

fn one_of<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let chosen = choices.iter().find(|(word, _)| *word == value);
    chosen.map(|(_, choice)| *choice).ok_or_else(|| format!("{name} cannot be {value:?}"))
}

fn receipt(value: &str) -> Result<(String, Receipt), String> {
    let (id, text) = value.split_once('=').ok_or("--change is ID=RECEIPT")?;
    let receipt = Receipt::parse(text).map_err(|error| error.to_string())?;
    Ok((id.to_owned(), receipt))
}
