use super::*;

fn named(name: &str) -> ObjectName {
    ObjectName { kind: "Pod".into(), name: name.into(), ..ObjectName::default() }
}

/// The first sentence about this many roots, and objects of each effect, roots included.
fn verdict(cascade: Cascade, roots: usize, of: TypeEffects, verdict: &Verdict<'_>) -> String {
    let others = (1..roots).map(|number| named(&number.to_string())).collect();
    let plan = Plan { object: named("a"), others, cascade, by_type: vec![of], ..Plan::default() };
    verdict.of(&plan)
}

fn of_contents(contents: Option<usize>) -> Verdict<'static> {
    Verdict { contents, ..Verdict::default() }
}

#[test]
fn a_verdict_agrees_with_its_numbers() {
    use Cascade::{Background, Foreground, Orphan};
    let of = |deleted, held, blocks, orphaned, kept| TypeEffects {
        deleted,
        held,
        blocks,
        orphaned,
        kept,
        ..TypeEffects::default()
    };
    for (cascade, roots, numbers, said) in [
        (Background, 1, of(1, 0, 0, 0, 0), "Pod/a is deleted; no other object goes."),
        (Background, 1, of(2, 0, 0, 0, 0), "Pod/a is deleted, and its dependents follow; 1 other goes."),
        (
            Background,
            5001,
            of(10_001, 0, 0, 0, 0),
            "Pod/a and 5,000 more are deleted, and their dependents follow; 5,000 others go.",
        ),
        (
            Background,
            1,
            of(1, 1, 0, 0, 0),
            "Pod/a is deleted, and its dependents follow; no other object goes; 1 stays until its finalizers \
             are removed.",
        ),
        (
            Background,
            1,
            of(1, 0, 0, 0, 1),
            "Pod/a is deleted; no other object goes; 1 is kept by another owner reference.",
        ),
        (Foreground, 1, of(1, 0, 0, 0, 0), "Pod/a is deleted; no other object goes."),
        (
            Foreground,
            2,
            of(4, 2, 2, 0, 2),
            "Pod/a and 1 more are deleted after the dependents that block them; 2 others go; 2 stay until finalizers \
             are removed; 2 block them; 2 are kept by another owner reference.",
        ),
        (Orphan, 1, of(1, 0, 0, 0, 0), "Pod/a is deleted; no other object goes."),
        (
            Orphan,
            1,
            of(1, 0, 0, 1, 0),
            "Pod/a is deleted, and its dependents are released; no other object goes; 1 is orphaned.",
        ),
    ] {
        assert_eq!(verdict(cascade, roots, numbers, &of_contents(None)), said);
    }
    for (contents, said) in [
        (0, "Pod/a is deleted; no other object goes."),
        (1, "Pod/a is deleted last, after its only object."),
        (5000, "Pod/a is deleted last, after its 5,000 objects."),
    ] {
        let all = of(1 + contents, 0, 0, 0, 0);
        assert_eq!(verdict(Background, 1, all, &of_contents(Some(contents))), said);
    }
    let by = || Some("finalizer x is removed".to_owned());
    for (roots, held, others, held_by, said) in [
        (
            1,
            1,
            1,
            by(),
            "Pod/a is marked for deletion, and its dependents follow when it is gone; 1 other goes. Pod/a itself stays \
             until finalizer x is removed.",
        ),
        (
            1,
            1,
            0,
            by(),
            "Pod/a is marked for deletion and stays until finalizer x is removed; nothing else goes.",
        ),
        (
            2,
            1,
            1,
            None,
            "Pod/a and 1 more are deleted, and their dependents follow; 1 other goes. 1 of those named stays until what \
             holds it is gone.",
        ),
        (
            2,
            2,
            1,
            None,
            "Pod/a and 1 more are marked for deletion, and their dependents follow when they are gone; 1 \
             other goes. 2 of those named stay until what holds them is gone.",
        ),
        (3, 2, 0, None, " 2 of those named stay until what holds them is gone."),
    ] {
        let all = of(roots - held + others, held, 0, 0, 0);
        let text = verdict(
            Background,
            roots,
            all,
            &Verdict { roots: Tally { held, ..Tally::default() }, held_by, ..of_contents(None) },
        );
        assert!(text.ends_with(said), "{text}");
    }
    let both = Verdict {
        roots: Tally { held: 1, ..Tally::default() },
        held_by: by(),
        hangs: Some("cannot go until x answers"),
        ..of_contents(Some(0))
    };
    let text = verdict(Background, 1, of(0, 1, 0, 0, 0), &both);
    assert!(text.ends_with(" Pod/a cannot go until x answers, and finalizer x is removed."), "{text}");
}

#[test]
fn what_controllers_do_is_said_of_what_goes() {
    let said = |resource: &str, deleted| {
        let of = TypeEffects { resource: resource.into(), deleted, kept: 1, ..TypeEffects::default() };
        notes(&Plan { by_type: vec![of], ..Plan::default() }, Source::Lists).split_off(1).join(" ")
    };
    for (resource, words) in [
        ("pods", "a deleted PersistentVolumeClaim until no Pod uses it"),
        ("services", "the Endpoints of a Service"),
        ("nodes", "the pods of a node"),
        ("namespaces", "what is in a namespace"),
        ("persistentvolumeclaims", "The reclaim policy of a volume"),
    ] {
        assert!(said(resource, 1).contains(words), "{}", said(resource, 1));
        assert_eq!((said(resource, 0), said("configmaps", 1)), (String::new(), String::new()));
    }
}
