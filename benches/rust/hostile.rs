//! A process that is no good neighbour: its connections take what they can of a server.

use std::io::Write;
use std::time::{Duration, Instant};

use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use delaymq_core::wire::extension::{EXTENSION_VERSION, PING, PUBLISH};
use delaymq_core::wire::frame::{Header, put_frame};

use crate::case::{Case, Failure, Figures};
use crate::client::{connect, tell_others};
use crate::frames::Line;

/// Connections that send garbage, a second.
const GARBAGE_PER_S: u64 = 200;
/// Connections whose frames come byte by byte.
const DRIPPING: u64 = 50;
/// Requests of those that never read their answers.
const UNREAD: usize = 1_000;
const LEAST: Duration = Duration::from_millis(5);

/// Until the file `done` is there: connections that never read what they asked for, frames that come byte
/// by byte, garbage, and what is opened and left.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let port = case.count("port")?;
    let mut unread = (0..4).map(|_| Line::of(case)).collect::<Result<Vec<_>, _>>()?;
    for line in &mut unread {
        line.socket.set_nonblocking(true)?;
        for number in 0..UNREAD {
            line.put(Header::request(PING, EXTENSION_VERSION, i32::try_from(number).unwrap_or(0)), |out| {
                out.extend_from_slice(&[0xA5; 1_024]);
                Ok(())
            })?;
        }
        // It is blocked some time: nobody reads the answers.
        drop(line.send());
    }
    let frame = a_publish()?;
    let mut dripping = (0..DRIPPING).map(|_| Ok((connect(port)?, 0))).collect::<Result<Vec<(_, usize)>, Failure>>()?;
    tell_others(&case.folder.join("hostile"), "")?;
    let (started, mut garbage) = (Instant::now(), 0_u64);
    let mut half_open = Vec::new();
    while !case.folder.join("done").exists() {
        let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        while garbage < elapsed_ms.saturating_mul(GARBAGE_PER_S) / 1_000 {
            garbage += 1;
            let mut socket = connect(port)?;
            // It may be closed already.
            drop(socket.write_all(b"GET / HTTP/1.1\r\n\r\n"));
            if garbage % 10 == 0 {
                half_open.push(connect(port)?);
            }
        }
        half_open.drain(..half_open.len().saturating_sub(200));
        for (socket, at) in &mut dripping {
            let byte = frame.get(*at..=*at).unwrap_or_default();
            // Cut off for being slow, it begins again.
            if byte.is_empty() || socket.write_all(byte).is_err() {
                (*socket, *at) = (connect(port)?, 0);
            } else {
                *at += 1;
            }
        }
        std::thread::sleep(LEAST);
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    Ok(Figures::from([("value", garbage as f64)]))
}

fn a_publish() -> Result<Vec<u8>, Failure> {
    let mut writer = PublishWriter::default();
    writer.push("bench.hostile", DueTime::After(3_600_000), &[], &[0x5A; 4_096])?;
    let mut frame = Vec::new();
    put_frame(&mut frame, Header::request(PUBLISH, EXTENSION_VERSION, 1), |out| writer.put(out, true))?;
    Ok(frame)
}
