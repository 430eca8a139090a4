//! Requests about recurring series. Apply decides their outcomes.

use delaymq_core::error::{Error, Result};
use delaymq_core::record::recurring::CatchUp;
use delaymq_core::store::Outcome;
use delaymq_core::units::{Millis, Sequence};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::recurring::{RecurAsked, SeriesName, SeriesRow, SeriesTold};
use delaymq_recurrence::{Rule, Zones};

use super::Server;
use super::steps::{Asker, SeriesKey, Step, Wish, unexpected};
use crate::node::{NewRecurring, Node, unless_full};

impl Server {
    pub(super) fn recur(&mut self, node: &mut Node, asker: Asker, asked: &RecurAsked<'_>) -> Result<()> {
        let wish = Wish {
            named: SeriesKey { subject: asked.subject.to_owned(), name: asked.name.to_owned() },
            every_ms: asked.every_ms,
            start: asked.start,
            catch_up: asked.catch_up,
            if_exists: asked.if_exists,
            body: asked.body.to_vec(),
        };
        self.promise(node, asker, Step::BeginSeries(wish))
    }

    pub(super) fn end_recurring(&mut self, node: &mut Node, asker: Asker, named: &SeriesName<'_>) -> Result<()> {
        let named = SeriesKey { subject: named.subject.to_owned(), name: named.name.to_owned() };
        self.promise(node, asker, Step::EndSeries(named))
    }

    pub(super) fn keep_series(
        &mut self,
        node: &mut Node,
        asker: Asker,
        named: SeriesKey,
        fact: Sequence,
    ) -> Result<Option<Step>> {
        let ended = match node.take_outcome(fact) {
            None => return Ok(Some(Step::Series(named, fact))),
            Some(Outcome::SeriesEnded(_)) => 1_u64,
            Some(Outcome::NotFound) => 0,
            Some(Outcome::SeriesBegun(_)) => return self.series_begun(node, asker, &named).map(|()| None),
            Some(other) => return Err(unexpected(other)),
        };
        self.answer_bytes(asker, &ended.to_be_bytes()).map(|()| None)
    }

    fn series_begun(&mut self, node: &Node, asker: Asker, named: &SeriesKey) -> Result<()> {
        let Some((number, pending)) = node.series_named(&named.subject, &named.name) else {
            let words = "the series has ended meanwhile";
            return self.refuse(asker, &RemoteError::new(ErrorCode::InvalidArgument, words));
        };
        let row = SeriesRow {
            number: number.0,
            subject: &named.subject,
            name: &named.name,
            rule: "",
            zone: "UTC",
            catch_up: CatchUp::One,
            expires_after: None,
            pending,
        };
        self.answer(asker, |out| SeriesTold { next: 0, rows: vec![row] }.put(out))
    }
}

pub(super) fn begin_series(node: &mut Node, wish: Wish) -> Result<Step> {
    let text = Rule::every_text(wish.every_ms);
    let unknown = || Error::corrupt("", 0, "a rule and a start that can be", format!("{text} from {:?}", wish.start));
    let rule = Rule::parse(&text, "UTC", &Zones::bundled()).map_err(|_| unknown())?;
    let start = wish.start.map(|start| start.0);
    let after = rule.counts_from(node.reading().now.0, start).ok_or_else(unknown)?;
    let new = NewRecurring {
        subject: &wish.named.subject,
        name: &wish.named.name,
        if_exists: wish.if_exists,
        rule: &text,
        catch_up: wish.catch_up,
        after: Millis(after),
        body: &wish.body,
    };
    Ok(match unless_full(node.begin_series(&new))? {
        Some(fact) => Step::Series(wish.named, fact),
        None => Step::BeginSeries(wish),
    })
}

pub(super) fn end_series(node: &mut Node, named: SeriesKey) -> Result<Step> {
    Ok(match unless_full(node.end_series(&named.subject, &named.name))? {
        Some(fact) => Step::Series(named, fact),
        None => Step::EndSeries(named),
    })
}
