//! The owner of all state: facts are proposed, made durable and applied, and then the callers get their outcomes.

mod apply;
mod checkpoint;
mod copies;
mod history;
mod inspect;
mod names;
mod options;
mod owner;
mod propose;
mod query;
mod rebuild;
mod recovery;
mod retention;
mod salvage;
mod state;

pub use apply::effects::Outcome;
pub use checkpoint::file::CHECKPOINT_HEADER_BYTES;
pub use checkpoint::paths::{CHECKPOINT_FOLDER, checkpoint_path};
pub use checkpoint::rewritten::rewritten_checkpoint;
pub use checkpoint::work::{CheckpointProgress, CheckpointWork, FinishedCheckpoint};
pub use copies::follower::{Follower, FollowerParts};
pub use copies::incoming_files::IncomingFiles;
pub use copies::load_files::receive_load;
pub use copies::log_ends::LogEnds;
pub use copies::records::{DamagedMessage, KeptMessages};
pub use copies::shipment::{KeptLog, Shipment};
pub use copies::snapshot::adoption::adopt_snapshot;
pub use copies::snapshot::incoming::IncomingSnapshot;
pub use copies::snapshot::outgoing::OutgoingSnapshot;
pub use history::start::{Since, StartAt};
pub use history::start_search::{GroupStarts, StartPiece, StartPlan, StartSearch};
pub use inspect::damaged::inspect_damaged;
pub use inspect::files::{FileKind, InspectedFile, KeptForAge};
pub use inspect::inspection::{InspectedGroup, InspectedSubject, Inspection, inspect};
pub use inspect::space::{HeldSpace, SpaceReason};
pub use inspect::verification::Verification;
pub use inspect::verify::{VerificationProgress, verify, verify_telling};
pub use names::directory::{NamedSubject, SubjectDirectory};
pub use names::dispatched_keys::DispatchedKeys;
pub use names::keys::{Keys, Named, command_hash, name_hash};
pub use names::receipt::{RECEIPT_BYTES, Receipt, SIZE_UNKNOWN};
pub use names::receipt_book::ReceiptBook;
pub use names::recent_ids::RecentIds;
pub use names::selection::{SUBJECTS_MAX, Selection};
pub use names::subject_names::{
    GoesOn, consumed_at, dead_letter_subject, dead_letters_of, goes_on, is_of_users, retry_subject, sent_retry_due,
};
pub use names::subjects::{Subject, SubjectGroups, Subjects};
pub use options::{OwnerOptions, WINDOW_BYTES, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, WINDOW_ENTRY_BYTES};
pub use owner::{Owner, VisibleBatch};
pub use propose::broadcast_end::BroadcastEnd;
pub use propose::due_series::Owed;
pub use propose::judged_pull::{Candidate, JudgedPull, Offer};
pub use propose::load_request::{LoadRequest, LoadedPostings};
pub use propose::proposals::{Proposal, Proposals};
pub use propose::pull::{Delivery, Pull, PullRequest};
pub use propose::requests::RetryTarget;
pub use propose::settlement::{Retried, RetryPlaces, RetryRule, Settlement};
pub use propose::step::{Budget, Progress};
pub use query::dead_letters::{DeadLetterQueue, DeadLetterReasons, LogReading, SENT_BY_CONSUMER};
pub use query::forecast_query::{Forecast, ForecastQuery, ForecastSlot, minutes_of};
pub use query::holding::HeldPiece;
pub use query::listing::{ConsumerListed, GroupListed, SubjectListed};
pub use query::pending_cursor::PendingCursor;
pub use query::pending_scan::{PendingLook, PendingOf, PendingPiece, PendingQuery, PendingScan, keys_between};
pub use query::preview::ReadyEntry;
pub use query::ready_cursor::{ReadyCursor, ReadyLoad, ReadyPiece};
pub use rebuild::{
    Adopted, KeptWindow, RebuildCounts, RebuildExample, RebuildFinding, RebuildPiece, RebuildPlan, RebuiltPiece,
    adopt_rebuilt, plan_rebuild, rebuild_piece,
};
pub use recovery::opening::{NewStore, create_folders, open_copy, open_identity, read_identity};
pub use recovery::rescue::Rescue;
pub use recovery::restoration::first_position;
pub use recovery::visible_state::{Moment, VisibleState, state_at, visible_state, visible_state_at};
pub use recovery::{Recovered, RecoveryProgress, RecoveryReport, recover};
pub use retention::finished_age::KeepFinished;
pub use retention::holders::{Holder, HolderKind};
pub use retention::hole_punching::punch;
pub use retention::kept_files::KeptFiles;
pub use retention::pins::{ArchiveMark, PIN_FOLDER, Pin, archive_marks, archived_below, is_pinned, pins};
pub use retention::removable::Removable;
pub use retention::stale_loads::Sweep;
pub use salvage::lost_message::LostMessage;
pub use salvage::series::SalvagedSeries;
pub use salvage::{Gap, Salvage, SalvagedGroup, SalvagedMessage, SalvagedSubject, salvage};
pub use state::file_subjects::FileSubjects;
pub use state::forecast::{DueByMinute, HotMinute, Sizes};
pub use state::load_jobs::{
    LOAD_AGE_MS_MAX, LOAD_JOB_KEPT_MS, LOAD_JOBS_MAX, LOAD_NAMES_MAX, LOAD_SWEPT_MS, LoadJob, LoadJobs, is_too_old,
};
pub use state::recent_moves::{LAST_MOVES, MOVES_KEPT_MS, RECENT_MOVES_MAX, RecentMoves};
pub use state::recurring::{ALL_SERIES_BYTES_MAX, Recurring, Recurs, SERIES_BYTES_MAX, SERIES_MAX, Series};
pub use state::{EpochInfo, KnownRun, LogPosition, SegmentStart, State};
