//! The subscriptions of one connection: their numbers, and how many more messages each may be sent.
//!
//! The limits are its credit, and the number of unsettled messages that it may hold. `H` is the caller's handle of
//! a subscription.

use std::collections::BTreeMap;

use crate::wire::extension::consume::CREDIT_MAX;
use crate::wire::extension::errors::{Attribute, ErrorCode, RemoteError};

/// The most subscriptions of one connection.
pub const SUBSCRIPTIONS_MAX: usize = 1_024;

#[derive(Debug)]
struct Subscription<H> {
    behind: H,
    in_flight_max: u32,
    credit: u32,
}

/// The subscriptions; see the module.
#[derive(Debug)]
pub struct Subscriptions<H> {
    open: BTreeMap<u32, Subscription<H>>,
}

impl<H> Default for Subscriptions<H> {
    fn default() -> Self {
        Self { open: BTreeMap::new() }
    }
}

impl<H> Subscriptions<H> {
    /// Checks that a subscription of this number may be opened.
    ///
    /// # Errors
    /// `UnknownSubscription` if the number is taken, `Busy` if the maximum is open.
    pub fn check_new(&self, number: u32) -> Result<(), RemoteError> {
        if self.open.contains_key(&number) {
            return Err(refused(number, "a number that no open subscription has"));
        }
        if self.open.len() >= SUBSCRIPTIONS_MAX {
            let words = format!("this connection has {SUBSCRIPTIONS_MAX} subscriptions: close some first");
            return Err(RemoteError::new(ErrorCode::Busy, &words).with(Attribute::Limit, SUBSCRIPTIONS_MAX as u64));
        }
        Ok(())
    }

    /// Opens a subscription; returns `behind` with the error if it may not be opened.
    ///
    /// # Errors
    /// As [`Self::check_new`].
    pub fn open(&mut self, number: u32, behind: H, in_flight_max: u32, credit: u32) -> Result<(), (H, RemoteError)> {
        if let Err(error) = self.check_new(number) {
            return Err((behind, error));
        }
        self.open.insert(number, Subscription { behind, in_flight_max, credit: credit.min(CREDIT_MAX) });
        Ok(())
    }

    /// The handle of a subscription.
    ///
    /// # Errors
    /// `UnknownSubscription` if there is none of that number.
    pub fn get(&self, number: u32) -> Result<&H, RemoteError> {
        self.open.get(&number).map(|open| &open.behind).ok_or_else(|| refused(number, "an open subscription"))
    }

    /// Adds credit to a subscription.
    ///
    /// # Errors
    /// `UnknownSubscription`; `TooLarge` if the credit would exceed its limit: it is then unchanged.
    pub fn add_credit(&mut self, number: u32, credit: u32) -> Result<(), RemoteError> {
        let open = self.open.get_mut(&number).ok_or_else(|| refused(number, "an open subscription"))?;
        let sum = u64::from(open.credit).saturating_add(u64::from(credit));
        if sum > u64::from(CREDIT_MAX) {
            let words = format!("credit is too large: the limit is {CREDIT_MAX}, found {sum}");
            let error = RemoteError::new(ErrorCode::TooLarge, &words).with(Attribute::Argument, "credit");
            let error = error.with(Attribute::Limit, u64::from(CREDIT_MAX));
            return Err(error.with(Attribute::Found, sum.to_string().as_str()));
        }
        open.credit = open.credit.saturating_add(credit);
        Ok(())
    }

    /// The number of messages that it may be sent now, if it holds `holds` messages.
    pub fn room(&self, number: u32, holds: usize) -> usize {
        let Some(open) = self.open.get(&number) else { return 0 };
        (open.in_flight_max as usize).saturating_sub(holds).min(open.credit as usize)
    }

    /// Takes credit for `count` messages that were sent.
    pub fn sent(&mut self, number: u32, count: usize) {
        if let Some(open) = self.open.get_mut(&number) {
            open.credit = open.credit.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// Closes a subscription, and returns its handle.
    ///
    /// # Errors
    /// `UnknownSubscription`.
    pub fn close(&mut self, number: u32) -> Result<H, RemoteError> {
        let closed = self.open.remove(&number).ok_or_else(|| refused(number, "an open subscription"))?;
        Ok(closed.behind)
    }

    /// Closes all of them, because the connection is closed.
    pub fn close_all(&mut self) -> Vec<H> {
        std::mem::take(&mut self.open).into_values().map(|open| open.behind).collect()
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &H)> {
        self.open.iter().map(|(number, open)| (*number, &open.behind))
    }
}

fn refused(number: u32, expected: &str) -> RemoteError {
    let words = format!("subscription: expected {expected}, found {number}");
    let error = RemoteError::new(ErrorCode::UnknownSubscription, &words).with(Attribute::Argument, "subscription");
    error.with(Attribute::Expected, expected).with(Attribute::Found, number.to_string().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T, RemoteError>) -> Option<ErrorCode> {
        result.err().map(|error| error.code)
    }

    #[test]
    fn no_more_is_sent_than_there_is_credit_for_and_no_more_is_held_than_may_be() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.open(4, "behind", 10, 6).unwrap();
        assert_eq!((subscriptions.room(4, 0), subscriptions.room(4, 7), subscriptions.room(4, 11)), (6, 3, 0));
        subscriptions.sent(4, 5);
        assert_eq!(subscriptions.room(4, 5), 1);
        subscriptions.sent(4, 5);
        assert_eq!(subscriptions.room(4, 0), 0);
        subscriptions.add_credit(4, 100).unwrap();
        assert_eq!((subscriptions.room(4, 0), subscriptions.room(5, 0)), (10, 0));
        assert_eq!(code(subscriptions.add_credit(4, CREDIT_MAX)), Some(ErrorCode::TooLarge));
        subscriptions.add_credit(4, CREDIT_MAX - 100).unwrap();
        assert_eq!(code(subscriptions.add_credit(4, 1)), Some(ErrorCode::TooLarge));
    }

    #[test]
    fn a_number_is_one_subscription_at_a_time() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.open(4, "first", 1, 1).unwrap();
        let (behind, error) = subscriptions.open(4, "second", 1, 1).unwrap_err();
        assert_eq!((behind, error.code), ("second", ErrorCode::UnknownSubscription));
        assert_eq!(
            (subscriptions.get(4), code(subscriptions.get(5))),
            (Ok(&"first"), Some(ErrorCode::UnknownSubscription))
        );
        assert_eq!(code(subscriptions.add_credit(5, 1)), Some(ErrorCode::UnknownSubscription));
        assert_eq!(
            (subscriptions.close(4), code(subscriptions.close(4))),
            (Ok("first"), Some(ErrorCode::UnknownSubscription))
        );
        subscriptions.open(4, "again", 1, 1).unwrap();
        subscriptions.open(2, "other", 1, 1).unwrap();
        assert_eq!(subscriptions.iter().map(|(number, _)| number).collect::<Vec<_>>(), [2, 4]);
        assert_eq!((subscriptions.close_all(), subscriptions.iter().count()), (vec!["other", "again"], 0));
    }

    #[test]
    fn a_connection_has_only_so_many() {
        let mut subscriptions = Subscriptions::default();
        for number in 0..SUBSCRIPTIONS_MAX as u32 {
            subscriptions.open(number, (), 1, u32::MAX).unwrap();
        }
        assert_eq!(code(subscriptions.check_new(u32::MAX)), Some(ErrorCode::Busy));
        assert_eq!(subscriptions.room(0, 0), 1);
        subscriptions.close(0).unwrap();
        assert_eq!(subscriptions.check_new(u32::MAX), Ok(()));
    }
}
