use clap::Parser;

use super::super::tests::{HOSTILE, assert_harmless, look, object};
use super::*;
use kube_gc_insight::{FinalizerReport, State};

fn planned(kind: &str, name: &str, effect: Effect) -> PlannedObject {
    PlannedObject {
        name: object(kind, name),
        state: State::Live,
        effect,
        within: None,
        kept_by: Vec::new(),
        finalizers: Some(Vec::new()),
        after: Vec::new(),
        perhaps_after: Vec::new(),
        loses: Vec::new(),
        may_lose: Vec::new(),
        why: None,
    }
}

fn claim(name: &str) -> PlannedObject {
    let mut claim = planned("PersistentVolumeClaim", name, Effect::Deleted);
    claim.name.resource = Some("persistentvolumeclaims".into());
    claim
}

fn plan() -> Plan {
    let root = planned("Deployment", "web", Effect::Deleted);
    let mut held = planned("Pod", "web-x", Effect::Held);
    held.finalizers =
        Some(vec![FinalizerReport { name: "example.com/drain".into(), ..FinalizerReport::default() }]);
    let mut kept = planned("Secret", "tls", Effect::Kept);
    kept.kept_by = vec![object("Service", "web")];
    kept.loses = vec![root.name.clone(), object("Pod", "web-x")];
    kept.after = vec![object("Pod", "web-x")];
    let pods = TypeEffects { resource: "pods".into(), deleted: 1231, held: 1, ..TypeEffects::default() };
    Plan {
        verdict: "Deployment/web goes.".into(),
        by_type: vec![pods],
        objects: vec![claim("data"), held, kept, root],
        not_listed: 1230,
        brake: Forecast::Engages { why: "1233 of 500".into() },
        notes: vec!["Nobody knows.".into()],
        ..Plan::default()
    }
}

#[test]
fn a_plan_counts_and_names_what_people_should_look_at() {
    assert_eq!(
        text(&plan(), &look(false)),
        "\
Deployment/web goes.

TYPE  DELETED  HELD  BLOCKS  ORPHANED  KEPT  UNKNOWN
pods  1,231    1     -       -         -     -

EFFECT   OBJECT                      NOTE
deleted  PersistentVolumeClaim/data
held     Pod/web-x                   finalizer example.com/drain
kept     Secret/tls                  kept by Service/web, loses Deployment/web, Pod/web-x when it is gone
And 1,231 more objects (-o wide lists them).

The brake of the collector engages: 1233 of 500.
Nobody knows.
"
    );
}

#[test]
fn what_simply_goes_is_counted() {
    let last = |count: usize, wide| {
        let mut plan = Plan { not_listed: count, ..Plan::default() };
        plan.objects = if wide { vec![planned("Pod", "p", Effect::Deleted)] } else { Vec::new() };
        text(&plan, &look(wide)).trim().lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!([last(0, false), last(1, false)], ["", "1 object goes (-o wide lists it)."]);
    assert_eq!(last(5_000, false), "5,000 objects go (-o wide lists them).");
    assert_eq!([last(1, true), last(2, true)], ["And 1 more object.", "And 2 more objects."]);
    let all: Vec<String> = (1..=5_003).map(|number| format!("f{number}")).collect();
    let named = [1, 2, 3, 4, 5_003].map(|count| first(&all[..count]));
    assert_eq!(named, ["f1", "f1, f2", "f1, f2, f3", "f1, f2, f3, and 1 more", "f1, f2, f3, and 5,000 more"]);
}

#[test]
fn many_notable_objects_are_counted_and_claims_never() {
    let mut plan = plan();
    plan.objects = (0..100).map(|number| planned("Pod", &format!("p{number}"), Effect::Held)).collect();
    plan.objects.extend((0..50).map(|number| claim(&format!("c{number}"))));
    let text = text(&plan, &look(false));
    assert_eq!(text.matches("Pod/p").count(), NAMED);
    assert_eq!(text.matches("PersistentVolumeClaim/c").count(), 50);
}

#[test]
fn hostile_texts_cannot_leave_their_place() {
    let mut plan = plan();
    let lines = text(&plan, &look(true)).lines().count();
    for object in &mut plan.objects {
        object.name.name = HOSTILE.into();
        object.why = Some(HOSTILE.into());
        object.after = vec![object.name.clone(); 9];
    }
    plan.verdict = HOSTILE.into();
    plan.by_type[0].resource = HOSTILE.into();
    plan.brake = Forecast::Engages { why: HOSTILE.into() };
    assert_harmless(&text(&plan, &look(true)), lines);
    assert_harmless(&names(&plan), lines);
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    plan: PlanArgs,
}

/// The file may not exist, and what it says would not matter.
#[test]
fn a_configuration_beside_a_collector_is_refused_before_it_is_read() {
    for (line, why) in [
        ("plan pod/a --config /nowhere/kube-gc.toml --collector http://127.0.0.1:1", "needs --from lists"),
        ("plan pod/a --config /nowhere/kube-gc.toml", "/nowhere/kube-gc.toml"),
    ] {
        let refused = Line::parse_from(line.split(' ')).plan.run().unwrap_err().message;
        assert!(refused.contains(why), "{refused}");
    }
}
