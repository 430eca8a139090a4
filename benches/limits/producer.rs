//! One end of `relay`: producers that have so many frames in flight each.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create, wait};

use crate::case::{Case, Failure, Figures, figure, now_us, rate};
use crate::client::{connect, told_by_others};

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (frame_bytes, in_flight, requests) =
        (case.count("frame_bytes")?, case.count("in_flight")?, case.count("requests")?);
    let answer_bytes = case.count("answer_bytes")?.max(1);
    let port = told_by_others(&case.folder.join("port"))?.parse().unwrap_or(0);
    if case.flag("meets") {
        told_by_others(&case.folder.join("consuming"))?;
    }
    let output = vec![0xA5_u8; (frame_bytes * in_flight) as usize];
    let piece = (if case.flag("gathers") { frame_bytes * in_flight } else { frame_bytes }) as usize;
    let write = |socket: &mut TcpStream, bytes: usize| {
        output.get(..bytes).unwrap_or_default().chunks(piece).try_for_each(|piece| socket.write_all(piece))
    };
    let (sockets, mut events, mut input) = (create(CreateFlags::CLOEXEC)?, Vec::with_capacity(256), vec![0; 1 << 18]);
    let (mut lines, mut left, mut answers) = (Vec::new(), requests, 0);
    for number in 0..case.count("connections")? {
        let socket = connect(port)?;
        add(&sockets, &socket, EventData::new_u64(number), EventFlags::IN)?;
        lines.push((socket, 0)); // and the bytes of answers that are not counted yet
    }
    let (began_us, started) = (now_us(), std::time::Instant::now());
    for (socket, _) in &mut lines {
        let count = in_flight.min(left);
        left -= count;
        write(socket, (count * frame_bytes) as usize)?;
    }
    while answers < requests {
        wait(&sockets, spare_capacity(&mut events), None)?;
        for number in events.drain(..).map(|event| event.data.u64() as usize) {
            let Some((socket, bytes)) = lines.get_mut(number) else { continue };
            *bytes += socket.read(&mut input)? as u64;
            let answered = *bytes / answer_bytes;
            *bytes %= answer_bytes;
            let count = answered.min(left);
            (left, answers) = (left - count, answers + answered);
            write(socket, (count * frame_bytes) as usize)?;
        }
    }
    let value = rate(case.count("messages")?, started.elapsed());
    Ok(Figures::from([("value", value), ("began_us", figure(began_us))]))
}
