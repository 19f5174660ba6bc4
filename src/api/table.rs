//! Objects as the server's own tables show them.

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::call::Call;
use super::client::Api;
use super::error::ApiError;
use super::inspect::fault;
use super::path;
use super::settings::Verb;
use kube_gc_core::object::{Identity, ResourceVersion};
use kube_gc_core::text::word;
use kube_gc_decode::Keyed;

/// A table with one row, or else the object.
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
/// The most columns of a table that are read.
const MOST_COLUMNS: usize = 64;

impl Api {
    /// The cells of an object's row in the server's own table, each with the name of its column.
    /// Empty if the server has no table for it.
    ///
    /// With a version, the row is at least as new, and may come from the server's cache. For the
    /// server, this is a third of the work of a read from its store.
    ///
    /// # Errors
    ///
    /// The object cannot be read.
    pub async fn table_row(
        &self,
        identity: &Identity,
        at_least: Option<&ResourceVersion>,
    ) -> Result<Vec<(String, String)>, ApiError> {
        let mut call = Call::object(Verb::Get, Method::GET, "GET", identity)?;
        call.path.push_str("?includeObject=None");
        if let Some(version) = at_least {
            call.path.push_str("&resourceVersion=");
            path::encode(&mut call.path, &version.to_string());
        }
        call.accept = TABLE;
        let answer = self.call(call).await?;
        let Keyed(table): Keyed<Table> =
            serde_json::from_slice(&answer.body).map_err(|error| fault(identity, &answer, &error))?;
        if table.kind != "Table" {
            return Ok(Vec::new());
        }
        let columns = table.column_definitions.into_iter().map(|Keyed(column)| column.name);
        let cells = table.rows.into_iter().next().map(|Keyed(row)| row.cells).unwrap_or_default();
        let text = |cell: Value| match cell {
            Value::String(text) => word(&text).to_string(),
            Value::Null => String::new(),
            other => word(&other.to_string()).to_string(),
        };
        let columns = columns.map(|name| word(&name).to_string());
        Ok(columns.zip(cells.into_iter().map(text)).take(MOST_COLUMNS).collect())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    column_definitions: Vec<Keyed<Column>>,
    #[serde(default)]
    rows: Vec<Keyed<TableRow>>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

#[derive(Deserialize)]
struct TableRow {
    #[serde(default)]
    cells: Vec<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Reply, Server, widget, widget_json};

    #[tokio::test]
    async fn a_row_is_read_with_the_names_of_its_columns() {
        let table = r#"{"kind":"Table","columnDefinitions":[{"name":"Name","type":"string"},{"name":"Ready"},
            {"name":"Age"}],"rows":[{"cells":["w","1/1",4,"surplus"]}]}"#;
        let server = Server::replying([Reply::ok(table), Reply::ok(widget_json(""))]);
        let version = ResourceVersion::parse("7&");
        let row = server.api().table_row(&widget(), version.as_ref()).await.unwrap();
        let cells = [("Name", "w"), ("Ready", "1/1"), ("Age", "4")];
        assert_eq!(row, cells.map(|(name, cell)| (name.to_owned(), cell.to_owned())));
        assert_eq!(server.api().table_row(&widget(), None).await.unwrap(), []);
        let requests = server.requests();
        assert!(requests[0].ends_with("/w?includeObject=None&resourceVersion=7%26"));
        assert!(requests[1].ends_with("/w?includeObject=None"));
    }
}
