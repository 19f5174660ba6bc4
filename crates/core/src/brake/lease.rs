//! The brake's annotations on the Lease of a group of replicas.
//!
//! Only the leader writes [`ENGAGED`], which is set as long as its brake is engaged, so that the
//! next leader inherits it. A person resumes by setting [`RESUME`] to any text. The leader
//! removes [`RESUME`] when it has resumed, and also when the brake engages, because nobody can
//! agree in advance to what they have not seen. So a [`RESUME`] next to [`ENGAGED`] always answers
//! it.

use std::collections::BTreeMap;

/// Since when and why the brake is engaged.
pub const ENGAGED: &str = "kube-gc.io/brake-engaged";
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

/// What a replica inherits when it takes over the lease: why the brake is engaged, unless a person
/// has asked to resume in the meantime.
#[must_use]
pub fn inherited(annotations: Option<&Annotations>) -> Option<&str> {
    let annotations = annotations?;
    annotations.get(ENGAGED).filter(|_| !annotations.contains_key(RESUME)).map(String::as_str)
}

/// Sets the leader's annotations. `engaged` says why its brake is engaged, if it is.
pub fn write(annotations: &mut Option<Annotations>, engaged: Option<&str>) {
    match (engaged, &mut *annotations) {
        (Some(why), _) => {
            let annotations = annotations.get_or_insert_default();
            annotations.insert(ENGAGED.to_owned(), why.to_owned());
            annotations.remove(RESUME);
        }
        (None, Some(present)) => {
            present.remove(ENGAGED);
            present.remove(RESUME);
        }
        (None, None) => {}
    }
}
