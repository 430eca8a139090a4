//! The meta of an opaque message, borrowed from its bytes. [`super::message`] has the table.

/// Message id, tags and attributes, each borrowed from the encoded bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetaView<'a> {
    message_id: &'a str,
    tag_count: u8,
    tags: &'a [u8],
    attribute_count: u16,
    attributes: &'a [u8],
}

impl<'a> MetaView<'a> {
    /// Reads meta; empty bytes are meta without anything in it. `None` if it is malformed or has bytes left over.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let mut rest = bytes;
        let id_length = u16::from_le_bytes(take_array(&mut rest)?);
        let message_id = text(take(&mut rest, usize::from(id_length))?)?;
        let [tag_count] = take_array(&mut rest)?;
        let tags = rest;
        for _ in 0..tag_count {
            next_tag(&mut rest)?;
        }
        let tags = tags.get(..tags.len().saturating_sub(rest.len()))?;
        let attribute_count = u16::from_le_bytes(take_array(&mut rest)?);
        let attributes = rest;
        for _ in 0..attribute_count {
            next_attribute(&mut rest)?;
        }
        rest.is_empty().then_some(Self { message_id, tag_count, tags, attribute_count, attributes })
    }

    /// The producer's id for the message; empty if it gave none.
    pub fn message_id(&self) -> &'a str {
        self.message_id
    }

    /// The tags, in the order given.
    pub fn tags(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let mut rest = self.tags;
        (0..self.tag_count).map_while(move |_| next_tag(&mut rest))
    }

    /// The attributes, in the order given.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut rest = self.attributes;
        (0..self.attribute_count).map_while(move |_| next_attribute(&mut rest))
    }
}

fn next_tag<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let [length] = take_array(rest)?;
    text(take(rest, usize::from(length))?)
}

fn next_attribute<'a>(rest: &mut &'a [u8]) -> Option<(&'a str, &'a [u8])> {
    let key_length = u16::from_le_bytes(take_array(rest)?);
    let key = text(take(rest, usize::from(key_length))?)?;
    let value_length = u32::from_le_bytes(take_array(rest)?);
    Some((key, take(rest, value_length as usize)?))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    take(rest, N)?.try_into().ok()
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
