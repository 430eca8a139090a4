//! The frames that wait for one node, bounded by their bytes.

use std::collections::VecDeque;

/// Room for messages that are not heartbeats or batches, beyond the limit of the queue: the longest history and some more.
const SPARE_BYTES: usize = 32 << 20;
/// Small frames are written together, up to so many bytes.
const PIECE_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue {
    frames: VecDeque<Vec<u8>>,
    /// Bytes of the frames that wait or are being written.
    bytes: usize,
    bytes_max: usize,
    dropped: u64,
}

impl Queue {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { frames: VecDeque::new(), bytes: 0, bytes_max, dropped: 0 }
    }

    /// Adds a frame; false if it is dropped. A frame that is larger than the limit is taken if nothing else waits,
    /// because it would never be sent otherwise.
    pub(crate) fn push(&mut self, frame: Vec<u8>, is_sent_again: bool) -> bool {
        let limit = if is_sent_again { self.bytes_max } else { self.bytes_max.saturating_add(SPARE_BYTES) };
        if self.bytes > 0 && self.bytes.saturating_add(frame.len()) > limit {
            self.dropped = self.dropped.saturating_add(1);
            return false;
        }
        self.bytes = self.bytes.saturating_add(frame.len());
        self.frames.push_back(frame);
        true
    }

    /// The next bytes to write, which count until [`Self::written`]. None if nothing waits.
    pub(crate) fn next_piece(&mut self) -> Option<Vec<u8>> {
        let mut piece = self.frames.pop_front()?;
        while let Some(next) = self.frames.front().filter(|next| piece.len().saturating_add(next.len()) <= PIECE_BYTES)
        {
            piece.extend_from_slice(next);
            self.frames.pop_front();
        }
        Some(piece)
    }

    /// So many bytes are written.
    pub(crate) fn written(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Drops all that waits. A piece that is being written is lost as well, but how much of it was sent is unknown.
    pub(crate) fn clear(&mut self) {
        self.dropped = self.dropped.saturating_add(self.frames.len() as u64);
        (self.frames, self.bytes) = (VecDeque::new(), 0);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_what_is_sent_again_and_takes_the_rest_up_to_its_spare_room() {
        let mut queue = Queue::new(100);
        assert!(queue.push(vec![1; 60], true) && queue.push(vec![2; 40], true));
        assert!(!queue.push(vec![3; 1], true));
        assert!(queue.push(vec![4; 1], false));
        assert!(queue.push(vec![5; SPARE_BYTES - 1], false));
        assert!(!queue.push(vec![6; 1], false));
        assert_eq!((queue.bytes(), queue.dropped()), (100 + SPARE_BYTES, 2));
    }

    #[test]
    fn a_frame_over_the_limit_is_taken_alone() {
        let mut queue = Queue::new(100);
        assert!(queue.push(vec![1; 1_000], true));
        assert!(!queue.push(vec![2; 1], true));
        let piece = queue.next_piece().unwrap();
        assert!(!queue.push(vec![2; 1], true), "it is still being written");
        queue.written(piece.len());
        assert!(queue.push(vec![2; 1], true));
    }

    #[test]
    fn small_frames_are_written_together_and_in_order() {
        let mut queue = Queue::new(1 << 30);
        for number in 0..3 {
            queue.push(vec![number; 2], true);
        }
        queue.push(vec![3; PIECE_BYTES], true);
        queue.push(vec![4; 1], true);
        assert_eq!(queue.next_piece().unwrap(), [0, 0, 1, 1, 2, 2]);
        assert_eq!(queue.next_piece().unwrap().len(), PIECE_BYTES);
        assert_eq!(queue.next_piece().unwrap(), [4]);
        assert_eq!((queue.next_piece(), queue.bytes()), (None, 7 + PIECE_BYTES));
    }

    #[test]
    fn what_waits_is_lost_with_the_connection_and_counted() {
        let mut queue = Queue::new(100);
        queue.push(vec![1; 60], true);
        queue.push(vec![2; 40], true);
        queue.clear();
        assert_eq!((queue.bytes(), queue.dropped(), queue.next_piece()), (0, 2, None));
    }
}
