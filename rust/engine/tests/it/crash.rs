//! `kill -9`, again and again: this program runs itself as the victim.

#![cfg(test)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{open, options, subscribe};
use delaymq_engine::{Due, Durability, Options};

const FOLDER: &str = "DELAYMQ_TEST_FOLDER";
const DURABILITY: &str = "DELAYMQ_TEST_DURABILITY";

fn small(durability: Durability) -> Options {
    let mut options = Options { segment_bytes: 256 << 10, ..options(durability) };
    options.owner.checkpoint_bytes = 300 << 10;
    options.owner.keep_finished_ms = 0;
    options
}

/// The victim: publishes until it is killed, and prints the last number that was acknowledged.
#[test]
#[ignore = "run by the other tests as a child process"]
fn victim() {
    let folder = std::env::var(FOLDER).unwrap();
    let durability = if std::env::var(DURABILITY).unwrap() == "os" { Durability::Os } else { Durability::Disk };
    let store = open(Path::new(&folder), small(durability));
    let messages = subscribe(&store, "victim", "group");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let pulled = messages.pull(64, Duration::from_millis(50)).unwrap();
                let keys: Vec<_> = pulled.iter().map(|message| message.key).collect();
                let text: Vec<_> = pulled.iter().map(|message| String::from_utf8_lossy(message.body())).collect();
                if !text.is_empty() {
                    writeln!(std::io::stdout(), "finishing {}", text.join(" ")).unwrap();
                    messages.acknowledge(&keys).unwrap();
                    assert!(messages.flush(Duration::from_secs(5)).unwrap());
                    writeln!(std::io::stdout(), "finished {}", text.join(" ")).unwrap();
                }
            }
        });
        let mut batch = store.batch();
        for number in 0_u64.. {
            let text = format!("{}-{number}", std::process::id());
            batch.push("victim", Due::After(number % 7), &[0; 5], text.as_bytes()).unwrap();
            batch.push("kept", Due::After(3_600_000), &[0; 5], text.as_bytes()).unwrap();
            store.publish(&mut batch).unwrap();
            writeln!(std::io::stdout(), "stored {text}").unwrap();
        }
    });
}

fn start(folder: &Path, durability: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::victim", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env(DURABILITY, durability)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn words<'a>(line: &'a str, kind: &str) -> impl Iterator<Item = String> + use<'a> {
    // The test harness prints in front of the first line.
    let at = line.find(kind).map(|at| &line[at + kind.len()..]);
    at.unwrap_or("").split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn survive(durability: &str, mode: Durability) {
    let folder = tempfile::tempdir().unwrap();
    let (mut stored, mut finishing, mut finished) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for round in 0..4 {
        let mut child = start(folder.path(), durability);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for (count, line) in lines.map_while(Result::ok).enumerate() {
            stored.extend(words(&line, "stored "));
            finishing.extend(words(&line, "finishing "));
            finished.extend(words(&line, "finished "));
            if count == 400 + round * 150 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    assert!(stored.len() > 800, "{}", stored.len());
    let store = open(folder.path(), small(mode));
    let messages = subscribe(&store, "victim", "group");
    let mut again = Vec::new();
    loop {
        let pulled = messages.pull(256, Duration::from_secs(2)).unwrap();
        if pulled.is_empty() {
            break;
        }
        let keys: Vec<_> = pulled.iter().map(|message| message.key).collect();
        messages.acknowledge(&keys).unwrap();
        again.extend(pulled);
    }
    let arrived: BTreeSet<_> =
        again.iter().map(|message| String::from_utf8_lossy(message.body()).into_owned()).collect();
    let lost: Vec<_> = stored.iter().filter(|text| !finishing.contains(*text) && !arrived.contains(*text)).collect();
    assert!(lost.is_empty(), "lost {lost:?}");
    let repeated: Vec<_> = arrived.iter().filter(|text| finished.contains(*text)).collect();
    assert!(repeated.is_empty(), "acknowledged durably and delivered again: {repeated:?}");
    assert!(store.status().unwrap().pending >= stored.len() as u64);
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    survive("disk", Durability::Disk);
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9_in_os_mode() {
    survive("os", Durability::Os);
}
