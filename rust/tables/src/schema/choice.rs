//! The choice of columns.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use delaymq_core::error::Result;

use crate::refused;
use crate::schema::column::{Column, VERSION, columns_of};
use crate::schema::table::Table;

/// No choice of columns is longer.
pub const COLUMNS_MAX: usize = 64;

/// Some columns of a table, in an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice(Vec<Column>);

impl Choice {
    /// Every column, in the table's own order.
    pub fn all(table: Table) -> Self {
        Self(columns_of(table))
    }

    /// Those that are named, in the order in which they are; none at all is a choice, too.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that the table has not, or one that comes twice.
    pub fn named(table: Table, names: &[String]) -> Result<Self> {
        let all = Self::all(table);
        let mut chosen = Vec::new();
        for name in names.iter().take(COLUMNS_MAX) {
            let Some(column) = all.0.iter().copied().find(|column| column.name() == name) else {
                let known: Vec<&str> = all.0.iter().map(|column| column.name()).collect();
                return Err(refused("columns", &format!("columns of {}: {}", table.name(), known.join(", ")), name));
            };
            if chosen.contains(&column) {
                return Err(refused("columns", "each column once", name));
            }
            chosen.push(column);
        }
        Ok(Self(chosen))
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.0
    }

    pub(crate) fn reads_payload(&self) -> bool {
        self.0.iter().any(|column| column.is_of_payload())
    }

    pub(crate) fn has(&self, column: Column) -> bool {
        self.0.contains(&column)
    }

    pub(crate) fn schema(&self, table: Table) -> SchemaRef {
        let field = |column: &Column| Field::new(column.name(), column.data_type(), true);
        let fields: Vec<Field> = self.0.iter().map(field).collect();
        let metadata = [("delaymq.table", table.name().to_owned()), ("delaymq.version", VERSION.to_string())];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        Arc::new(Schema::new_with_metadata(fields, metadata))
    }
}
