//! Answers to writes that say what only a read can show, and writes that are accepted and undone.

use std::collections::HashMap;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::conformance::outcome::reported_as_failing;
use crate::conformance::stage::{FOREGROUND, ORPHAN, terminating_with, untouched};
use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Rule, Verb};
use kube_gc_testkit::webhook::{Asked, Decision, Denial, Hook};
use kube_gc_testkit::{Collector, Obj, Options, Policy, Webhook};

kube_gc_testkit::scenarios! {
    no_answer_to_a_write_proves_that_an_object_is_gone,
    a_write_that_a_mutating_webhook_undoes_is_reported_and_repeated,
}

/// Failures are retried soon.
const SOON: &str = "[retry]\nmax = \"300ms\"\n";
/// How the API server begins the denial of a webhook.
const WEBHOOK: &str = "admission webhook \"guard.example.com\" denied the request: ";

/// An answer to writes.
struct Answer {
    /// A webhook gives it. Otherwise it does not say where it comes from, as that of a plugin of the
    /// server.
    by_webhook: bool,
    /// Its details say that it is about the object itself.
    is_own: bool,
    code: Option<u16>,
    reason: &'static str,
    message: &'static str,
    /// In `/debug/stuck`.
    stuck: &'static str,
}

const fn plugin(code: u16, reason: &'static str, message: &'static str, stuck: &'static str) -> Answer {
    Answer { by_webhook: false, is_own: true, code: Some(code), reason, message, stuck }
}

const fn webhook(code: Option<u16>, reason: &'static str, message: &'static str) -> Answer {
    Answer { by_webhook: true, is_own: true, code, reason, message, stuck: "denied" }
}

const ANSWERS: [Answer; 13] = [
    plugin(403, "Forbidden", "no, says a role", "denied"),
    plugin(404, "NotFound", "not found, says a plugin", "denied"),
    plugin(409, "Conflict", "conflict, says a plugin", "conflict"),
    plugin(410, "Gone", "gone, says a plugin", "failed"),
    plugin(422, "Invalid", "another object, says a plugin", "denied"),
    Answer { is_own: false, ..plugin(404, "NotFound", "something is not found, says a plugin", "failed") },
    Answer { is_own: false, ..plugin(422, "Invalid", "something is invalid, says a plugin", "failed") },
    webhook(None, "", "no, says a webhook without a code"),
    webhook(Some(403), "Forbidden", "no, says a webhook"),
    webhook(Some(404), "NotFound", "not found, says a webhook"),
    webhook(Some(409), "Conflict", "conflict, says a webhook"),
    webhook(Some(410), "Gone", "gone, says a webhook"),
    webhook(Some(422), "Invalid", "another object, says a webhook"),
];

/// Objects of which some are never written, by one answer.
struct Family {
    /// Owns `middle`, and is deleted.
    top: Obj,
    /// Its DELETE gets the answer.
    middle: Obj,
    bottom: Obj,
    /// Deleted in the foreground. The patch of its finalizer gets the answer.
    waiting: Obj,
    /// Deleted with Orphan.
    orphaning: Obj,
    /// Its dependent. The patch of its reference gets the answer.
    dependent: Obj,
}

impl Family {
    async fn make(stage: &Stage, number: usize) -> Result<Self> {
        let ns = &stage.ns;
        let name = |name: &str| format!("{name}-{number}");
        let top = ns.secret(name("top")).create().await?;
        let middle = ns.configmap(name("middle")).owned_by(&top).create().await?;
        let orphaning = ns.secret(name("orphaning")).create().await?;
        Ok(Self {
            bottom: ns.configmap(name("bottom")).owned_by(&middle).create().await?,
            waiting: ns.configmap(name("waiting")).create().await?,
            dependent: ns.configmap(name("dependent")).owned_by(&orphaning).create().await?,
            top,
            middle,
            orphaning,
        })
    }

    async fn delete(&self, stage: &Stage) -> Result<()> {
        stage.cluster.delete(&self.top, Policy::Background).await?;
        stage.cluster.delete(&self.waiting, Policy::Foreground).await?;
        stage.cluster.delete(&self.orphaning, Policy::Orphan).await
    }

    /// The writes that get the answer.
    fn writes(&self) -> [(Verb, &'static str, &Obj); 3] {
        [
            (Verb::Delete, "DELETE", &self.middle),
            (Verb::Patch, "UPDATE", &self.waiting),
            (Verb::Patch, "UPDATE", &self.dependent),
        ]
    }

    /// Nothing was written, whatever the answer says, and the objects that wait for it are reported.
    async fn is_held(&self, stage: &Stage, collector: &Collector, answer: &Answer) -> Result<()> {
        let Self { middle, bottom, waiting, orphaning, dependent, .. } = self;
        untouched(&stage.cluster, [middle, bottom, dependent]).await?;
        terminating_with(&stage.cluster, waiting, &[FOREGROUND]).await?;
        terminating_with(&stage.cluster, orphaning, &[ORPHAN]).await?;
        let held = [middle, waiting, orphaning];
        let path = format!("/debug/stuck?reason={}", answer.stuck);
        poll("each of them to be stuck", async || {
            let stuck = collector.get_debug(&path).await?.body;
            Ok(held.iter().all(|object| stuck.contains(&object.uid)))
        })
        .await?;
        if answer.stuck == "denied" || !answer.is_own {
            reported_as_failing(collector, &held, answer.message).await?;
            collector.log_line(answer.message).await?;
        }
        if answer.by_webhook {
            reported_as_failing(collector, &held, WEBHOOK).await?;
            ensure!(stage.of(Verb::Get, middle).is_empty(), "it needs no read");
        }
        Ok(())
    }
}

/// What an answer says about an object: that it is the object's own, and that its uid is another.
fn details(object: &Obj) -> Value {
    json!({
        "name": object.name, "kind": "configmaps", "uid": object.uid,
        "causes": [{ "reason": "FieldValueInvalid", "message": "m", "field": "metadata.uid" }],
    })
}

/// Whatever the answer to a write is, an object is there as long as a GET shows it (rules 1.26, 1.27,
/// 4.29, 5.4, 6.4, 10.1, 10.3 and 10.4). What is refused is reported in the words of the answer, and tried
/// until it is allowed (rule 9.5). Fails if an answer counts as proof: `bottom`, whose owner lives, is
/// deleted; `waiting` is never tried again; or `orphaning` goes while its dependent still refers to it.
async fn no_answer_to_a_write_proves_that_an_object_is_gone() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let mut families = Vec::new();
    for number in 0..ANSWERS.len() {
        families.push(Family::make(&stage, number).await?);
    }
    let mut rules: Vec<Rule> = Vec::new();
    let mut denials = HashMap::new();
    for (family, answer) in families.iter().zip(&ANSWERS) {
        for (verb, operation, object) in family.writes() {
            let Answer { by_webhook, is_own, code, reason, message, .. } = *answer;
            let details = if is_own { details(object) } else { json!({}) };
            if by_webhook {
                let (message, details) = (message.to_owned(), Some(details));
                let denial = Denial { code, reason, message, details, ..Denial::default() };
                denials.insert((operation, object.name.clone()), denial);
            } else {
                let reply = Reply::status_with(code.unwrap_or_default(), reason, message, &details);
                rules.push(stage.proxy.always(Matcher::object(verb, object), Fault::Instead(reply)));
            }
        }
    }
    let denials = Arc::new(Mutex::new(denials));
    let webhook = Webhook::start(stage.any_plane()).await?;
    let known = Arc::clone(&denials);
    let judge = move |asked: Asked| {
        let key = (asked.operation, asked.name().to_owned());
        let denial = known.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        async { denial.map_or(Decision::Allow, Decision::Deny) }
    };
    let resource = &families[0].middle.resource;
    let hook = Hook { mutating: false, resource, operations: &["UPDATE", "DELETE"] };
    webhook.review(&stage.cluster, &stage.ns, hook, judge).await?;
    stage.cluster.settled(&collector).await?;

    for family in &families {
        family.delete(&stage).await?;
    }
    for family in &families {
        for (verb, _, object) in family.writes() {
            let is_repeated = async || Ok(stage.of(verb, object).len() >= 3);
            poll(&format!("three writes to {object}"), is_repeated).await?;
        }
    }
    for (family, answer) in families.iter().zip(&ANSWERS) {
        family.is_held(&stage, &collector, answer).await.context(answer.message)?;
    }

    poll("the denials to be counted", async || {
        let metrics = collector.metrics().await?;
        let count = |name: &str, label: &str| -> f64 {
            let matches = |series: &str| series.starts_with(name) && series.contains(label);
            metrics.iter().filter(|(series, _)| matches(series)).map(|(_, count)| count).sum()
        };
        let denied = count("kube_gc_denied_writes_total{", "");
        Ok(denied >= 20.0 && denied == count("kube_gc_decisions_total{", "outcome=\"denied\""))
    })
    .await?;

    rules.iter().for_each(Rule::remove);
    denials.lock().unwrap_or_else(PoisonError::into_inner).clear();
    stage.cluster.settled(&collector).await?;
    for Family { top, middle, bottom, waiting, orphaning, dependent } in &families {
        stage.cluster.assert_gone([top, middle, bottom, waiting, orphaning]).await?;
        stage.assert_owners(dependent, &[]).await?;
    }
    collector.stop().await
}

/// A mutating webhook adds again what a write removes (rules 5.17, 6.14 and 10.3). Fails if the code
/// of the answer counts: `orphaning` goes, and its dependent after a restart; the others are never
/// tried again.
async fn a_write_that_a_mutating_webhook_undoes_is_reported_and_repeated() -> Result<()> {
    const UNDONE: &str = "a mutating webhook or policy may have restored it";
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let orphaning = ns.secret("orphaning").create().await?;
    let dependent = ns.configmap("dependent").owned_by(&orphaning).create().await?;
    let waiting = ns.configmap("waiting").create().await?;
    let (top, solid) = (ns.secret("top").create().await?, ns.secret("solid").create().await?);
    let shared = ns.configmap("shared").owned_by(&top).owned_by(&solid).create().await?;

    let undoes = Arc::new(AtomicBool::new(true));
    let is_on = Arc::clone(&undoes);
    let references = |object: &Obj| (object.name.clone(), object.raw["metadata"]["ownerReferences"].clone());
    let kept = HashMap::from([references(&dependent), references(&shared)]);
    let judge = move |Asked { mut object, .. }: Asked| {
        let metadata = &mut object["metadata"];
        match metadata["name"].as_str() {
            Some("waiting") => metadata["finalizers"] = json!([FOREGROUND]),
            Some(name) if kept.contains_key(name) => metadata["ownerReferences"] = kept[name].clone(),
            _ => return ready(Decision::Allow),
        }
        ready(if is_on.load(SeqCst) { Decision::Mutate(object) } else { Decision::Allow })
    };
    let webhook = Webhook::start(stage.any_plane()).await?;
    let hook = Hook { mutating: true, resource: &dependent.resource, operations: &["UPDATE"] };
    webhook.review(&stage.cluster, ns, hook, judge).await?;
    stage.cluster.settled(&collector).await?;

    stage.cluster.delete(&orphaning, Policy::Orphan).await?;
    stage.cluster.delete(&waiting, Policy::Foreground).await?;
    stage.cluster.delete(&top, Policy::Background).await?;
    for object in [&dependent, &waiting, &shared] {
        let is_repeated = async || Ok(stage.of(Verb::Patch, object).len() >= 3);
        poll(&format!("three patches of {object}"), is_repeated).await?;
    }
    stage.assert_owners(&dependent, &[&orphaning]).await?;
    stage.assert_owners(&shared, &[&top, &solid]).await?;
    terminating_with(&stage.cluster, &orphaning, &[ORPHAN]).await?;
    terminating_with(&stage.cluster, &waiting, &[FOREGROUND]).await?;
    let held = [&orphaning, &waiting, &shared];
    reported_as_failing(&collector, &held, UNDONE).await?;
    let stuck = collector.get_debug("/debug/stuck?reason=denied").await?.body;
    ensure!(held.iter().all(|object| stuck.contains(&object.uid)), "{stuck}");
    let named = format!(
        "PATCH configmaps {}/dependent: 200 OK: the API server accepted the write, but the object still refers \
         to Secret orphaning",
        ns.name()
    );
    collector.log_line(&named).await?;

    undoes.store(false, SeqCst);
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&orphaning, &waiting, &top]).await?;
    stage.assert_owners(&dependent, &[]).await?;
    stage.assert_owners(&shared, &[&solid]).await?;
    collector.stop().await
}
