//! Lines for the harness, each one JSON object.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

const DEAF: i32 = 10;

/// The wall clock, in whole milliseconds since 1970.
pub(crate) fn wall_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// A line under way.
#[derive(Clone, Debug)]
pub(crate) struct Line(String);

impl Line {
    /// A line of this kind and this time.
    pub(crate) fn of(kind: &str) -> Self {
        Self::at(kind, wall_ms())
    }

    /// A line of this kind about that time.
    pub(crate) fn at(kind: &str, at_ms: u64) -> Self {
        Self(format!("{{\"kind\":\"{kind}\",\"at_ms\":{at_ms}"))
    }

    pub(crate) fn number(mut self, name: &str, value: u64) -> Self {
        let _always = write!(self.0, ",\"{name}\":{value}");
        self
    }

    pub(crate) fn flag(mut self, name: &str, value: bool) -> Self {
        let _always = write!(self.0, ",\"{name}\":{value}");
        self
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        let _always = write!(self.0, ",\"{name}\":\"");
        for letter in value.chars() {
            match letter {
                '"' | '\\' => self.0.extend(['\\', letter]),
                ' '.. => self.0.push(letter),
                _ => self.0.push(' '),
            }
        }
        self.0.push('"');
        self
    }

    pub(crate) fn nothing(mut self, name: &str) -> Self {
        let _always = write!(self.0, ",\"{name}\":null");
        self
    }
}

/// Where lines go. They are in the pipe when a call returns.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    /// True once the last line was told.
    is_over: Mutex<bool>,
}

impl Telling {
    /// Tells lines, in order, with nobody's between them. Behind the last line nothing is told, so nothing that would have
    /// been may be done: whoever comes then waits for the end of the process.
    pub(crate) fn tell(&self, lines: &[Line]) {
        let mut whole = String::with_capacity(lines.iter().map(|line| line.0.len().saturating_add(2)).sum());
        for line in lines {
            whole.push_str(&line.0);
            whole.push_str("}\n");
        }
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_over {
            drop(is_over);
            wait_for_the_end();
        }
        write(&whole);
    }

    /// Tells the last line, for whoever comes first; the others wait for the end of the process.
    pub(crate) fn tell_last(&self, line: &Line) {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_over {
            drop(is_over);
            wait_for_the_end();
        }
        *is_over = true;
        write(&format!("{}}}\n", line.0));
    }
}

/// Another thread is about to end the process.
fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// One write of whole lines is passed on as it is: standard output keeps back only what has no end yet.
fn write(whole: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(whole.as_bytes()).and_then(|()| out.flush()).is_err() {
        // Nobody judges what is done from here on.
        std::process::exit(DEAF);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::{Line, Telling};

    /// A message was cancelled, and others published, that stood in no ledger: one thread had told that the store had
    /// failed, and the other went on until the process was gone.
    #[test]
    fn what_cannot_be_told_any_more_is_not_done() {
        let telling = Arc::new(Telling::default());
        telling.tell(&[Line::of("publish")]);
        telling.tell_last(&Line::of("ended"));
        let (done, was_done) = mpsc::channel();
        std::thread::spawn(move || {
            telling.tell(&[Line::of("cancel")]);
            done.send(())
        });
        assert_eq!(was_done.recv_timeout(Duration::from_millis(200)), Err(mpsc::RecvTimeoutError::Timeout));
    }
}
