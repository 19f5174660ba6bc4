use clap::Parser;

use super::*;
use kube_gc_core::object::{GroupResource, Identity, ResourceType, Scope, Uid};
use kube_gc_insight::{Cascade, FinalizerReport, State};

fn object(resource: &str, kind: &str, name: &str, effect: Effect) -> PlannedObject {
    let resource = ResourceType {
        group_resource: GroupResource::parse(resource),
        version: "v1".into(),
        kind: kind.into(),
        scope: Scope::Namespaced,
    };
    let identity = Identity {
        resource: std::sync::Arc::new(resource),
        namespace: kube_gc_core::object::Namespace::parse("shop"),
        name: name.into(),
        uid: Uid::parse(&format!("uid-{name}")).unwrap(),
    };
    PlannedObject {
        name: (&identity).into(),
        state: State::Live,
        effect,
        within: None,
        kept_by: Vec::new(),
        finalizers: Some(Vec::new()),
        after: None,
        loses: Vec::new(),
        may_lose: Vec::new(),
        why: None,
    }
}

fn plan() -> Plan {
    let root = object("deployments.apps", "Deployment", "web", Effect::Deleted);
    let mut held = object("pods", "Pod", "web-x", Effect::Held);
    held.finalizers = Some(vec![FinalizerReport {
        name: "example.com/drain".into(),
        remover: None,
        when: None,
        set_by: None,
        api_is_served: None,
    }]);
    let mut kept = object("secrets", "Secret", "tls", Effect::Kept);
    kept.kept_by = vec![object("services", "Service", "web", Effect::Kept).name];
    kept.loses = vec![root.name.clone()];
    let count = |resource: &str, deleted, held, kept| TypeEffects {
        kind: String::new(),
        resource: resource.into(),
        deleted,
        held,
        blocks: 0,
        orphaned: 0,
        kept,
        unknown: 0,
    };
    Plan {
        object: root.name.clone(),
        cascade: Cascade::Foreground,
        exists: Some(true),
        verdict: "Deployment/web goes.".into(),
        deletes: 1234,
        perhaps_deletes: 0,
        by_type: vec![
            count("deployments.apps", 1, 0, 0),
            count("pods", 1231, 1, 0),
            count("secrets", 0, 0, 1),
        ],
        objects: vec![
            object("persistentvolumeclaims", "PersistentVolumeClaim", "data", Effect::Deleted),
            held,
            kept,
            root,
        ],
        not_listed: 1230,
        truncated: false,
        brake: Forecast::Engages { why: "1233 of 500".into() },
        notes: vec!["Nobody knows.".into()],
        depends_on_unseen: false,
        by_collector: Vec::new(),
        most_in_namespace: None,
    }
}

fn look(wide: bool) -> Look {
    Look::plain(wide, "2026-01-01T00:00:00Z")
}

#[test]
fn a_plan_counts_and_names_what_people_should_look_at() {
    assert_eq!(
        text(&plan(), &look(false)),
        "\
Deployment/web goes.

TYPE              DELETED  HELD  BLOCKS  ORPHANED  KEPT  UNKNOWN
deployments.apps  1        -     -       -         -     -
pods              1,231    1     -       -         -     -
secrets           -        -     -       -         1     -

EFFECT   OBJECT                      NOTE
deleted  PersistentVolumeClaim/data
held     Pod/web-x                   finalizer example.com/drain
kept     Secret/tls                  kept by Service/web, loses Deployment/web
and 1,231 more objects; -o wide lists them

The brake of the collector engages: 1233 of 500.
Nobody knows.
"
    );
    let wide = text(&plan(), &look(true));
    assert!(wide.contains("deleted  Deployment/web") && wide.contains("shop"), "{wide}");
}

#[test]
fn the_names_are_those_of_what_goes() {
    assert_eq!(names(&plan()), "persistentvolumeclaim/data\npod/web-x\ndeployment.apps/web\n");
}

#[test]
fn many_notable_objects_are_counted_and_claims_never() {
    let mut plan = plan();
    plan.objects =
        (0..100).map(|number| object("pods", "Pod", &format!("p{number}"), Effect::Held)).collect();
    let claim = |number: usize| {
        object("persistentvolumeclaims", "PersistentVolumeClaim", &format!("c{number}"), Effect::Deleted)
    };
    plan.objects.extend((0..50).map(claim));
    let text = text(&plan, &look(false));
    assert_eq!(text.matches("Pod/p").count(), NAMED);
    assert_eq!(text.matches("PersistentVolumeClaim/c").count(), 50);
}

#[test]
fn hostile_texts_cannot_leave_their_place() {
    let mut plan = plan();
    let hostile = "a\n b \u{1b}[31m\u{202e}";
    let lines = text(&plan, &look(true)).lines().count();
    for object in &mut plan.objects {
        object.name.name = hostile.into();
        object.why = Some(hostile.into());
        object.after = Some(object.name.clone());
    }
    plan.verdict = hostile.into();
    plan.by_type[0].resource = hostile.into();
    plan.brake = Forecast::Engages { why: hostile.into() };
    for text in [text(&plan, &look(true)), names(&plan)] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        assert!(text.lines().count() <= lines, "{text}");
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    plan: PlanArgs,
}

fn refused(more: &[&str]) -> String {
    let line = ["plan", "pod/a", "--config", "/nowhere/kube-gc.toml"].iter().chain(more);
    Line::parse_from(line).plan.run().unwrap_err().message
}

/// The file may not exist, and what it says would not matter.
#[test]
fn a_configuration_beside_a_collector_is_refused_before_it_is_read() {
    let why = refused(&["--collector", "http://127.0.0.1:1"]);
    assert!(why.contains("needs --from lists"), "{why}");
    let why = refused(&[]);
    assert!(why.contains("/nowhere/kube-gc.toml"), "{why}");
}
