//! Requests about recurring series. Apply decides their outcomes.

use delaymq_core::error::{Error, Result};
use delaymq_core::record::recurring::CatchUp;
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::Outcome;
use delaymq_core::units::{Millis, Sequence};
use delaymq_core::wire::connection::RequestId;
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::recurring::{RecurAsked, SeriesName, SeriesRow, SeriesTold};
use delaymq_recurrence::Rule;

use super::Server;
use super::pending_replies::{Promise, unexpected};
use crate::connected::account::LinkId;
use crate::connected::unless_full;
use crate::node::{NewRecurring, Node};

/// A series that is asked for, kept until the log's queue has room for it.
pub(super) struct Wish {
    subject: String,
    name: String,
    every_ms: u64,
    start: Option<Millis>,
    catch_up: CatchUp,
    if_exists: IfExists,
    body: Vec<u8>,
}

impl Server {
    pub(super) fn recur(&mut self, node: &mut Node, link: LinkId, id: RequestId, asked: &RecurAsked<'_>) -> Result<()> {
        let wish = Wish {
            subject: asked.subject.to_owned(),
            name: asked.name.to_owned(),
            every_ms: asked.every_ms,
            start: asked.start,
            catch_up: asked.catch_up,
            if_exists: asked.if_exists,
            body: asked.body.to_vec(),
        };
        self.promises.push_back(Promise::Recur { link, id, wish });
        self.keep_promises(node)
    }

    pub(super) fn end_recurring(
        &mut self,
        node: &mut Node,
        link: LinkId,
        id: RequestId,
        named: &SeriesName<'_>,
    ) -> Result<()> {
        let (subject, name) = (named.subject.to_owned(), named.name.to_owned());
        self.promises.push_back(Promise::EndSeries { link, id, subject, name });
        self.keep_promises(node)
    }

    pub(super) fn keep_recur(node: &mut Node, link: LinkId, id: RequestId, wish: Wish) -> Result<Promise> {
        let text = Rule::every_text(wish.every_ms);
        let unknown =
            || Error::corrupt("", 0, "a rule and a start that can be", format!("{text} from {:?}", wish.start));
        let rule = Rule::parse(&text, "UTC").map_err(|_| unknown())?;
        let start = wish.start.map(|start| start.0);
        let after = rule.counts_from(node.reading().now.0, start).ok_or_else(unknown)?;
        let new = NewRecurring {
            subject: &wish.subject,
            name: &wish.name,
            if_exists: wish.if_exists,
            rule: &text,
            catch_up: wish.catch_up,
            after: Millis(after),
            body: &wish.body,
        };
        Ok(match unless_full(node.begin_series(&new))? {
            Some(fact) => Promise::Series { link, id, fact, subject: wish.subject, name: wish.name },
            None => Promise::Recur { link, id, wish },
        })
    }

    pub(super) fn keep_end(
        node: &mut Node,
        (link, id): (LinkId, RequestId),
        subject: String,
        name: String,
    ) -> Result<Promise> {
        Ok(match unless_full(node.end_series(&subject, &name))? {
            Some(fact) => Promise::Series { link, id, fact, subject, name },
            None => Promise::EndSeries { link, id, subject, name },
        })
    }

    pub(super) fn keep_series(
        &mut self,
        node: &mut Node,
        (link, id): (LinkId, RequestId),
        fact: Sequence,
        subject: String,
        name: String,
    ) -> Result<Option<Promise>> {
        let now = node.reading().now;
        let mut body = Vec::new();
        match node.take_outcome(fact) {
            None => return Ok(Some(Promise::Series { link, id, fact, subject, name })),
            Some(Outcome::SeriesEnded(_)) => body.extend_from_slice(&1_u64.to_be_bytes()),
            Some(Outcome::NotFound) => body.extend_from_slice(&0_u64.to_be_bytes()),
            Some(Outcome::SeriesBegun(_)) => {
                let Some((number, pending)) = node.series_named(&subject, &name) else {
                    let words = "the series has ended meanwhile";
                    return self
                        .refuse(link, id, now, &RemoteError::new(ErrorCode::InvalidArgument, words))
                        .map(|()| None);
                };
                let row = SeriesRow {
                    number: number.0,
                    subject: &subject,
                    name: &name,
                    rule: "",
                    zone: "UTC",
                    catch_up: CatchUp::One,
                    pending,
                };
                SeriesTold { next: 0, rows: vec![row] }.put(&mut body)?;
            }
            Some(other) => return Err(unexpected(other)),
        }
        self.answer(link, id, now, &body).map(|()| None)
    }
}
