//! Limit of `loopback`, `connections` and `clients`: one thread reads what producers send and hands it to another,
//! which is in `group`. Its ends are `producer` and `consumer`.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::channel;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create, delete, wait};

use super::group::{Arrived, commit};
use super::prepared::zeroed;
use crate::case::{Case, Failure, Figures};
use crate::client::tell_others;

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (mut left, mut here) = (case.count("frame_bytes")? * case.count("requests")?, case.count("connections")?);
    let file = zeroed(&case.folder.join("limit"), left)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    tell_others(&case.folder.join("port"), &listener.local_addr()?.port().to_string())?;
    let consumer = if case.flag("meets") { Some(listener.accept()?.0) } else { None };
    let accepted = (0..case.count("connections")?).map(|_| listener.accept().map(|(socket, _)| socket));
    let producers: Vec<TcpStream> = accepted.collect::<Result<_, _>>()?;
    let (sockets, mut events, mut input) = (create(CreateFlags::CLOEXEC)?, Vec::with_capacity(256), vec![0; 1 << 18]);
    for (number, producer) in producers.iter().enumerate() {
        producer.set_nodelay(true)?;
        add(&sockets, producer, EventData::new_u64(number as u64), EventFlags::IN)?;
    }
    std::thread::scope(|scope| {
        let (sender, arrived) = channel::<Arrived>();
        let (file, producers) = (&file, &producers);
        let writing = scope.spawn(move || commit(case, (file, producers, consumer), &arrived));
        while left > 0 {
            wait(&sockets, spare_capacity(&mut events), None)?;
            for number in events.drain(..).map(|event| event.data.u64() as usize) {
                let Some(mut producer) = producers.get(number) else { continue };
                let count = producer.read(&mut input)?;
                if count == 0 {
                    delete(&sockets, producer)?;
                    here -= 1;
                }
                left = if here == 0 { 0 } else { left - count as u64 }; // with the last producer it ends, too
                drop(sender.send((number, input.get(..count).unwrap_or_default().to_vec())));
            }
        }
        drop(sender);
        writing.join().unwrap_or_else(|_| Err(Failure("the writing thread died".to_owned())))
    })
}
