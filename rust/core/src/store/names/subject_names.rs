//! The names of the subjects that delaymq makes for each group. Names of users contain no `%`, so no user's subject
//! has such a name.

use crate::record::limits::{DEAD_LETTER_PREFIX, GroupSubject, RETRY_PREFIX, group_subject};
use crate::units::Millis;

/// The delay of a message that a QMQ consumer sends to its group's retry subject: QMQ's
/// `message.retry.delay.seconds`.
const SENT_RETRY_MS: u64 = 5_000;

/// The due time of a message that a QMQ consumer sends to such a subject for `due`.
pub fn sent_retry_due(subject: &GroupSubject<'_>, due: Millis) -> Millis {
    if subject.is_dead { due } else { due.plus(SENT_RETRY_MS) }
}

/// The subject for the retries of a group.
pub fn retry_subject(subject: &str, group: &str) -> String {
    format!("{RETRY_PREFIX}{subject}%{group}")
}

/// The subject for the dead letters of a group.
pub fn dead_letter_subject(subject: &str, group: &str) -> String {
    format!("{DEAD_LETTER_PREFIX}{subject}%{group}")
}

/// The subjects for messages that a group does not finish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoesOn {
    /// The subject for retries.
    pub again: String,
    /// The subject for dead letters; `None` for dead letters themselves, which are always retried.
    pub dead: Option<String>,
}

/// Returns the subjects for messages of a subject that a group does not finish. Retries of a retry subject stay with
/// the original subject, and a dead letter stays in its subject.
pub fn goes_on(subject: &str, group: &str) -> GoesOn {
    match group_subject(subject) {
        Some(GroupSubject { is_dead: true, .. }) => GoesOn { again: subject.to_owned(), dead: None },
        Some(GroupSubject { subject, .. }) => of_group(subject, group),
        None => of_group(subject, group),
    }
}

/// The subjects that consumers of a group consume: the subject itself and the one with its retries.
pub fn consumed_at(subject: &str, group: &str) -> Vec<String> {
    let mut places = vec![subject.to_owned(), goes_on(subject, group).again];
    places.dedup();
    places
}

fn of_group(subject: &str, group: &str) -> GoesOn {
    GoesOn { again: retry_subject(subject, group), dead: Some(dead_letter_subject(subject, group)) }
}

/// True if a subject with this name holds dead letters.
pub(in crate::store) fn holds_dead_letters(name: &str) -> bool {
    name.starts_with(DEAD_LETTER_PREFIX)
}

/// The subject and the group whose dead letters are in the subject with this name.
pub fn dead_letters_of(name: &str) -> Option<(&str, &str)> {
    // Neither name contains a `%`.
    name.strip_prefix(DEAD_LETTER_PREFIX)?.split_once('%')
}

/// True if users publish to a subject with this name.
pub fn is_of_users(name: &str) -> bool {
    !name.starts_with('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_delaymq_makes_are_told_from_those_of_users() {
        let (retry, dead) = (retry_subject("order", "billing"), dead_letter_subject("order", "billing"));
        assert_eq!((retry.as_str(), dead.as_str()), ("%RETRY%order%billing", "%DEAD_RETRY%order%billing"));
        assert_eq!([is_of_users("order"), is_of_users(&retry), is_of_users(&dead)], [true, false, false]);
        let dead_only = ["order", &retry, &dead].map(holds_dead_letters);
        assert_eq!(dead_only, [false, false, true]);
        let whose = ["order", &retry, &dead].map(dead_letters_of);
        assert_eq!(whose, [None, None, Some(("order", "billing"))]);
    }

    #[test]
    fn what_a_group_does_not_finish_goes_to_its_own_subjects_and_no_further() {
        let (retry, dead) = (retry_subject("order", "billing"), dead_letter_subject("order", "billing"));
        let own = GoesOn { again: retry.clone(), dead: Some(dead.clone()) };
        assert_eq!(goes_on("order", "billing"), own);
        assert_eq!(goes_on(&retry, "billing"), own, "a retry is not retried by yet another subject");
        assert_eq!(goes_on(&retry, "audit").again, retry_subject("order", "audit"));
        assert_eq!(goes_on(&dead, "billing"), GoesOn { again: dead, dead: None });
    }
}
