//! The messages that a consumer holds, in pieces, so that the owner is not locked while the disk is read.

use crate::error::Result;
use crate::store::owner::Owner;
use crate::store::propose::load_request::LoadRequest;
use crate::store::propose::pull::{Delivery, LookedUp};
use crate::units::{ConsumerNumber, GroupNumber, PullOffset};

/// Deliveries in one piece, at most.
const PIECE_MAX: usize = 4_096;

/// One piece of the messages that a consumer holds.
#[derive(Debug, Default)]
pub struct HeldPiece {
    /// Deliveries by ascending offset. Messages with damaged postings are left out: they are being voided.
    pub deliveries: Vec<Delivery>,
    /// Postings that must be read before the next piece, outside any lock.
    pub load: Option<LoadRequest>,
    /// Where the next piece begins. `None` after the last piece.
    pub next: Option<PullOffset>,
}

impl Owner {
    /// Returns the messages that a consumer holds from an offset on, as applied. `None` if the consumer does not exist.
    ///
    /// # Errors
    /// `Corrupt` if the views lack a message that is held: the store must stop.
    pub fn held_from(
        &mut self,
        group: GroupNumber,
        consumer: ConsumerNumber,
        from: PullOffset,
    ) -> Result<Option<HeldPiece>> {
        let Some(there) = self.state.groups.get(&group) else { return Ok(None) };
        let Some(holder) = there.consumers.get(&consumer) else { return Ok(None) };
        let mut piece = HeldPiece::default();
        for (offset, held) in holder.held.iter_from(from) {
            if piece.deliveries.len() >= PIECE_MAX {
                piece.next = Some(offset);
                return Ok(Some(piece));
            }
            match self.deciding.look_up((&self.effects.storage, &self.state), there, held.number)? {
                LookedUp::Entry(entry) => {
                    let attempt = u32::from(entry.attempt()).saturating_add(held.deliveries).saturating_sub(1);
                    let is_again = held.number < there.again_below;
                    piece.deliveries.push(Delivery { offset, number: held.number, entry, attempt, is_again });
                }
                LookedUp::Load(load) => {
                    (piece.load, piece.next) = (Some(load), Some(offset));
                    return Ok(Some(piece));
                }
                LookedUp::Damaged => {}
            }
        }
        self.deciding.forget_loaded(there);
        Ok(Some(piece))
    }

    /// Returns the offset that the consumer's next message will have, counting assignments that are not applied yet.
    /// `None` if the consumer does not exist.
    pub fn next_offset(&self, group: GroupNumber, consumer: ConsumerNumber) -> Option<PullOffset> {
        let applied = self.state.groups.get(&group)?.consumers.get(&consumer)?.next_offset;
        Some(applied.max(self.deciding.next_offset(group, consumer)))
    }
}
