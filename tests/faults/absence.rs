//! Proofs that an owner is absent, and answers that prove nothing.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::faults::stage::{Stage, requests};
use kube_gc_testkit::proxy::{Fault, Reply, Rule, Verb};
use kube_gc_testkit::{Collector, Options};

kube_gc_testkit::scenarios! {
    only_the_owners_own_404_and_another_uid_prove_that_it_is_absent,
}

const SOON: &str = "[retry]\nmax = \"500ms\"\n";

/// A reference to a ConfigMap that never existed.
fn ghost(name: &str, number: usize) -> Value {
    let uid = format!("3b0a1c52-77aa-4d29-9a4f-{number:012}");
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid })
}

fn not_found(details: &Value) -> Reply {
    Reply::status_with(404, "NotFound", "not found", details)
}

/// What is no proof that the ConfigMap of this namespace and name is absent.
const FALSE_ANSWERS: [fn(&str, &str) -> Reply; 9] = [
    |_, _| Reply::status(404, "NotFound", "not found"),
    // Of a path that is not served.
    |_, _| Reply::text(404, "404 page not found\n"),
    // An API server answers like this for a path that it serves in another version.
    |_, _| Reply::status(404, "NotFound", "the server could not find the requested resource"),
    |namespace, _| not_found(&json!({ "name": namespace, "kind": "namespaces" })),
    |_, name| not_found(&json!({ "name": name, "group": "example.com", "kind": "configmaps" })),
    |_, _| not_found(&json!({ "name": "another", "kind": "configmaps" })),
    // Without a uid.
    |namespace, name| {
        let metadata = json!({ "name": name, "namespace": namespace });
        Reply::json(200, &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }))
    },
    |_, _| Reply::broken(),
    |_, _| Reply::status(403, "Forbidden", "a refusal made by the test"),
];

/// A 404 proves that an object is absent only if `Status.details` names the object (rules 1.11 and 1.12).
/// An object without a uid and an error prove nothing either (rules 1.13 and 4.11). Fails if the status
/// code alone counts as proof, if a missing uid counts as another uid, or if nothing is proof.
async fn only_the_owners_own_404_and_another_uid_prove_that_it_is_absent() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let namesake = ns.configmap("namesake").create().await?;
    let of_namesake = ns.secret("of-namesake").owned_by(&namesake).create().await?;
    let (mut rules, mut dependents) = (Vec::new(), Vec::new());
    for (number, answer) in FALSE_ANSWERS.into_iter().enumerate() {
        let name = format!("ghost-{number}");
        let reply = answer(ns.name(), &name);
        let get = stage.here(Verb::Get).of("configmaps").named(&name);
        rules.push(stage.proxy.always(get, Fault::Instead(reply)));
        let owner = ghost(&name, number);
        dependents.push(ns.secret(format!("dependent-{number}")).owner_reference(owner).create().await?);
    }
    let kept = async || {
        let deletes = stage.proxy.all(&stage.here(Verb::Delete));
        ensure!(deletes.is_empty(), "{deletes:#?}");
        stage.cluster.assert_kept(&dependents).await
    };

    // The collector asked several times and accepted none of the answers.
    for rule in &rules {
        rule.hit(4).await?;
    }
    kept().await?;
    // A restarted collector does not accept them either.
    collector.stop().await?;
    let collector = Collector::start_with(stage.proxy.kubeconfig(), Options::config(SOON)).await?;
    for rule in &rules {
        rule.hit(rule.hits() + 3).await?;
    }
    kept().await?;

    rules.iter().for_each(Rule::remove);
    // The owner's own 404 is proof, and so is an object with another uid.
    let of_other = ns.secret("of-other").owner_reference(ghost("namesake", 99)).create().await?;
    for dependent in dependents.iter().chain([&of_other]) {
        stage.gone(dependent).await?;
    }
    stage.cluster.assert_kept([&of_namesake]).await?;
    for get in requests(stage.proxy.all(&stage.here(Verb::Get))) {
        // An answer from the API server's cache would be just as old.
        ensure!(!get.query.contains("resourceVersion"), "{get}");
    }
    stage.cluster.settled(&collector).await?;
    collector.stop().await
}
