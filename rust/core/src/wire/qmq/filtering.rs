//! Filters on stored messages, in each layout of the payload.

use super::message::WireMessage;
use crate::queues::tags::{ENVIRONMENT_KEY, Filter, Labels, SUB_ENVIRONMENT_KEY, pass_all};
use crate::record::meta::MetaView;

/// True if a message that a QMQ client sent passes these filters.
pub fn passes(filters: &[Filter], message: &WireMessage<'_>) -> bool {
    if filters.is_empty() {
        return true;
    }
    let labels = Labels {
        tags: message.tags(),
        environment: labelled(message, ENVIRONMENT_KEY),
        part: labelled(message, SUB_ENVIRONMENT_KEY),
    };
    pass_all(filters, &labels)
}

fn labelled<'a>(message: &WireMessage<'a>, key: &str) -> Option<&'a str> {
    if message.is_opaque() {
        return message.opaque_body().ok().and_then(|body| text_of(body.attributes(), key));
    }
    message.attribute(key)
}

/// True if a message with this meta passes these filters.
pub fn passes_with_meta(filters: &[Filter], meta: &MetaView<'_>) -> bool {
    if filters.is_empty() {
        return true;
    }
    let labels = Labels {
        tags: meta.tags(),
        environment: text_of(meta.attributes(), ENVIRONMENT_KEY),
        part: text_of(meta.attributes(), SUB_ENVIRONMENT_KEY),
    };
    pass_all(filters, &labels)
}

/// The value of an attribute that is text.
fn text_of<'a>(attributes: impl Iterator<Item = (&'a str, &'a [u8])>, key: &str) -> Option<&'a str> {
    let mut named = attributes.filter(|(known, _)| *known == key);
    named.next().and_then(|(_, value)| std::str::from_utf8(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::tags::TagRule;
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
            passes(filters, &WireMessage::read_whole(&out).unwrap())
        };
        let attributes = bytes.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect();
        let meta = Meta { message_id: String::new(), tags: vec![tag.to_owned()], attributes };
        let encoded = encode_meta(&meta).unwrap();
        [wire(&plain, false), wire(&opaque, true), passes_with_meta(filters, &MetaView::read(&encoded).unwrap())]
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
    }
}
