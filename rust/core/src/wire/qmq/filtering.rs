//! Filters on stored messages, in each layout of the payload.

use super::message::WireMessage;
use crate::queues::tags::{Filter, Labels, pass_all};
use crate::record::meta::MetaView;

impl Labels for WireMessage<'_> {
    fn has_tag(&self, tag: &str) -> bool {
        self.tags().any(|known| known == tag)
    }

    fn attribute(&self, key: &str) -> Option<&[u8]> {
        if self.is_opaque() {
            return self.opaque_body().ok().and_then(|body| first_of(body.attributes(), key));
        }
        Self::attribute(self, key).map(str::as_bytes)
    }
}

impl Labels for MetaView<'_> {
    fn has_tag(&self, tag: &str) -> bool {
        self.tags().any(|known| known == tag)
    }

    fn attribute(&self, key: &str) -> Option<&[u8]> {
        first_of(self.attributes(), key)
    }
}

fn first_of<'a>(mut attributes: impl Iterator<Item = (&'a str, &'a [u8])>, key: &str) -> Option<&'a [u8]> {
    attributes.find(|(known, _)| *known == key).map(|(_, value)| value)
}

/// True if a stored message passes these filters. `meta` is that of a message with meta and a body; a message in QMQ's
/// layout has none, and all of it is `payload`. A message that cannot be read passes: its consumer judges it.
pub fn may_pass(filters: &[Filter], meta: Option<&[u8]>, payload: &[u8]) -> bool {
    if filters.is_empty() {
        return true;
    }
    match meta {
        Some(meta) => MetaView::read(meta).is_none_or(|meta| pass_all(filters, &meta)),
        None => WireMessage::read_whole(payload).map_or(true, |whole| pass_all(filters, &whole)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::tags::{AttributeRule, ENVIRONMENT_KEY, SUB_ENVIRONMENT_KEY, TagRule};
    use crate::record::message::{Meta, encode_meta};
    use crate::units::Millis;
    use crate::wire::qmq::message::{MessageParts, put_attribute, put_message, put_opaque_body};

    /// Whether a message with this tag and environment passes, in each of the three layouts.
    fn passing(filters: &[Filter], tag: &str, environment: Option<(&str, &str)>) -> [bool; 3] {
        let pairs: Vec<(&str, &str)> = environment
            .into_iter()
            .flat_map(|(environment, part)| [(ENVIRONMENT_KEY, environment), (SUB_ENVIRONMENT_KEY, part)])
            .collect();
        let bytes: Vec<(&str, &[u8])> = pairs.iter().map(|(key, value)| (*key, value.as_bytes())).collect();
        let (mut plain, mut opaque) = (Vec::new(), Vec::new());
        for (key, value) in &pairs {
            put_attribute(&mut plain, key, value).unwrap();
        }
        put_opaque_body(&mut opaque, &bytes, b"rest").unwrap();
        let wire = |body: &[u8], is_opaque| {
            let parts = MessageParts {
                created: Millis(1),
                due: None,
                subject: "s",
                message_id: "m",
                tags: &[tag],
                is_opaque,
                body,
            };
            let mut out = Vec::new();
            put_message(&mut out, &parts).unwrap();
            may_pass(filters, None, &out)
        };
        let attributes = bytes.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect();
        let meta = Meta { message_id: String::new(), tags: vec![tag.to_owned()], attributes };
        let encoded = encode_meta(&meta).unwrap();
        [wire(&plain, false), wire(&opaque, true), may_pass(filters, Some(&encoded), b"")]
    }

    #[test]
    fn a_message_that_cannot_be_read_passes() {
        let tag = [Filter::Tags { rule: TagRule::Any, tags: vec!["a".to_owned()] }];
        assert!(may_pass(&tag, Some(b"no meta"), b""));
        assert!(may_pass(&tag, None, b"no message"));
    }

    #[test]
    fn every_layout_is_judged_alike() {
        let tag = Filter::Tags { rule: TagRule::Any, tags: vec!["a".to_owned()] };
        let beta = Filter::SubEnvironment { environment: "beta".to_owned(), part: "one".to_owned() };
        assert_eq!(passing(&[], "b", None), [true; 3]);
        assert_eq!(passing(std::slice::from_ref(&tag), "a", None), [true; 3]);
        assert_eq!(passing(std::slice::from_ref(&tag), "b", None), [false; 3]);
        let both = [tag, beta];
        assert_eq!(passing(&both, "a", None), [true; 3]);
        assert_eq!(passing(&both, "a", Some(("beta", "one"))), [true; 3]);
        assert_eq!(passing(&both, "a", Some(("beta", "two"))), [false; 3]);
        assert_eq!(passing(&both, "b", Some(("beta", "one"))), [false; 3]);
        let part = |rule| [Filter::Attribute { key: SUB_ENVIRONMENT_KEY.to_owned(), rule }];
        assert_eq!(passing(&part(AttributeRule::StartsWith(b"on".to_vec())), "b", Some(("beta", "one"))), [true; 3]);
        assert_eq!(passing(&part(AttributeRule::Equals(b"on".to_vec())), "b", Some(("beta", "one"))), [false; 3]);
        assert_eq!(passing(&part(AttributeRule::Present), "b", None), [false; 3]);
    }
}
