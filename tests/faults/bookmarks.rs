//! Versions in bookmarks count as seen.

use anyhow::{Context as _, Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::poll;

kube_gc_testkit::scenarios! {
    a_version_seen_only_in_a_bookmark_counts_as_seen,
}

/// `/debug/idle?seen=` names the version of a list, which no event of the type ever has. Fails if
/// only events count: the client would wait until the type changes next.
async fn a_version_seen_only_in_a_bookmark_counts_as_seen() -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    stage.proxy.drop_bookmarks();
    let collector = stage.collector().await?;
    ns.secret("last").create().await?;
    cluster.settled(&collector).await?;
    // All types share the versions.
    ns.configmap("other").create().await?;
    let path = format!("/api/v1/namespaces/{}/secrets?limit=1", ns.name());
    let list = cluster.send("GET", &path, None, None).await?;
    let now = list["metadata"]["resourceVersion"].as_str().context("no version")?;

    let seen = async || {
        let report = collector.get_debug(&format!("/debug/idle?seen=secrets%3D{now}")).await?.json()?;
        Ok(report["not_seen"].as_array().is_some_and(Vec::is_empty))
    };
    ensure!(!seen().await?, "seen before anything has shown it");
    ensure!(stage.proxy.bookmark("v1", "Secret", "secrets", now) == 1, "no watch");
    poll("the version to be seen", seen).await?;
    collector.stop().await
}
