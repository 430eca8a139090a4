//! `/metrics`, read by the rules of Prometheus' text format. The reader of this test refuses malformed text.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{metric, page, serve};
use delaymq_core::wire::extension::{PING, STATUS};

type Labels = BTreeMap<String, String>;

#[derive(Debug)]
struct Family {
    name: String,
    kind: String,
    samples: Vec<(String, Labels, f64)>,
}

fn is_name(text: &str) -> bool {
    let mut letters = text.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || b"_:".contains(&first))
        && letters.all(|letter| letter.is_ascii_alphanumeric() || b"_:".contains(&letter))
}

/// The labels behind the brace, and what stands behind them.
fn labels(mut rest: &str) -> Result<(Labels, &str), String> {
    let mut found = Labels::new();
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Ok((found, behind));
        }
        let (name, behind) = rest.split_once("=\"").ok_or("a label without a value")?;
        if !is_name(name) || name.contains(':') {
            return Err(format!("no name of a label: {name}"));
        }
        let (mut value, mut letters) = (String::new(), behind.char_indices());
        let end = loop {
            match letters.next().ok_or("a value without an end")? {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match letters.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, letter @ ('\\' | '"'))) => letter,
                    _ => return Err("an unknown escape".to_owned()),
                }),
                (_, letter) => value.push(letter),
            }
        };
        if found.insert(name.to_owned(), value).is_some() {
            return Err(format!("the label {name} stands twice"));
        }
        rest = &behind[end..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None if rest.starts_with('}') => {}
            None => return Err("labels without a comma".to_owned()),
        }
    }
}

fn sample(line: &str) -> Result<(String, Labels, f64), String> {
    let end = line.find([' ', '{']).ok_or("a sample without a value")?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let value: f64 = value.parse().map_err(|_| format!("no number: {value}"))?;
    if is_name(name) { Ok((name.to_owned(), labels, value)) } else { Err(format!("no name: {name}")) }
}

/// All families of a page, each with its help, its type and its samples beside each other, none twice.
fn read(text: &str) -> Result<Vec<Family>, String> {
    if !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let mut families: Vec<Family> = Vec::new();
    let mut names = BTreeSet::new();
    let mut helped = None;
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').ok_or("a help without words")?;
            if !is_name(name) || words.is_empty() || !names.insert(name.to_owned()) {
                return Err(format!("help: {line}"));
            }
            helped = Some(name.to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').ok_or("a type without a kind")?;
            if helped.take().as_deref() != Some(name) || !["counter", "gauge", "histogram"].contains(&kind) {
                return Err(format!("type: {line}"));
            }
            families.push(Family { name: name.to_owned(), kind: kind.to_owned(), samples: Vec::new() });
        } else {
            let found = sample(line)?;
            let family = families.last_mut().filter(|_| helped.is_none()).ok_or("a sample without a family")?;
            let suffixes: &[&str] = if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            if !suffixes.iter().any(|suffix| found.0 == format!("{}{suffix}", family.name)) {
                return Err(format!("{} among those of {}", found.0, family.name));
            }
            if family.samples.iter().any(|other| (&other.0, &other.1) == (&found.0, &found.1)) {
                return Err(format!("twice: {line}"));
            }
            family.samples.push(found);
        }
    }
    families.iter().try_for_each(check)?;
    Ok(families)
}

/// The text is a page that Prometheus can read.
pub(crate) fn must_be_metrics(text: &str) {
    read(text).unwrap();
}

fn check(family: &Family) -> Result<(), String> {
    let name = &family.name;
    if (family.kind == "counter") != name.ends_with("_total") {
        return Err(format!("{name} is a {}", family.kind));
    }
    if family.samples.iter().any(|(_, _, value)| family.kind != "gauge" && !(*value >= 0.0 && value.is_finite())) {
        return Err(format!("{name} counts what cannot be counted"));
    }
    if family.kind != "histogram" {
        return Ok(());
    }
    let buckets: Vec<_> = family.samples.iter().filter(|(name, ..)| name.ends_with("_bucket")).collect();
    let bounds: Vec<f64> = buckets.iter().filter_map(|(_, labels, _)| labels.get("le")?.parse().ok()).collect();
    let counts: Vec<f64> = buckets.iter().map(|(.., count)| *count).collect();
    let count = family.samples.iter().find(|(name, ..)| name.ends_with("_count")).map(|(.., count)| *count);
    let is_sound = bounds.len() == buckets.len()
        && bounds.windows(2).all(|pair| pair[0] < pair[1])
        && counts.windows(2).all(|pair| pair[0] <= pair[1])
        && bounds.last() == Some(&f64::INFINITY)
        && counts.last().copied() == count
        && family.samples.iter().any(|(name, ..)| name.ends_with("_sum"));
    if is_sound { Ok(()) } else { Err(format!("{name} is no histogram")) }
}

#[test]
fn the_reader_refuses_what_is_wrong() {
    let good = "# HELP a_total x y\n# TYPE a_total counter\na_total{b=\"c\\\"\\\\\\n\",d=\"\"} 1\na_total 2.5\n";
    assert_eq!(read(good).unwrap()[0].samples[0].1["b"], "c\"\\\n");
    let histogram = |rows: &str| format!("# HELP h x\n# TYPE h histogram\n{rows}h_sum 1\nh_count 2\n");
    read(&histogram("h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\n")).unwrap();
    let bad = [
        good.trim_end().to_owned(),
        format!("{good}{good}"),
        good.replace("a_total 2.5", "a_total{d=\"\",b=\"c\\\"\\\\\\n\"} 3"),
        good.replace(" 2.5", " x"),
        good.replace("a_total 2.5", "b_total 2.5"),
        good.replace("\\n\"", "\\t\""),
        good.replace("\",d", "\"d"),
        good.replace("counter", "gauge"),
        good.replace("counter", "number"),
        good.replace("HELP a_total", "HELP b_total"),
        good.replace("# HELP a_total x y\n", ""),
        good.replace("2.5", "-1"),
        histogram("h_bucket{le=\"1\"} 3\nh_bucket{le=\"+Inf\"} 2\n"),
        histogram("h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 3\n"),
        histogram("h_bucket{le=\"1\"} 2\n"),
        histogram("h_bucket{le=\"2\"} 1\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\n"),
    ];
    for text in bad {
        assert!(read(&text).is_err(), "{text}");
    }
}

#[test]
fn prometheus_can_read_all_that_is_counted() {
    let served = serve();
    let http = served.server.http_address().unwrap();
    let of = |families: &[Family], name: &str, label: &str| {
        let family = families.iter().find(|family| family.name == format!("delaymq_{name}")).unwrap();
        let labelled = family.samples.iter().filter(|(_, labels, _)| labels.values().any(|value| value == label));
        labelled.map(|(.., value)| *value).sum::<f64>().to_string()
    };
    read(&page(http, "GET /metrics").1).unwrap();
    let (mut producer, mut consumer) = (served.connect(), served.connect());
    consumer.subscribe(1, "order", "g", 100);
    producer.publish("order", &[b"now", b"now"], 0);
    producer.publish("order", &[b"later"], 50);
    let messages = consumer.messages(3);
    consumer.acknowledge(&messages);
    producer.send_version(STATUS, 9, 0, |_| Ok(()));
    assert_eq!(producer.answer().1, 1021);
    producer.done(PING, |_| Ok(()));
    let families = read(&page(http, "GET /metrics").1).unwrap();
    let commands = ["publish", "subscribe", "flush", "status", "ping", "redrive", "other"];
    let counts = commands.map(|command| of(&families, "requests_total", command));
    assert_eq!(counts, ["2", "1", "1", "1", "1", "0", "0"]);
    assert_eq!(of(&families, "failed_answers_total", "1021"), "1");
    assert_eq!(of(&families, "lateness_seconds", "+Inf"), "3");
    assert_eq!(of(&families, "info", "disk"), "1");
    let ones = [("published_messages", 3), ("sent_messages", 3), ("subscriptions", 1), ("connections", 2)];
    for (name, count) in ones.into_iter().chain([("requests_in_flight", 0), ("http_connections", 1), ("poisoned", 0)]) {
        assert_eq!(metric(&served, name), count, "{name}");
    }
    assert!(metric(&served, "received_bytes") > 100 && metric(&served, "sent_bytes") > 100);
}
