//! The plan of a history: all options that its seed decides before the history begins.

use delaymq_core::message_log::{Durability, FreeMarks, SEGMENT_BYTES_MIN};
use delaymq_core::store::OwnerOptions;

use super::asked::Handle;
use crate::chance::Chance;
use crate::node::{KeptApart, NodeOptions};
use crate::options::{Options, Slot, Slots, slots};

/// Percent of the seeds whose runs get holes.
const HOLLOW_PERCENT: u64 = 35;

/// The expanded options of one history.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one kind of trouble happens")]
pub struct Plan {
    /// How the store is opened.
    pub node: NodeOptions,
    /// The number of operations before the drain.
    pub operations: u64,
    /// The number of subjects.
    pub subjects: u64,
    /// The number of groups of each subject.
    pub groups: u64,
    /// Percent of the messages that are due late, when most of the history is over.
    pub far_percent: u64,
    /// The number of checkpoint pieces that one operation writes.
    pub pieces: u64,
    /// The number of consumers of each group.
    pub consumers: u64,
    /// The most unfinished messages that a consumer may hold.
    pub in_flight_max: u32,
    /// True if the consumers of one name in a group pull together, over all subjects.
    pub pulls_together: bool,
    /// Percent of the operations after which all submitted facts are committed and applied.
    pub settle_percent: u64,
    /// Percent of the operations that end the machine.
    pub crash_percent: u64,
    /// Percent of openings in which the machine ends.
    pub crash_in_open_percent: u64,
    /// Percent of openings in which a call fails.
    pub fault_in_open_percent: u64,
    /// True if storage calls fail now and then.
    pub faults: bool,
    /// Percent of the storage faults that last until the machine ends; the others make one call fail.
    pub lasting_percent: u64,
    /// True if the disk fills up now and then.
    pub fills: bool,
    /// Percent of the messages that expire.
    pub expiring_percent: u64,
    /// Percent of the openings before which the newest of two checkpoints becomes unreadable until a later opening.
    pub unreadable_percent: u64,
    /// True if the wall clock is set ahead or back now and then.
    pub clock_steps: bool,
    /// True if the wall clock may be wrong when the machine starts after a power cut.
    pub wrong_boots: bool,
    /// The rate of the wall clock in millionths; 1,000,000 is right.
    pub wall_rate: u64,
    /// True if the process sometimes pauses for minutes.
    pub pauses: bool,
    /// True if groups are removed and created again.
    pub removes_groups: bool,
    /// The greatest length of a body in bytes.
    pub body_bytes_max: u64,
    /// Percent of the publishes that have terms: keys and ids.
    pub terms_percent: u64,
    /// How long ids are remembered, in milliseconds.
    pub id_window_ms: u64,
    /// Percent of the operations that concern recurring series.
    pub recurring_percent: u64,
    /// Percent of the operations that concern loads.
    pub loads_percent: u64,
    /// Percent of the operations that an operator does.
    pub operator_percent: u64,
    /// Percent of the operations that are extreme: bursts, races, consumers that repeat themselves, odd clocks.
    pub wild_percent: u64,
    /// True if operators redrive dead letters during the history.
    pub redrives: bool,
    /// True if operators expire messages.
    pub expires: bool,
    /// Percent of the openings before which all runs are rebuilt.
    pub rebuild_percent: u64,
    /// Upper limit on three constants of the forecast, which short histories do not reach: the recent ended cells,
    /// the ended cells of a run, and the rows from which a run is rewritten if its ended cells were dropped.
    pub ended_cells_max: u64,
    /// True if the consumers of the first group of each subject have filters.
    pub filters: bool,
    /// True if the drain redrives dead letters.
    pub redrives_at_the_end: bool,
    /// True if the drain begins with a restart.
    pub restart_before_drain: bool,
    /// Percent of the drain's rounds that end with a checkpoint while messages are pending.
    pub drain_checkpoint_percent: u64,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(chance: &mut Chance) -> Self {
        // Later options have their own generators, so that a seed keeps the values of the earlier options.
        let mut apart = Chance::new(chance.clone().next_number());
        let mut later = Chance::new(apart.clone().next_number());
        let mut last = Chance::new(later.clone().next_number());
        let mut rebuilding = Chance::new(last.clone().next_number());
        let mut pacing = Chance::new(rebuilding.clone().next_number());
        let mut expiring = Chance::new(pacing.clone().next_number());
        let mut filtering = Chance::new(expiring.clone().next_number());
        let mut together = Chance::new(filtering.clone().next_number());
        let (marks, is_on, keep_ms) = (marks(&mut later), later.percent(40), later.one_of(&[0, 300, 5_000, 600_000]));
        let owner = owner(chance, &mut apart, &mut later);
        let node = NodeOptions {
            durability: if chance.percent(60) { Durability::Disk } else { Durability::Os },
            segment_bytes: u32::try_from(chance.one_of(&[8, 8, 12, 20])).unwrap_or(8) << 10,
            opening_bytes: SEGMENT_BYTES_MIN,
            keeps_consumers: chance.percent(40),
            marks,
            owner,
            kept_apart: KeptApart { is_on, subject: "subject-0", keep_ms },
            clock_accept_after_ms: pacing.one_of(&[0, 0, 0, 1_000, 15_000]),
            ..NodeOptions::default()
        };
        let plan = Self {
            node,
            operations: chance.between(40, 220),
            subjects: chance.between(1, 3),
            groups: chance.between(1, 2),
            consumers: chance.between(1, 2),
            in_flight_max: u32::try_from(chance.one_of(&[1, 2, 4, 16])).unwrap_or(1),
            pulls_together: together.percent(30),
            settle_percent: chance.one_of(&[0, 20, 70]),
            crash_percent: chance.one_of(&[0, 1, 3, 6]),
            crash_in_open_percent: chance.one_of(&[0, 20, 50]),
            fault_in_open_percent: chance.one_of(&[0, 0, 0, 10, 40]),
            faults: chance.percent(25),
            lasting_percent: chance.one_of(&[0, 20, 60]),
            fills: chance.percent(20),
            unreadable_percent: chance.one_of(&[0, 0, 20, 60]),
            clock_steps: chance.percent(25),
            wrong_boots: chance.percent(15),
            wall_rate: chance.one_of(&[1_000_000, 1_000_000, 1_000_000, 1_000_500, 999_500, 1_020_000, 900_000]),
            pauses: chance.percent(15),
            removes_groups: chance.percent(30),
            body_bytes_max: chance.one_of(&[8, 60, 300, 700]),
            operator_percent: chance.one_of(&[0, 5, 15, 30]),
            wild_percent: chance.one_of(&[0, 0, 10, 30]),
            redrives: chance.percent(60),
            expires: chance.percent(50),
            far_percent: apart.one_of(&[0, 0, 40, 80]),
            pieces: apart.one_of(&[1, 1, 4, 12]),
            terms_percent: apart.one_of(&[0, 0, 30, 80]),
            id_window_ms: apart.one_of(&[20, 1_000, 600_000]),
            recurring_percent: apart.one_of(&[0, 0, 0, 30]),
            loads_percent: later.one_of(&[0, 0, 8, 30]),
            redrives_at_the_end: chance.percent(60),
            restart_before_drain: chance.percent(50),
            drain_checkpoint_percent: 0,
            rebuild_percent: rebuilding.one_of(&[0, 0, 0, 25, 60]),
            ended_cells_max: rebuilding.one_of(&[u64::MAX, u64::MAX, 0, 1, 3]),
            expiring_percent: expiring.one_of(&[0, 0, 20, 60]),
            filters: filtering.percent(25),
        };
        if last.percent(HOLLOW_PERCENT) { plan.with_hollow_runs(&mut last) } else { plan }
    }

    /// True if this consumer's group has filters. They are those of QMQ's consumers, which pull from one queue, so
    /// consumers that pull together have none.
    pub(super) fn has_filter(&self, handle: &Handle) -> bool {
        self.filters && !self.pulls_together && handle.retries_of.is_none() && handle.group == "group-0"
    }

    /// Changes the plan: many messages are pending in runs for long, and few finish between two checkpoints.
    fn with_hollow_runs(self, chance: &mut Chance) -> Self {
        let owner = OwnerOptions {
            copy_after_ms: chance.one_of(&[0, 10, 200]),
            keep_finished_ms: 0,
            hole_bytes_min: chance.one_of(&[1, 1, 200]),
            hole_block_bytes: u32::try_from(chance.one_of(&[8, 8, 64])).unwrap_or(8),
            merge_windows_min: index(chance.one_of(&[0, 1, 2, 3])),
            merge_payload_bytes: chance.one_of(&[0, 0, 300]),
            reclaim_bytes: chance.one_of(&[1, 1, 300]),
            ..self.node.owner
        };
        let kept_apart = KeptApart { is_on: false, ..self.node.kept_apart };
        Self {
            node: NodeOptions { owner, kept_apart, ..self.node },
            far_percent: self.far_percent.max(40),
            drain_checkpoint_percent: chance.one_of(&[20, 40, 70]),
            ..self
        }
    }
}

impl Options for Plan {
    const LENGTH: &'static str = "operations";

    fn slots(&mut self) -> Slots<'_> {
        let NodeOptions {
            durability,
            keeps_consumers,
            segment_bytes,
            owner,
            marks,
            kept_apart,
            clock_accept_after_ms,
            ..
        } = &mut self.node;
        let mut all = slots![self: operations, faults, lasting_percent, fills, unreadable_percent,
            fault_in_open_percent, crash_in_open_percent, crash_percent, restart_before_drain,
            drain_checkpoint_percent, rebuild_percent, ended_cells_max, clock_steps, wrong_boots, wall_rate, pauses,
            wild_percent, operator_percent, removes_groups, redrives, redrives_at_the_end, expires, expiring_percent, filters, subjects,
            far_percent, pieces, terms_percent, id_window_ms, recurring_percent, loads_percent, groups, consumers,
            in_flight_max, pulls_together, settle_percent, body_bytes_max];
        let of_node: [(_, &mut dyn Slot); 6] = [
            ("os", durability),
            ("keeps_consumers", keeps_consumers),
            ("clock_accept_after_ms", clock_accept_after_ms),
            ("segment_bytes", segment_bytes),
            ("warn_free_bytes", &mut marks.warn_bytes),
            ("refuse_free_bytes", &mut marks.refuse_bytes),
        ];
        all.extend(of_node);
        all.extend(slots![owner: checkpoint_facts, window_ms, window_entries_max, ready_entries_max, copy_after_ms,
            keep_finished_ms]);
        let of_kept_apart: [(_, &mut dyn Slot); 2] =
            [("keeps_apart", &mut kept_apart.is_on), ("kept_apart_ms", &mut kept_apart.keep_ms)];
        all.extend(of_kept_apart);
        all.extend(
            slots![owner: merge_windows_min, merge_rows_max, merge_payload_bytes, reclaim_bytes, hole_bytes_min,
            hole_block_bytes],
        );
        all
    }

    fn simpler(name: &str) -> Vec<u64> {
        match name {
            "subjects" | "groups" | "consumers" | "pieces" | "in_flight_max" => vec![1],
            "wall_rate" | "reclaim_bytes" => vec![1_000_000],
            "segment_bytes" => vec![8 << 10],
            "hole_bytes_min" | "ended_cells_max" => vec![u64::MAX],
            "checkpoint_facts" | "window_ms" | "window_entries_max" | "ready_entries_max" | "merge_rows_max" => {
                vec![1_000]
            }
            "copy_after_ms" | "keep_finished_ms" | "kept_apart_ms" | "id_window_ms" => vec![600_000],
            "settle_percent" => vec![70, 20],
            "body_bytes_max" | "hole_block_bytes" => vec![8],
            _ => vec![0],
        }
    }
}

/// The owner's limits and times.
fn owner(chance: &mut Chance, apart: &mut Chance, later: &mut Chance) -> OwnerOptions {
    OwnerOptions {
        checkpoint_bytes: u64::MAX,
        checkpoint_facts: chance.one_of(&[5, 12, 30, 1_000]),
        window_ms: chance.one_of(&[2, 16, 128, 1_000, 5_000]),
        window_entries_max: index(chance.one_of(&[2, 3, 8, 1_000])),
        ready_entries_max: index(chance.one_of(&[0, 3, 1_000])),
        copy_after_ms: chance.one_of(&[0, 10, 200, 600_000]),
        keep_finished_ms: chance.one_of(&[0, 0, 300, 600_000]),
        merge_windows_min: index(apart.one_of(&[0, 1, 1, 2, 3])),
        merge_rows_max: apart.one_of(&[8, 30, 1_000]),
        merge_payload_bytes: apart.one_of(&[0, 300, 1_000]),
        reclaim_bytes: apart.one_of(&[1, 3_000, 1_000_000]),
        hole_bytes_min: later.one_of(&[1, 1, 400, u64::MAX]),
        hole_block_bytes: u32::try_from(later.one_of(&[8, 8, 64, 512])).unwrap_or(8),
        ..OwnerOptions::default()
    }
}

/// Free-room marks that small disks reach; often none.
fn marks(chance: &mut Chance) -> FreeMarks {
    let refuse_bytes = chance.one_of(&[0, 0, 4_000, 12_000, 40_000]);
    FreeMarks { warn_bytes: refuse_bytes.saturating_mul(chance.one_of(&[0, 1, 2])), refuse_bytes }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::are_set_by_their_names;

    #[test]
    fn every_option_is_set_by_its_name() {
        let plan = Plan::of(&mut Chance::new(1));
        are_set_by_their_names(plan);
        // The debug text of a plan names each field.
        let words = format!("{plan:?}");
        let own = words.split("node:").next().unwrap_or_default().matches(": ").count()
            + words.rsplit("operations:").next().unwrap_or_default().matches(": ").count();
        assert!(plan.options().len() > own, "an option has no name");
    }
}
