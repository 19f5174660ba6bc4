//! What the Lease of a group of replicas says about the brake.
//!
//! Only the leader writes it. As long as its brake is engaged, [`ENGAGED`] says so, for
//! whoever takes the lease when the leader is gone without a word. A person resumes by
//! [`RESUME`], with any text. The leader takes that away again when it has obeyed, and
//! also what was there before the brake engaged: nobody agrees beforehand to what they
//! have not seen. So while [`ENGAGED`] is there, [`RESUME`] is an answer to it.

use std::collections::BTreeMap;

/// Says that the brake is engaged: since when, and why.
pub const ENGAGED: &str = "kube-gc.io/brake-engaged";
/// Asks to resume.
pub const RESUME: &str = "kube-gc.io/resume-deletion";

/// The annotations of a Lease.
pub type Annotations = BTreeMap<String, String>;

/// What the leader remembers of the Lease as it read it last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    resume: Option<String>,
}

impl Seen {
    /// The leader has read the Lease. Returns whether somebody asks to resume.
    pub fn read(&mut self, annotations: Option<&Annotations>, engaged: bool) -> bool {
        let resume = annotations.and_then(|annotations| annotations.get(RESUME)).cloned();
        let news = resume.is_some() && resume != self.resume;
        self.resume = resume;
        engaged && news
    }
}

/// What a replica inherits that takes the lease of one that has not given it back: why
/// the brake is engaged, unless somebody has asked to resume meanwhile.
#[must_use]
pub fn inherited(annotations: Option<&Annotations>) -> Option<&str> {
    let annotations = annotations?;
    annotations.get(ENGAGED).filter(|_| !annotations.contains_key(RESUME)).map(String::as_str)
}

/// What the leader writes: why its brake is engaged, if it is.
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
