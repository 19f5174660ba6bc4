//! The brake's annotations on the Lease.

use crate::brake::lease::{Annotations, ENGAGED, LastRead, NAMESPACES, RESUME, inherited, write};

fn annotations(pairs: &[(&str, &str)]) -> Annotations {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn only_an_annotation_written_after_the_brake_engaged_releases_it() {
    let mut seen = LastRead::default();
    let (old, new) = (annotations(&[(RESUME, "now")]), annotations(&[(RESUME, "again")]));
    assert!(!seen.read(Some(&old), false));
    assert!(!seen.read(Some(&old), true), "an older annotation approves nothing");
    assert!(seen.read(Some(&new), true));
    assert!(!seen.read(Some(&new), true), "once");
    assert!(!seen.read(None, true));
    assert!(seen.read(Some(&old), true), "the same text counts after it was removed");
}

#[test]
fn the_leader_removes_only_the_annotation_that_answers() {
    let mut present = Some(annotations(&[("other", "kept"), (RESUME, "now")]));
    let text = |text: &str| Some(text.to_owned());
    write(&mut present, text("since 12:00, because"), None);
    assert_eq!(present, Some(annotations(&[("other", "kept"), (ENGAGED, "since 12:00, because")])));
    write(&mut present, None, text("12:00 a"));
    assert_eq!(present, Some(annotations(&[("other", "kept"), (NAMESPACES, "12:00 a")])));
    write(&mut present, None, None);
    assert_eq!(present, Some(annotations(&[("other", "kept")])));
    let mut none = None;
    write(&mut none, None, None);
    assert_eq!(none, None);
    write(&mut none, text("why"), None);
    assert_eq!(none, Some(annotations(&[(ENGAGED, "why")])));
}

#[test]
fn a_new_leader_inherits_the_brake_unless_it_was_released() {
    assert_eq!(inherited(None, ENGAGED), None);
    assert_eq!(inherited(Some(&annotations(&[("other", "x")])), ENGAGED), None);
    assert_eq!(inherited(Some(&annotations(&[(ENGAGED, "why")])), ENGAGED), Some("why"));
    assert_eq!(inherited(Some(&annotations(&[(ENGAGED, "why"), (RESUME, "now")])), ENGAGED), None);
    let both = annotations(&[(ENGAGED, "why"), (NAMESPACES, "12:00 a")]);
    assert_eq!(inherited(Some(&both), NAMESPACES), Some("12:00 a"));
}
