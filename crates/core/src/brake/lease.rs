//! The brake's annotations on the Lease of a group of replicas.
//!
//! Only the leader writes [`ENGAGED`] and [`NAMESPACES`], which are set as long as its brake is
//! engaged, for everything or for some namespaces, so that the next leader inherits it. A person resumes by setting [`RESUME`] to any text. The leader
//! removes [`RESUME`] when it has resumed, and also when the brake engages, because nobody can
//! agree in advance to what they have not seen. So a [`RESUME`] next to them
//! always answers them.

use std::collections::BTreeMap;

/// Since when and why the brake is engaged.
pub const ENGAGED: &str = "kube-gc.io/brake-engaged";
/// In which namespaces it is engaged, and since when.
pub const NAMESPACES: &str = "kube-gc.io/braked-namespaces";
/// Asks to resume.
pub const RESUME: &str = "kube-gc.io/resume-deletion";

/// The annotations of a Lease.
pub type Annotations = BTreeMap<String, String>;

/// What the leader remembers of the last Lease that it read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastRead {
    resume: Option<String>,
}

impl LastRead {
    /// Takes note of the Lease as read. Returns whether a person asks to resume.
    pub fn read(&mut self, annotations: Option<&Annotations>, engaged: bool) -> bool {
        let resume = annotations.and_then(|annotations| annotations.get(RESUME)).cloned();
        let news = resume.is_some() && resume != self.resume;
        self.resume = resume;
        engaged && news
    }
}

/// What a replica inherits under one of the keys when it takes over the lease, unless a person has
/// asked to resume in the meantime.
pub fn inherited<'a>(annotations: Option<&'a Annotations>, key: &str) -> Option<&'a str> {
    let annotations = annotations?;
    annotations.get(key).filter(|_| !annotations.contains_key(RESUME)).map(String::as_str)
}

/// Sets the leader's annotations: why its brake is engaged, and in which namespaces.
pub fn write(annotations: &mut Option<Annotations>, engaged: Option<String>, namespaces: Option<String>) {
    for (key, text) in [(ENGAGED, engaged), (NAMESPACES, namespaces)] {
        match (text, &mut *annotations) {
            (Some(text), _) => drop(annotations.get_or_insert_default().insert(key.to_owned(), text)),
            (None, Some(present)) => drop(present.remove(key)),
            (None, None) => {}
        }
    }
    if let Some(present) = annotations {
        present.remove(RESUME);
    }
}
