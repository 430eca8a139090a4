//! The writing half of `relay`: all that has arrived is one `pwrite` and one `fdatasync`; then each frame
//! is answered with `answer_bytes`, and all of it sent on.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::Receiver;

use crate::case::{Case, Failure, Figures};

/// Bytes, and which producer sent them.
pub(crate) type Arrived = (usize, Vec<u8>);

/// The file, the producers, the consumer where there is one.
type Ends<'a> = (&'a File, &'a [TcpStream], Option<TcpStream>);

/// Ends when the reading thread does.
pub(crate) fn commit(case: &Case, ends: Ends<'_>, arrived: &Receiver<Arrived>) -> Result<Figures, Failure> {
    let ((file, producers, consumer), frame_bytes) = (ends, case.count("frame_bytes")? as usize);
    let answer = vec![0_u8; case.count("answer_bytes")? as usize];
    let (mut unanswered, mut group, mut at) = (vec![0_usize; producers.len()], Vec::new(), 0);
    while let Ok(first) = arrived.recv() {
        group.clear();
        for (number, bytes) in std::iter::once(first).chain(arrived.try_iter()) {
            unanswered.iter_mut().skip(number).take(1).for_each(|count| *count += bytes.len());
            group.extend_from_slice(&bytes);
        }
        file.write_all_at(&group, at)?;
        at += group.len() as u64;
        if case.flag("disk") {
            file.sync_data()?;
        }
        for (mut producer, count) in producers.iter().zip(&mut unanswered) {
            producer.write_all(&answer.repeat(*count / frame_bytes))?;
            *count %= frame_bytes;
        }
        consumer.as_ref().map_or(Ok(()), |mut consumer| consumer.write_all(&group))?;
    }
    Ok(Figures::from([("value", 0.0)]))
}
