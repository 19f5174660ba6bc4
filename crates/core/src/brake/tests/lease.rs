//! The brake's annotations on the Lease.

use crate::brake::lease::{Annotations, ENGAGED, LastRead, NAMESPACES, RESUME, inherited, write};

use super::*;
use crate::brake::{Engaged, Engagement};

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
fn a_new_leader_inherits_the_brake_unless_it_was_released() {
    let engagement = |why: &str| Engagement { since: AT, why: why.to_owned() };
    let of_namespaces =
        "as many objects as namespace_deletions_per_minute allows were deleted within a minute";
    let namespace = |name| (Namespace::parse(name), engagement(of_namespaces));
    let engaged = Engaged::from([(None, engagement("too many")), namespace("a"), namespace("b")]);
    let mut written = Some(annotations(&[("other", "kept"), (RESUME, "answered")]));
    write(&mut written, &engaged);
    let time = "1970-01-01T00:00:00Z";
    let (all, some) = (format!("{time} too many"), format!("{time} a {time} b"));
    assert_eq!(written, Some(annotations(&[("other", "kept"), (ENGAGED, &all), (NAMESPACES, &some)])));
    assert_eq!(inherited(written.as_ref(), AT), engaged);
    let resumed = annotations(&[(ENGAGED, &all), (NAMESPACES, &some), (RESUME, "now")]);
    assert_eq!(inherited(Some(&resumed), AT), Engaged::new());
    write(&mut written, &Engaged::new());
    assert_eq!(written, Some(annotations(&[("other", "kept")])));
    assert_eq!(inherited(None, AT), Engaged::new());

    let odd =
        annotations(&[(ENGAGED, "whoever wrote this"), (NAMESPACES, "who wrote this 2026-01-02T03:04:05Z")]);
    assert_eq!(inherited(Some(&odd), AT), Engaged::from([(None, engagement("whoever wrote this"))]));
}
