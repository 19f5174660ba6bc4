//! The brake's annotations on the Lease.

use crate::brake::lease::{Annotations, ENGAGED, RESUME, Seen, inherited, write};

fn annotations(pairs: &[(&str, &str)]) -> Annotations {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_text_that_was_there_before_the_brake_engaged_does_not_release_it_and_a_new_one_does() {
    let mut seen = Seen::default();
    let (old, new) = (annotations(&[(RESUME, "now")]), annotations(&[(RESUME, "again")]));
    assert!(!seen.read(Some(&old), false));
    assert!(!seen.read(Some(&old), true), "nobody has seen what they would agree to");
    assert!(seen.read(Some(&new), true));
    assert!(!seen.read(Some(&new), true), "once");
    assert!(!seen.read(None, true));
    assert!(seen.read(Some(&old), true), "the same text again, after it was taken away");
}

#[test]
fn the_leader_takes_the_answer_away_and_leaves_the_rest_alone() {
    let mut present = Some(annotations(&[("other", "kept"), (RESUME, "now")]));
    write(&mut present, Some("since then, because"));
    assert_eq!(present, Some(annotations(&[("other", "kept"), (ENGAGED, "since then, because")])));
    write(&mut present, None);
    assert_eq!(present, Some(annotations(&[("other", "kept")])));
    let mut none = None;
    write(&mut none, None);
    assert_eq!(none, None);
    write(&mut none, Some("why"));
    assert_eq!(none, Some(annotations(&[(ENGAGED, "why")])));
}

#[test]
fn who_takes_over_inherits_it_unless_somebody_has_answered() {
    assert_eq!(inherited(None), None);
    assert_eq!(inherited(Some(&annotations(&[("other", "x")]))), None);
    assert_eq!(inherited(Some(&annotations(&[(ENGAGED, "why")]))), Some("why"));
    assert_eq!(inherited(Some(&annotations(&[(ENGAGED, "why"), (RESUME, "now")]))), None);
}
