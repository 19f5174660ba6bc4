//! Proofs that an owner is absent, and answers that prove nothing.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::faults::stage::{Stage, requests};
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Verb};
use kube_gc_testkit::{Collector, Obj, Options};

kube_gc_testkit::scenarios! {
    a_404_without_details_proves_nothing,
    a_404_of_the_path_proves_nothing,
    a_404_of_the_resource_proves_nothing,
    a_404_of_the_namespace_proves_nothing,
    a_404_of_another_group_proves_nothing,
    a_404_of_another_name_proves_nothing,
    an_object_without_a_uid_proves_nothing,
    an_error_proves_nothing,
    the_owners_own_404_and_another_uid_are_proof,
}

const SOON: &str = "[retry]\nmax = \"500ms\"\n";
const UID: &str = "3b0a1c52-77aa-4d29-9a4f-0123456789ab";

/// Creates a dependent of a ConfigMap that never existed, while the collector gets a false answer
/// about that ConfigMap.
async fn told(reply: impl Fn(&Stage) -> Reply) -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let ghost = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": UID });
    let get = stage.here(Verb::Get).of("configmaps").named("ghost");
    let rule = stage.proxy.always(get.clone(), Fault::Instead(reply(&stage)));
    let dependent = ns.secret("dependent").owner_reference(ghost).create().await?;

    // The collector asked several times and accepted none of the answers.
    rule.hit(4).await?;
    kept(&stage, &dependent).await?;
    // A restarted collector does not accept them either.
    collector.stop().await?;
    let collector = Collector::start_with(stage.proxy.kubeconfig(), Options::config(SOON)).await?;
    rule.hit(rule.hits() + 3).await?;
    kept(&stage, &dependent).await?;

    rule.remove();
    stage.gone(&dependent).await?;
    for get in requests(stage.proxy.all(&get)) {
        // An answer from the API server's cache would be just as old.
        ensure!(!get.query.contains("resourceVersion"), "{get}");
    }
    stage.cluster.settled(&collector).await?;
    collector.stop().await
}

async fn kept(stage: &Stage, dependent: &Obj) -> Result<()> {
    ensure!(stage.of(Verb::Delete, dependent).is_empty(), "{:#?}", stage.of(Verb::Delete, dependent));
    stage.cluster.assert_kept([dependent]).await
}

/// A 404 proves that an object is absent only if `Status.details` names the object (rule 1.11).
/// This scenario and the next seven fail if the status code alone counts as proof.
async fn a_404_without_details_proves_nothing() -> Result<()> {
    told(|_| Reply::status(404, "NotFound", "not found")).await
}

/// The path is not served (rule 1.12).
async fn a_404_of_the_path_proves_nothing() -> Result<()> {
    told(|_| Reply::text(404, "404 page not found\n")).await
}

/// An API server answers like this for a path that it serves in another version
/// (rule 1.12).
async fn a_404_of_the_resource_proves_nothing() -> Result<()> {
    told(|_| Reply::status(404, "NotFound", "the server could not find the requested resource")).await
}

/// The 404 of the namespace (rule 1.11).
async fn a_404_of_the_namespace_proves_nothing() -> Result<()> {
    told(|stage| {
        let details = json!({ "name": stage.ns.name(), "kind": "namespaces" });
        Reply::status_with(404, "NotFound", "namespaces not found", &details)
    })
    .await
}

/// The right name and resource, but another group (rule 1.11).
async fn a_404_of_another_group_proves_nothing() -> Result<()> {
    told(|_| {
        let details = json!({ "name": "ghost", "group": "example.com", "kind": "configmaps" });
        Reply::status_with(404, "NotFound", "configmaps.example.com \"ghost\" not found", &details)
    })
    .await
}

/// Another name (rule 1.11).
async fn a_404_of_another_name_proves_nothing() -> Result<()> {
    told(|_| {
        let details = json!({ "name": "host", "kind": "configmaps" });
        Reply::status_with(404, "NotFound", "configmaps \"host\" not found", &details)
    })
    .await
}

/// An answer without a uid proves nothing (rule 1.13). Fails if a missing uid counts as another
/// uid.
async fn an_object_without_a_uid_proves_nothing() -> Result<()> {
    told(|stage| {
        let metadata = json!({ "name": "ghost", "namespace": stage.ns.name() });
        Reply::json(200, &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }))
    })
    .await
}

/// A look-up that fails leaves the reference unresolved (rule 4.11).
async fn an_error_proves_nothing() -> Result<()> {
    told(|_| Reply::broken()).await?;
    told(|_| Reply::status(403, "Forbidden", "a refusal made by the test")).await
}

/// The object's own 404 and another uid are proof (rules 1.11 and 1.13). The counterpart
/// of the other tests: fails if these answers are not accepted.
async fn the_owners_own_404_and_another_uid_are_proof() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let namesake = ns.configmap("namesake").create().await?;
    let ghost = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": UID });
    let mut other = namesake.reference();
    other["uid"] = json!("00000000-0000-4000-8000-000000000000");
    let of_ghost = ns.secret("of-ghost").owner_reference(ghost).create().await?;
    let of_other = ns.secret("of-other").owner_reference(other).create().await?;
    let of_namesake = ns.secret("of-namesake").owned_by(&namesake).create().await?;
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&of_ghost, &of_other]).await?;
    stage.cluster.assert_kept([&of_namesake]).await?;
    for get in requests(stage.proxy.all(&Matcher::verb(Verb::Get))) {
        ensure!(!get.query.contains("resourceVersion"), "{get}");
    }
    collector.stop().await
}
