//! The brake's annotations on the Lease of a group of replicas.
//!
//! Only the leader writes [`ENGAGED`] and [`NAMESPACES`], which are set as long as its brake is
//! engaged, for everything or for some namespaces, so that the next leader inherits it. A person
//! resumes by setting [`RESUME`] to any text. The leader removes [`RESUME`] when it has resumed, and
//! also when the brake engages, because nobody can agree in advance to what they have not seen. So a
//! [`RESUME`] next to them always answers them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::{Engaged, Engagement, NAMESPACES_AT_MOST};
use crate::object::Namespace;

/// Since when and why the brake is engaged.
pub const ENGAGED: &str = "kube-gc.io/brake-engaged";
/// In which namespaces it is engaged: each after the time since when.
pub const NAMESPACES: &str = "kube-gc.io/braked-namespaces";
/// Asks to resume.
pub const RESUME: &str = "kube-gc.io/resume-deletion";

/// The annotations of a Lease.
pub type Annotations = BTreeMap<String, String>;

/// What the leader remembers of the last Lease that it read.
#[derive(Debug, Default)]
pub struct LastRead(Option<String>);

impl LastRead {
    /// Takes note of the Lease as read. Returns whether a person asks to resume.
    pub fn read(&mut self, annotations: Option<&Annotations>, engaged: bool) -> bool {
        let resume = annotations.and_then(|annotations| annotations.get(RESUME)).cloned();
        let news = resume.is_some() && resume != self.0;
        self.0 = resume;
        engaged && news
    }
}

/// What a replica inherits when it takes over the Lease, unless a person has asked to resume in the
/// meantime. Skips what is not a time and a namespace, but engages for everything whatever is there.
pub fn inherited(annotations: Option<&Annotations>, now: SystemTime) -> Engaged {
    let Some(annotations) = annotations.filter(|all| !all.contains_key(RESUME)) else {
        return Engaged::new();
    };
    let all = annotations.get(ENGAGED).map(|note| {
        let (time, why) = note.split_once(' ').unwrap_or((note, "the reason was not recorded"));
        let (since, why) = humantime::parse_rfc3339(time).map_or((now, &**note), |since| (since, why));
        (None, Engagement { since, why: why.to_owned() })
    });
    let words: Vec<_> =
        annotations.get(NAMESPACES).into_iter().flat_map(|note| note.split_whitespace()).collect();
    let (pairs, _) = words.as_chunks::<2>();
    let each = pairs.iter().filter_map(|[since, namespace]| {
        let why = "as many objects as namespace_deletions_per_minute allows were deleted within a minute";
        let since = humantime::parse_rfc3339(since).ok()?;
        Some((Some(Namespace::parse(namespace)?), Engagement { since, why: why.to_owned() }))
    });
    each.take(NAMESPACES_AT_MOST).chain(all).collect()
}

/// Sets the leader's annotations: where its brake is engaged.
pub fn write(annotations: &mut Option<Annotations>, engaged: &Engaged) {
    let mut written = annotations.take().unwrap_or_default();
    for key in [ENGAGED, NAMESPACES, RESUME] {
        written.remove(key);
    }
    for (namespace, Engagement { since, why }) in engaged {
        let since = humantime::format_rfc3339_seconds(*since);
        match namespace {
            None => drop(written.insert(ENGAGED.to_owned(), format!("{since} {why}"))),
            Some(namespace) => {
                let note = written.entry(NAMESPACES.to_owned()).or_default();
                let separator = if note.is_empty() { "" } else { " " };
                note.push_str(&format!("{separator}{since} {namespace}"));
            }
        }
    }
    *annotations = Some(written).filter(|written| !written.is_empty());
}
