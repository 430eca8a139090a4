//! Id, tags and attributes of a row, as JSON, as the tables have them, or as lists and maps of Arrow.

use arrow_array::{Array, GenericListArray, MapArray, OffsetSizeTrait};
use delaymq_core::error::Result;
use delaymq_core::record::limits::{ATTRIBUTES_MAX, TAGS_MAX, check_attributes, check_message_id, check_tags};
use delaymq_core::record::message::{Meta, encode_meta};

use super::json_text;
use super::texts::{Bodies, Texts};
use crate::refused;

/// How many tags or attributes are read beyond the limit: one is enough to refuse the row.
const READ_BEYOND: usize = 1;

#[derive(Clone, Copy)]
pub(super) enum Tags<'a> {
    Json(Texts<'a>),
    List(&'a GenericListArray<i32>, Texts<'a>),
    LargeList(&'a GenericListArray<i64>, Texts<'a>),
}

#[derive(Clone, Copy)]
pub(super) enum Attributes<'a> {
    Json(Texts<'a>),
    Map(&'a MapArray, Texts<'a>, Bodies<'a>),
}

/// The columns of which a message has none that must be there.
#[derive(Clone, Copy, Default)]
pub(super) struct MetaColumns<'a> {
    pub(super) message_id: Option<Texts<'a>>,
    pub(super) tags: Option<Tags<'a>>,
    pub(super) attributes: Option<Attributes<'a>>,
}

impl<'a> Tags<'a> {
    /// `None` for an array that holds something else.
    pub(super) fn of(array: &'a dyn Array) -> Option<Self> {
        let any = array.as_any();
        if let Some(list) = any.downcast_ref::<GenericListArray<i32>>() {
            return Some(Self::List(list, Texts::of(list.values().as_ref())?));
        }
        if let Some(list) = any.downcast_ref::<GenericListArray<i64>>() {
            return Some(Self::LargeList(list, Texts::of(list.values().as_ref())?));
        }
        Texts::of(array).map(Self::Json)
    }

    fn at(self, place: usize) -> Result<Vec<String>> {
        match self {
            Self::Json(texts) => texts.at(place).map_or_else(
                || Ok(Vec::new()),
                |text| {
                    json_text::list(text, TAGS_MAX + READ_BEYOND).ok_or_else(|| {
                        refused("tags", &format!("a JSON list of at most {TAGS_MAX} texts"), "another text")
                    })
                },
            ),
            Self::List(list, texts) => listed(list, texts, place),
            Self::LargeList(list, texts) => listed(list, texts, place),
        }
    }
}

fn listed<Offset: OffsetSizeTrait>(
    list: &GenericListArray<Offset>,
    texts: Texts<'_>,
    place: usize,
) -> Result<Vec<String>> {
    if list.is_null(place) {
        return Ok(Vec::new());
    }
    let offset = |at: usize| list.value_offsets().get(at).map_or(0, |offset| offset.as_usize());
    let each = (offset(place)..offset(place + 1)).take(TAGS_MAX + READ_BEYOND);
    each.map(|at| texts.at(at).map(str::to_owned).ok_or_else(|| refused("tags", "texts", "null"))).collect()
}

impl<'a> Attributes<'a> {
    /// `None` for an array that holds something else.
    pub(super) fn of(array: &'a dyn Array) -> Option<Self> {
        if let Some(map) = array.as_any().downcast_ref::<MapArray>() {
            return Some(Self::Map(map, Texts::of(map.keys().as_ref())?, Bodies::of(map.values().as_ref())?));
        }
        Texts::of(array).map(Self::Json)
    }

    fn at(self, place: usize) -> Result<Vec<(String, Vec<u8>)>> {
        let none = |what: &str| refused("attributes", "keys and values", what);
        match self {
            Self::Json(texts) => texts.at(place).map_or_else(
                || Ok(Vec::new()),
                |text| {
                    let expected = format!("a JSON object of at most {ATTRIBUTES_MAX} texts");
                    json_text::object(text, ATTRIBUTES_MAX + READ_BEYOND)
                        .ok_or_else(|| refused("attributes", &expected, "another text"))
                },
            ),
            Self::Map(map, _, _) if map.is_null(place) => Ok(Vec::new()),
            Self::Map(map, keys, values) => {
                let offset = |at: usize| {
                    map.value_offsets().get(at).map_or(0, |offset| usize::try_from(*offset).unwrap_or_default())
                };
                let each = (offset(place)..offset(place + 1)).take(ATTRIBUTES_MAX + READ_BEYOND);
                let pair = |at| {
                    let key = keys.at(at).ok_or_else(|| none("a null key"))?;
                    let value = values.at(at).ok_or_else(|| none("a null value"))?;
                    Ok((key.to_owned(), value.to_vec()))
                };
                each.map(pair).collect()
            }
        }
    }
}

impl MetaColumns<'_> {
    /// The encoded meta of a row; empty if it has none.
    pub(super) fn put(&self, place: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let message_id = self.message_id.and_then(|texts| texts.at(place));
        message_id.map_or(Ok(()), check_message_id)?;
        let tags = self.tags.map_or_else(|| Ok(Vec::new()), |tags| tags.at(place))?;
        let attributes = self.attributes.map_or_else(|| Ok(Vec::new()), |attributes| attributes.at(place))?;
        if message_id.is_none() && tags.is_empty() && attributes.is_empty() {
            return Ok(());
        }
        // A text that is too long for its length field is above its limit as well.
        check_tags(tags.iter().map(String::as_str))?;
        check_attributes(attributes.iter().map(|(key, value)| (key.as_str(), value.as_slice())))?;
        let meta = Meta { message_id: message_id.unwrap_or_default().to_owned(), tags, attributes };
        out.extend_from_slice(&encode_meta(&meta).unwrap_or_default());
        Ok(())
    }
}
