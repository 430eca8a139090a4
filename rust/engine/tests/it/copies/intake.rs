//! Requests that are refused while there are too few copies, and those that were taken then.

use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_engine::{CatchUp, Due, IfExists, Intake, NewRecurring, PublishTerms, Recurs, Store};

use super::{Copy, ENOUGH, LATER, SHORT, committing, try_publish};
use crate::support::{bodies, collect, subscribe};

const REFUSED: Error = Error::NotEnoughCopies { copies: 1, min_copies: 2, maybe_stored: false };
const UNKNOWN: Error = Error::NotEnoughCopies { copies: 1, min_copies: 2, maybe_stored: true };

fn publish_keyed(store: &Store, key: &str) -> Result<()> {
    let mut batch = store.batch();
    let terms = PublishTerms { key: Some(key), ..PublishTerms::NONE };
    batch.push_on_terms("orders", LATER, (&[0; 5], b"keyed"), &terms)?;
    store.publish(&mut batch).map(drop)
}

fn recur(store: &Store, name: &str) -> Result<()> {
    let new = NewRecurring {
        name,
        recurs: Recurs::Every(3_600_000),
        zone: "UTC",
        start: None,
        catch_up: CatchUp::One,
        if_exists: IfExists::Keep,
        expires_after: None,
        meta: &[0; 5],
        body: b"again",
    };
    store.recur("orders", &new).map(drop)
}

/// All requests that the copies must keep, each with what became of it.
fn requests(store: &Store, receipt: &delaymq_engine::Receipt) -> Vec<Result<()>> {
    vec![
        try_publish(store, LATER, "refused").map(drop),
        publish_keyed(store, "key"),
        store.cancel(receipt).map(drop),
        store.move_to(receipt, Due::After(7_200_000)).map(drop),
        store.cancel_key("orders", "other", None).map(drop),
        store.move_key("orders", "other", LATER, None).map(drop),
        recur(store, "daily"),
        store.end_recurring("orders", "daily").map(drop),
    ]
}

#[test]
fn with_too_few_copies_nothing_new_is_taken_and_deliveries_go_on() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    committing(&store, ENOUGH, || {
        let receipt = try_publish(&store, LATER, "pending").unwrap();
        try_publish(&store, Due::After(0), "ready").unwrap();
        let cases = [(Intake::NotEnough(SHORT), REFUSED), (Intake::HandingOver, Error::NotPrimary { epoch: 1 })];
        for (intake, error) in cases {
            store.set_intake(intake);
            for (place, found) in requests(&store, &receipt).into_iter().enumerate() {
                assert_eq!(found, Err(error.clone()), "request {place}");
            }
        }
        let mut batch = store.batch();
        batch.push("orders", Due::After(0), &[0; 5], b"kept in the batch").unwrap();
        assert!(store.try_publish(&mut batch).is_err());
        assert_eq!(batch.len(), 1);
        let messages = subscribe(&store, "orders", "billing");
        let pulled = collect(&messages, 1);
        assert_eq!(bodies(&pulled), ["ready"]);
        messages.acknowledge(&[pulled[0].key]).unwrap();
        assert!(messages.flush(Duration::from_secs(5)).unwrap());
        assert_eq!(store.status().unwrap().pending, 1);
        store.set_intake(Intake::Yes);
        assert!(requests(&store, &receipt).into_iter().all(|found| found.is_ok()));
        store.publish(&mut batch).unwrap();
        assert_eq!(bodies(&collect(&messages, 1)), ["kept in the batch"]);
    });
}

#[test]
fn what_was_taken_on_too_few_copies_may_be_stored() {
    let copy = Copy::new(1);
    let store = copy.lead_begun(1);
    let receipt = committing(&store, ENOUGH, || try_publish(&store, LATER, "pending").unwrap());
    committing(&store, SHORT, || {
        for (place, found) in requests(&store, &receipt).into_iter().enumerate() {
            assert_eq!(found, Err(UNKNOWN), "request {place}");
        }
        let mut batch = store.batch();
        batch.push("orders", LATER, &[0; 5], b"waited for").unwrap();
        let ticket = store.submit(&mut batch).unwrap();
        assert_eq!(ticket.wait(Duration::from_secs(5)).err(), Some(UNKNOWN));
        assert_eq!(store.outcome_of(ticket.end(), Ok(())), Err(UNKNOWN));
    });
    committing(&store, ENOUGH, || {
        try_publish(&store, LATER, "stored").unwrap();
        assert!(publish_keyed(&store, "another").is_ok());
    });
    // All of it is there, as this node is: a message that was cancelled, and four that were published.
    assert_eq!(store.status().unwrap().pending, 5);
}
