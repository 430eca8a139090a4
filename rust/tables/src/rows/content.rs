//! The content of a message's record, from any producer: the parts that consumers in Python get, and when it expires.

use delaymq_core::record::expire::Expiry;
use delaymq_core::record::message::Message;
use delaymq_core::record::meta::MetaView;
use delaymq_core::wire::qmq::message::WireMessage;

/// The text attribute that QMQ's users keep a body in.
const BODY_KEY: &str = "body";

/// See the module; everything borrows the payload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content<'a> {
    pub(crate) message_id: &'a str,
    pub(crate) tags: Vec<&'a str>,
    pub(crate) attributes: Vec<(&'a str, &'a [u8])>,
    pub(crate) body: &'a [u8],
    pub(crate) expiry: Option<Expiry>,
}

impl<'a> Content<'a> {
    /// `None` if the meta of a payload that passed its check cannot be read. A message of QMQ that cannot be
    /// read is all body, as it is for consumers.
    #[inline]
    pub(crate) fn of(message: &Message<'a>) -> Option<Self> {
        if message.opaque {
            let meta = MetaView::read(message.meta)?;
            let (tags, attributes) = (meta.tags().collect(), meta.attributes().collect());
            let (body, expiry) = (message.body, message.expiry);
            return Some(Self { message_id: meta.message_id(), tags, attributes, body, expiry });
        }
        Some(Self { expiry: message.expiry, ..Self::of_qmq(message.body) })
    }

    fn of_qmq(bytes: &'a [u8]) -> Self {
        let wire = WireMessage::read_whole(bytes).ok();
        let all_body = Self { body: bytes, ..Self::default() };
        wire.and_then(|wire| Self::of_wire(&wire)).unwrap_or(all_body)
    }

    fn of_wire(wire: &WireMessage<'a>) -> Option<Self> {
        let mut attributes = Vec::new();
        let mut body = wire.body;
        if wire.is_opaque() {
            let opaque = wire.opaque_body().ok()?;
            attributes.extend(opaque.attributes());
            body = opaque.bytes;
        } else {
            for attribute in wire.attributes() {
                let (key, value) = attribute.ok()?;
                if key == BODY_KEY {
                    body = value.as_bytes();
                } else {
                    attributes.push((key, value.as_bytes()));
                }
            }
        }
        Some(Self { message_id: wire.message_id, tags: wire.tags().collect(), attributes, body, expiry: None })
    }
}
