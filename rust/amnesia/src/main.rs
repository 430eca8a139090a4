//! A file system in memory that loses and tears unsynced changes when its power is cut, and whose calls fail on
//! command. A harness sends commands, line by line on standard input, and gets one line for each: `ok …` or `error
//! …`. At the end of standard input, the program unmounts the file system and ends.
//!
//! ```text
//! delaymq-amnesia FOLDER           mounts itself there; needs /dev/fuse, and root
//!
//!   cut LOSS SEED                  the disk answers no process any more; LOSS: all, later, any, earlier.
//!                                  ok pending=N: the number of unsynced changes
//!   cut-at N LOSS SEED             the same, after N calls that change something
//!   await MS                       waits at most MS for that cut: ok cut=1 pending=N, or ok cut=0
//!   remount                        after the processes on it were killed: mounts the state that the cut left
//!   fresh                          mounts an empty disk, and cancels the fault
//!   drop                           mounts the same disk again, so that the kernel's cache is empty
//!   fail CALL K HOW once|ever SEED the K-th call of this kind from now on; HOW: EIO, ENOSPC, EDQUOT, EINTR, short
//!   clear                          cancels the fault and restarts the counts
//!   counts                         ok failed=N open=N create=N …
//!   record NAME                    starts a new recording of the writes and flushes of one file of the root folder
//!   mark                           ok events=N: the number of recorded events
//!   save PATH                      writes the recording to another file system
//! ```

mod chance;
mod content;
mod disk;
mod faults;
mod loss;
mod mounting;
mod names;
mod recording;
mod serving;
mod wire;

use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::disk::{Disk, ROOT};
use crate::faults::{Call, Failure, Fault};
use crate::loss::Loss;
use crate::mounting::Mounted;
use crate::serving::{Coming, Power, Shared};

/// The answer to a command, or the reason of its failure.
type Answered = Result<String, String>;

/// The file system, and the disk to mount next.
struct Amnesia {
    place: PathBuf,
    shared: Arc<Shared>,
    mounted: Option<Mounted>,
}

impl Amnesia {
    fn obey(&mut self, line: &str) -> Answered {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["cut", loss, seed] => {
                let (loss, seed) = (loss_of(loss)?, number(seed)?);
                self.shared.held().cut(loss, seed);
                self.shared.await_cut(Duration::ZERO).map(|pending| format!("pending={pending}")).ok_or("no cut".into())
            }
            ["cut-at", calls, loss, seed] => {
                let coming = Coming { calls: number(calls)?, loss: loss_of(loss)?, seed: number(seed)? };
                self.shared.held().coming = Some(coming);
                Ok(String::new())
            }
            ["await", wait_ms] => Ok(match self.shared.await_cut(Duration::from_millis(number(wait_ms)?)) {
                Some(pending) => format!("cut=1 pending={pending}"),
                None => "cut=0".to_owned(),
            }),
            ["remount"] => {
                let (left, _) = self.shared.held().left.take().ok_or("the power was not cut")?;
                self.mount(Some(left))
            }
            ["fresh"] => {
                let mut served = self.shared.held();
                served.faults.set(None, 0);
                (served.coming, served.left) = (None, None);
                drop(served);
                self.mount(Some(Disk::default()))
            }
            ["drop"] => self.mount(None),
            ["fail", call, place, how, times, seed] => self.fail(call, number(place)?, how, times, number(seed)?),
            ["clear"] => {
                self.shared.held().faults.set(None, 0);
                Ok(String::new())
            }
            ["counts"] => {
                let served = self.shared.held();
                let mut text = format!("failed={}", served.faults.failed);
                for (name, count) in served.faults.counts() {
                    write!(text, " {name}={count}").map_err(|error| error.to_string())?;
                }
                Ok(text)
            }
            ["record", name] => {
                let mut served = self.shared.held();
                let number = served.disk.find(ROOT, name.as_bytes()).map_err(|error| error.to_string())?;
                served.recording.begin(number);
                Ok(String::new())
            }
            ["mark"] => Ok(format!("events={}", self.shared.held().recording.length())),
            ["save", path] => {
                let served = self.shared.held();
                served.recording.save(Path::new(path)).map_err(|error| error.to_string())?;
                Ok(format!("events={}", served.recording.length()))
            }
            _ => Err(format!("not understood: {line}")),
        }
    }

    /// Mounts again: this disk, or the same as before.
    fn mount(&mut self, disk: Option<Disk>) -> Answered {
        self.shared.set_power(Power::Off);
        if let Some(mounted) = self.mounted.take() {
            mounted.end().map_err(|error| format!("unmount: {error}"))?;
        }
        if let Some(disk) = disk {
            self.shared.held().disk = disk;
        }
        self.shared.set_power(Power::On);
        let mounted = Mounted::new(&self.place, &self.shared).map_err(|error| format!("mount: {error}"))?;
        self.mounted = Some(mounted);
        Ok(String::new())
    }

    fn fail(&self, call: &str, place: u64, how: &str, times: &str, seed: u64) -> Answered {
        let call = Call::of(call).ok_or("no such call")?;
        let failure = Failure::of(how).ok_or("no such failure")?;
        let for_ever = match times {
            "once" => false,
            "ever" => true,
            _ => return Err("once or ever".to_owned()),
        };
        if place == 0 || (failure == Failure::Short && call != Call::Write) {
            return Err("calls are counted from 1, and only writes are short".to_owned());
        }
        self.shared.held().faults.set(Some(Fault { call, place, failure, for_ever }), seed);
        Ok(String::new())
    }
}

fn loss_of(word: &str) -> Result<Loss, String> {
    Loss::of(word).ok_or_else(|| format!("{word}: no such loss"))
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|error| format!("{word}: {error}"))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(place), None) = (arguments.next(), arguments.next()) else {
        let _unheard = writeln!(std::io::stderr(), "usage: delaymq-amnesia FOLDER");
        return ExitCode::from(2);
    };
    let place = PathBuf::from(place);
    let mut amnesia = Amnesia { place, shared: Arc::default(), mounted: None };
    let mut answer = amnesia.mount(Some(Disk::default()));
    let mut lines = std::io::stdin().lock().lines();
    loop {
        let text = match &answer {
            Ok(text) => format!("ok {text}"),
            Err(text) => format!("error {text}"),
        };
        if writeln!(std::io::stdout(), "{}", text.trim_end()).is_err() || amnesia.mounted.is_none() {
            break;
        }
        let Some(Ok(line)) = lines.next() else { break };
        answer = amnesia.obey(&line);
    }
    amnesia.shared.set_power(Power::Off);
    match amnesia.mounted.take().map(Mounted::end) {
        Some(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
