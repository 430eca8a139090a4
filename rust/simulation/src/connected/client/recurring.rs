//! A client's series: each new one replaces the one before.

use delaymq_core::record::recurring::CatchUp;
use delaymq_core::record::terms::IfExists;
use delaymq_core::wire::extension::recurring::{RecurAsked, SeriesName, SeriesTold};
use delaymq_core::wire::extension::{END_RECURRING, RECUR};

use super::{Call, Client, Repeats};
use crate::connected::account::Account;
use crate::connected::users::Shared;
use crate::rhythm::Rhythm;

impl Client {
    /// Begins a series or ends it, if no request about its series is under way.
    pub(super) fn recur(&mut self, around: &mut Shared) -> &'static str {
        if self.calls.values().any(|asked| matches!(asked.call, Call::Recur(_) | Call::EndSeries)) {
            return "waits";
        }
        let (subject, name) = (self.consumes.subject.clone(), self.series.clone());
        if around.chance.percent(25) {
            around.account.series_end_asked(&name);
            let named = SeriesName { subject: &subject, name: &name };
            return self.ask(around, END_RECURRING, Repeats::Never, Call::EndSeries, |out| named.put(out));
        }
        let number = around.new_number();
        let rhythm = Rhythm {
            start: around.now.plus(around.chance.one_of(&[0, 700, 2_500])),
            step_ms: around.chance.one_of(&[2_000, 3_500, 9_000]),
            catch_up: match around.chance.below(3) {
                0 => CatchUp::All,
                1 => CatchUp::Skip,
                _ => CatchUp::One,
            },
        };
        let body: Vec<u8> = number.to_le_bytes().into_iter().chain(*b"again").collect();
        let asked = RecurAsked {
            subject: &subject,
            name: &name,
            every_ms: rhythm.step_ms,
            cron: "",
            zone: "UTC",
            start: Some(rhythm.start),
            catch_up: rhythm.catch_up,
            expires_after: None,
            if_exists: IfExists::Replace,
            meta: b"",
            body: &body,
        };
        around.account.series_asked(number, &subject, &name, body.clone(), rhythm);
        self.ask(around, RECUR, Repeats::Never, Call::Recur(number), |out| asked.put(out))
    }

    /// The answer to the beginning of a series.
    pub(super) fn series_told(&mut self, account: &mut Account, number: u64, body: &[u8]) {
        match SeriesTold::read(body).as_ref().map(|told| (told.rows.as_slice(), told.next)) {
            Ok(([row], 0)) if row.name == self.series && row.subject == self.consumes.subject => {
                account.series_begun(number, row.pending.map(|receipt| receipt.key));
                self.receipts.extend(row.pending);
            }
            other => account.blame(format!("{other:?} is the answer to series {number}")),
        }
    }
}
