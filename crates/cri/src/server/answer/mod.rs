//! What the runtime answers, and what it does to the world: as containerd 1.6 does.

mod container;
mod image;
mod runtime;
mod sandbox;

use std::collections::BTreeMap;

use tonic::Status;

use super::settings::Settings;
use super::world::World;
use crate::labels::Labels;
use crate::rpc::Call;

/// A request that the runtime can answer.
pub(in crate::server) trait Answer: Call {
    /// The id or name that the request is about; empty for lists.
    fn about(&self) -> String {
        String::new()
    }

    /// Does what is asked.
    fn answer(self, settings: &Settings, world: &mut World) -> Result<Self::Response, Status>;
}

/// A request that is answered in parts.
pub(in crate::server) trait AnswerInParts: Call {
    /// The parts, each with so many items at most.
    fn parts(self, settings: &Settings, world: &mut World, items: usize) -> Vec<Self::Response>;
}

fn has_labels(labels: &Labels, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value.as_str()))
}

/// The only id with a beginning.
fn by_beginning<T>(all: &BTreeMap<String, T>, beginning: &str) -> Option<String> {
    if beginning.is_empty() {
        return None;
    }
    let mut fitting =
        all.range(beginning.to_owned()..).map(|(id, _)| id).take_while(|id| id.starts_with(beginning));
    match (fitting.next(), fitting.next()) {
        (Some(id), None) => Some(id.clone()),
        (Some(id), Some(_)) if id == beginning => Some(id.clone()),
        _ => None,
    }
}

/// What is named, if it exists. To name nothing is an error.
fn found<T>(kind: &str, all: &BTreeMap<String, T>, id: &str) -> Result<Option<String>, Status> {
    if id.is_empty() {
        return Err(Status::unknown(format!("no {kind} is named")));
    }
    Ok(by_beginning(all, id))
}

/// What is named, or that it does not exist.
fn find<T>(kind: &str, all: &BTreeMap<String, T>, id: &str) -> Result<String, Status> {
    found(kind, all, id)?.ok_or_else(|| not_found(kind, id))
}

fn not_found(kind: &str, id: &str) -> Status {
    Status::not_found(format!("{kind} {id:?}: not found"))
}
