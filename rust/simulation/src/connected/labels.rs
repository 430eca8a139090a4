//! Tags and an attribute of each message, by its number, and the filters of groups. The account judges by this table,
//! and the server by the core's filters.

use delaymq_core::queues::tags::{AttributeRule, Filter, TagRule};
use delaymq_core::record::message::{Meta, encode_meta};

const TAGS: [&str; 2] = ["left", "right"];
const KEY: &str = "region";
const REGIONS: [&str; 3] = ["", "eu-1", "us-1"];

/// The labels of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Labels {
    has_tag: [bool; 2],
    region: &'static str,
}

impl Labels {
    fn of(number: u64) -> Self {
        let region = REGIONS.get((number / 4 % 3) as usize).copied().unwrap_or_default();
        Self { has_tag: [number & 1 != 0, number & 2 != 0], region }
    }
}

/// The filters of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Wants(pub(super) u64);

/// How many kinds of filters there are, from 1.
pub(super) const KINDS: u64 = 4;

impl Wants {
    /// The filters that its consumers send when they subscribe.
    pub(super) fn filters(self) -> Vec<Filter> {
        let tagged = |rule| Filter::Tags { rule, tags: TAGS.map(str::to_owned).to_vec() };
        let of_region = |rule| Filter::Attribute { key: KEY.to_owned(), rule };
        match self.0 {
            1 => vec![tagged(TagRule::Any)],
            2 => vec![tagged(TagRule::All)],
            3 => vec![of_region(AttributeRule::StartsWith(b"eu".to_vec()))],
            _ => vec![tagged(TagRule::Any), of_region(AttributeRule::Present)],
        }
    }

    /// True if the message of this number passes.
    pub(super) fn pass(self, number: u64) -> bool {
        let Labels { has_tag: [left, right], region } = Labels::of(number);
        match self.0 {
            1 => left || right,
            2 => left && right,
            3 => region == "eu-1",
            _ => (left || right) && !region.is_empty(),
        }
    }
}

/// The encoded meta of the message of this number.
pub(super) fn meta_of(number: u64, message_id: String) -> Vec<u8> {
    let Labels { has_tag, region } = Labels::of(number);
    let tags = TAGS.into_iter().zip(has_tag).filter(|(_, has)| *has).map(|(tag, _)| tag.to_owned());
    let attributes = Some((KEY.to_owned(), region.as_bytes().to_vec())).filter(|_| !region.is_empty());
    let meta = Meta { message_id, tags: tags.collect(), attributes: attributes.into_iter().collect() };
    encode_meta(&meta).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use delaymq_core::wire::qmq::filtering::may_pass;

    use super::*;

    #[test]
    fn the_table_and_the_filters_agree_and_each_kind_passes_some_and_keeps_some_back() {
        for wants in (1..=KINDS).map(Wants) {
            let passing: Vec<bool> = (0..12).map(|number| wants.pass(number)).collect();
            let filtered = (0..12).map(|number| may_pass(&wants.filters(), Some(&meta_of(number, String::new())), b""));
            assert!(filtered.eq(passing.iter().copied()), "{wants:?}");
            assert!(passing.contains(&true) && passing.contains(&false), "{wants:?}");
        }
    }
}
