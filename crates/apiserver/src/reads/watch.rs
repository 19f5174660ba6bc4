//! Watches: a position in the history, and a selection of events.

use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;

use crate::call::Request;
use crate::object::{Key, Object};
use crate::reads::options::{Options, RequestedVersion, Selection};
use crate::reads::show::{Form, META, api_version, in_form, metadata_of_one, table};
use crate::reads::{cache, cached};
use crate::resources::{Resource, ResourceName};
use crate::server::{Release, Server};
use crate::status::Status;
use crate::store::{Change, Compacted, Ending};

/// The maximum size of a chunk; a single event may exceed it.
const CHUNK: usize = 64 * 1024;

/// The annotation of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A watch: its position in the history and its selection. It buffers nothing, so a slow reader
/// costs nothing.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The type.
    pub resource: ResourceName,
    /// Events up to this version were sent.
    pub shown: u64,
    look: Arc<EventForm>,
    initial: Option<Initial>,
    /// Bookmarks report a newer version.
    known: u64,
    /// The number of times that watches had been ended when this one began.
    endings: usize,
    deadline: SystemTime,
    /// When the next bookmark is due; `None` if bookmarks are not requested.
    bookmark: Option<SystemTime>,
    over: bool,
}

/// The selection and the form of events.
#[derive(Debug)]
struct EventForm {
    selection: Selection,
    form: Form,
    api_version: String,
    resource: Arc<Resource>,
}

/// Initial events that have not been sent yet.
#[derive(Clone, Debug)]
struct Initial {
    /// The version of the initial state.
    version: u64,
    after: Option<Key>,
    /// The version of the bookmark that follows, if it is requested.
    bookmark: Option<u64>,
}

/// The next step of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Send these lines.
    Lines(Bytes),
    /// Wait until the type has changed, or until this time.
    Pending(SystemTime),
    /// End the response cleanly.
    End,
    /// Break the connection.
    Cut,
}

impl Watch {
    /// Starts a watch.
    pub fn begin(server: &Server, read: &Request<'_>) -> Result<Self, Status> {
        let form = Form::wanted(&read.call.accept)?;
        let options = Options::parse(read.call, read.path.namespace, server.settings.release)?;
        let current = cache(server, read.resource);
        let resource = read.resource.stored_as.clone();
        let streamed_list = options.initial_events.unwrap_or_default();
        if options.initial_events == Some(true) {
            cached(server, read.resource, options.version)?;
        }
        let (began, initial) = match options.version {
            RequestedVersion::Version(version) if !streamed_list => (version, None),
            // Without a version and with initial events explicitly off, the watch starts now.
            RequestedVersion::Newest if options.initial_events == Some(false) => (server.store.head(), None),
            RequestedVersion::Any if options.initial_events == Some(false) => (current.version, None),
            _ => {
                let bookmark = (streamed_list && options.bookmarks).then_some(current.shown);
                (current.version, Some(Initial { version: current.version, after: None, bookmark }))
            }
        };
        let timeout = options.timeout.unwrap_or_else(|| default_timeout(&resource, began));
        Ok(Self {
            shown: began,
            // 1.20 does not send events again that the initial events contained.
            known: match server.settings.release {
                Release::V1_20 => began.max(current.shown),
                Release::V1_36 => began.saturating_sub(1),
            },
            look: Arc::new(EventForm {
                selection: options.selection,
                form,
                api_version: api_version(read.path.group, read.path.version),
                resource: Arc::clone(read.resource),
            }),
            resource,
            initial,
            endings: server.store.endings(),
            deadline: read.now + timeout,
            bookmark: options.bookmarks.then(|| read.now + server.settings.bookmarks),
            over: false,
        })
    }

    /// The next step at this time. Returned lines are not returned again.
    pub fn pull(&mut self, server: &Server, now: SystemTime) -> Pull {
        if self.over {
            return Pull::End;
        }
        let ended = server.store.ended_since(&self.resource, self.endings);
        match ended {
            Some((Ending::Cut, _)) => return self.finish(Pull::Cut),
            Some((Ending::Restored, _)) => return self.finish(Pull::End),
            Some((Ending::Clean, _)) | None => {}
        }
        let until = ended.map_or(u64::MAX, |(_, version)| version);
        let lines = self.news(server, until, now).unwrap_or_else(|compacted| {
            self.over = true;
            line("ERROR", &too_old(compacted).to_value())
        });
        if !lines.is_empty() {
            return Pull::Lines(lines.into());
        }
        if ended.is_some() {
            return self.finish(Pull::End);
        }
        let due = now >= self.deadline || self.bookmark.is_some_and(|at| now >= at);
        if now >= self.deadline {
            self.over = true;
        }
        if let Some(at) = self.bookmark.as_mut().filter(|_| due) {
            *at = now + server.settings.bookmarks;
            let version = cache(server, &self.look.resource).shown;
            if version > self.known {
                return Pull::Lines(self.look.bookmark(version, false).into());
            }
        }
        if self.over {
            return Pull::End;
        }
        Pull::Pending(self.bookmark.map_or(self.deadline, |at| at.min(self.deadline)))
    }

    fn finish(&mut self, how: Pull) -> Pull {
        self.over = true;
        how
    }

    /// The next lines of the initial events and of later changes, if there are any.
    fn news(&mut self, server: &Server, until: u64, now: SystemTime) -> Result<Vec<u8>, Compacted> {
        let mut lines = Vec::new();
        if let Some(initial) = &mut self.initial {
            let past = server.store.at(&self.resource, initial.version)?;
            let from = initial.after.take();
            let from = from.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            for (key, object) in past.range(self.look.selection.namespace.as_deref(), from) {
                if self.look.selection.selects(key, object) {
                    self.look.event(&mut lines, "ADDED", (object, None), now);
                }
                if lines.len() >= CHUNK {
                    initial.after = Some(key.clone());
                    return Ok(lines);
                }
            }
            if let Some(version) = initial.bookmark {
                lines.extend(self.look.bookmark(version, true));
            }
            self.initial = None;
        }
        let until = until.min(server.store.cached(&self.resource).version);
        if until <= self.shown {
            return Ok(lines);
        }
        for change in server.store.changes_since(&self.resource, self.shown)? {
            if change.version > until || lines.len() >= CHUNK {
                return Ok(lines);
            }
            if let Some((kind, object, version)) = event(&self.look.selection, change) {
                self.look.event(&mut lines, kind, (object, version), now);
            }
            self.shown = change.version;
        }
        self.shown = until;
        Ok(lines)
    }
}

/// A change as seen through a selection: an object that leaves it is deleted, in its last selected
/// state.
fn event<'a>(selection: &Selection, change: &'a Change) -> Option<(&'static str, &'a Object, Option<u64>)> {
    let selected = |object: &Object| selection.selects(&change.key, object);
    let before = change.before.as_ref().filter(|before| selected(before));
    match (before, change.removed) {
        (Some(_), true) => Some(("DELETED", &change.after, None)),
        (None, true) => None,
        (Some(before), false) if !selected(&change.after) => Some(("DELETED", before, Some(change.version))),
        (Some(_), false) => Some(("MODIFIED", &change.after, None)),
        (None, false) => selected(&change.after).then_some(("ADDED", &change.after, None)),
    }
}

/// Real servers end a watch after 30 to 60 minutes. This spreads the ends, too, but
/// deterministically.
fn default_timeout(resource: &ResourceName, began: u64) -> Duration {
    let name = resource.group.bytes().chain(resource.plural.bytes());
    let spread = name.fold(began, |spread, byte| spread.wrapping_mul(31).wrapping_add(byte.into()));
    Duration::from_secs(1800 + spread % 1800)
}

fn too_old(compacted: Compacted) -> Status {
    let message = format!("too old resource version: {} ({})", compacted.asked, compacted.oldest);
    Status::new(410, "Expired", message)
}

#[derive(Serialize)]
struct Line<'a, T> {
    r#type: &'a str,
    object: &'a T,
}

fn line(kind: &str, object: &impl Serialize) -> Vec<u8> {
    let mut line = Vec::new();
    write_line(&mut line, kind, object);
    line
}

fn write_line(lines: &mut Vec<u8>, kind: &str, object: &impl Serialize) {
    // All keys are strings, so serialization cannot fail.
    let _ = serde_json::to_writer(&mut *lines, &Line { r#type: kind, object });
    lines.push(b'\n');
}

impl EventForm {
    fn event(
        &self,
        lines: &mut Vec<u8>,
        kind: &str,
        (object, version): (&Object, Option<u64>),
        now: SystemTime,
    ) {
        if self.form == Form::Table {
            let metadata = metadata_of_one(object, version);
            write_line(lines, kind, &table(&self.resource, &[object], &metadata, now));
            return;
        }
        let mut shown = in_form(object, &self.api_version, self.form, true);
        if let Some(version) = version {
            shown["metadata"]["resourceVersion"] = version.to_string().into();
        }
        write_line(lines, kind, &shown);
    }

    fn bookmark(&self, version: u64, initial_end: bool) -> Vec<u8> {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let (kind, api_version) = match self.form {
            Form::Full => (&*self.resource.kind, self.api_version.as_str()),
            Form::Metadata => ("PartialObjectMetadata", META),
            Form::Table => ("Table", META),
        };
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        line("BOOKMARK", &object)
    }
}
