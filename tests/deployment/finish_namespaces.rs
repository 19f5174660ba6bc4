//! The component that lets the collector finish namespaces.

use anyhow::{Result, ensure};
use serde_json::json;

use kube_gc_testkit::Policy;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::deployment::{Installation, Pod, plane};

kube_gc_testkit::scenarios! {
    the_component_grants_what_finishing_namespaces_needs,
}

/// What the plain overlay does not grant.
const RIGHTS: [(&str, &str); 2] = [("deletecollection", "secrets"), ("update", "namespaces/finalize")];

async fn the_component_grants_what_finishing_namespaces_needs() -> Result<()> {
    let installation = Installation::of(plane()?, "plain").await?;
    let cluster = &installation.cluster;
    for (verb, resource) in RIGHTS {
        ensure!(!installation.may(verb, "", resource).await?, "it may {verb} {resource} by default");
    }
    installation.add("components", json!(["old-server", "deploy/components/finish-namespaces"]))?;
    installation.apply().await?;
    poll("the role to take effect", async || {
        let mut all = true;
        for (verb, resource) in RIGHTS {
            all &= installation.may(verb, "", resource).await?;
        }
        Ok(all)
    })
    .await?;
    ensure!(!installation.may("update", "", "namespaces").await?, "it may update namespaces");

    let ns = cluster.namespace().await?;
    ns.secret("secret").create().await?;
    let collector = Pod::of(&installation).await?.start().await?;
    collector.ready().await?;
    cluster.delete(ns.as_object(), Policy::Background).await?;
    cluster.gone(ns.as_object()).await?;
    ensure!(collector.metric_of("kube_gc_requests_total", &["code=\"403\""]).await? == 0.0);
    collector.stop().await?;

    // Other overlays on this server must not have these rights.
    installation.add("components", json!(["old-server"]))?;
    installation.apply().await?;
    poll("the rights to be gone", async || Ok(!installation.may("deletecollection", "", "secrets").await?))
        .await
}
