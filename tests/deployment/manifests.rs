//! The manifests as an API server sees them.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use kube_gc_config::Loader;
use serde_json::json;

use crate::deployment::admitted_pod;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::deployment::{Installation, NAME, Pod, overlays, plane, repository};

kube_gc_testkit::scenarios! {
    every_overlay_can_be_applied_twice_and_has_all_its_objects,
    no_component_replaces_the_operators_configuration,
    the_pods_of_every_overlay_are_admitted_and_restricted,
    the_probes_of_the_manifests_are_answered,
    a_changed_configuration_changes_the_pod_template,
    requests_of_the_collector_have_the_priority_of_controllers,
}

/// The objects that an overlay adds to those of every other installation. That for nodes stands alone.
const ADDED: [(&str, &[&str]); 6] = [
    ("plain", &[]),
    ("dry-run", &[]),
    (
        "high-availability",
        &[
            "/apis/policy/VERSION/namespaces/kube-gc/poddisruptionbudgets/kube-gc",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-gc/rolebindings/kube-gc-leader",
        ],
    ),
    (
        "protected",
        &[
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/kube-gc-metrics-reader",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kube-gc-reviews",
        ],
    ),
    (
        "prometheus-operator",
        &[
            "/apis/monitoring.coreos.com/v1/namespaces/kube-gc/servicemonitors/kube-gc",
            "/apis/monitoring.coreos.com/v1/namespaces/kube-gc/prometheusrules/kube-gc",
        ],
    ),
    (
        "node",
        &[
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kube-gc-node",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/kube-gc-node-events",
            "/apis/networking.k8s.io/v1/namespaces/kube-gc-node/networkpolicies/kube-gc-node",
            "/api/v1/namespaces/kube-gc-node/resourcequotas/critical-pods",
            "/api/v1/namespaces/kube-gc-node/serviceaccounts/kube-gc-node",
        ],
    ),
];

/// The path of an object in the version of its group that the server prefers.
async fn preferred(installation: &Installation<'_>, path: &str) -> Result<String> {
    let group = path.split('/').nth(2).context("no group")?;
    let group = installation.get(&format!("/apis/{group}")).await?;
    let version = group["preferredVersion"]["version"].as_str().context("no version")?;
    Ok(path.replace("VERSION", version))
}

async fn every_overlay_can_be_applied_twice_and_has_all_its_objects() -> Result<()> {
    // That for small control planes has a file of its own.
    let tested = ADDED.iter().map(|(name, _)| *name).chain(["small"]);
    ensure!(overlays()? == tested.map(str::to_owned).collect::<BTreeSet<_>>());
    for (overlay, added) in ADDED {
        let installation = Installation::of(plane()?, overlay).await?;
        let before = installation.workload().await?;
        installation.apply().await?;
        let after = installation.workload().await?;
        ensure!(before["metadata"]["generation"] == after["metadata"]["generation"], "changed: {after}");
        let always = [
            "/apis/networking.k8s.io/v1/namespaces/kube-gc/networkpolicies/kube-gc",
            "/apis/flowcontrol.apiserver.k8s.io/VERSION/flowschemas/kube-gc",
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kube-gc",
            "/api/v1/namespaces/kube-gc/services/kube-gc",
            "/api/v1/namespaces/kube-gc/serviceaccounts/kube-gc",
            "/api/v1/namespaces/kube-gc/resourcequotas/critical-pods",
        ];
        for path in always.iter().filter(|_| overlay != "node").chain(added) {
            let path =
                if path.contains("VERSION") { preferred(&installation, path).await? } else { (*path).into() };
            installation.get(&path).await.with_context(|| format!("{overlay} lacks it"))?;
        }
    }
    Ok(())
}

/// An operator's own configuration can be combined with every component. kustomize applies
/// components after the operator's generators, and a component with a `config.toml` would silently
/// replace it.
async fn no_component_replaces_the_operators_configuration() -> Result<()> {
    let installation = Installation::of(plane()?, "plain").await?;
    let own = json!([{ "name": NAME, "namespace": NAME, "behavior": "merge",
        "literals": ["config.toml=[brake]\ndeletions_per_minute = 5\n"] }]);
    installation.add("configMapGenerator", own)?;
    for component in std::fs::read_dir(repository("deploy/components"))? {
        let component = format!("deploy/components/{}", component?.file_name().display());
        installation.add("components", json!([component]))?;
        let built = installation.built().await.with_context(|| component.clone())?;
        ensure!(built.contains("deletions_per_minute = 5"), "{component} replaces it: {built}");
        let two = component.ends_with("high-availability");
        ensure!(built.contains("KUBE_GC__LEADER__ENABLED") == two, "{component}: who leads? {built}");
    }
    Ok(())
}

async fn the_pods_of_every_overlay_are_admitted_and_restricted() -> Result<()> {
    for (overlay, _) in ADDED.iter().filter(|(overlay, _)| *overlay != "node") {
        let pod = admitted_pod(&Installation::of(plane()?, overlay).await?).await?;
        ensure!(pod["spec"]["securityContext"]["runAsNonRoot"] == true, "{pod}");
    }
    Ok(())
}

/// The port and the paths of the probes. If they were wrong, the kubelet would kill the collector.
async fn the_probes_of_the_manifests_are_answered() -> Result<()> {
    let installation = Installation::of(plane()?, "plain").await?;
    let spec = installation.deployment().await?["spec"]["template"]["spec"].clone();
    let container = &spec["containers"][0];
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(&file, installation.configuration().await?)?;
    let settings = Loader::new().file(Some(file.path())).load()?;
    let port = &container["ports"][0];
    ensure!(port["containerPort"] == settings.http.listen.port(), "{port}");
    let collector = Pod::of(&installation).await?.start().await?;
    collector.ready().await?;
    for probe in ["livenessProbe", "readinessProbe"] {
        let get = &container[probe]["httpGet"];
        ensure!(get["port"] == port["name"], "{get}");
        let answer = collector.get(get["path"].as_str().context("no path")?).await?;
        ensure!(answer.status == 200, "{probe}: {} {}", answer.status, answer.body);
    }
    let grace = spec["terminationGracePeriodSeconds"].as_u64().context("no grace period")?;
    ensure!(grace > settings.shutdown.grace.as_secs(), "killed before it has finished");
    collector.stop().await
}

/// A Deployment rolls out when its template changes.
async fn a_changed_configuration_changes_the_pod_template() -> Result<()> {
    let installation = Installation::of(plane()?, "plain").await?;
    let before = installation.config_name().await?;
    let other = json!({
        "name": NAME,
        "namespace": NAME,
        "behavior": "merge",
        "literals": ["config.toml=[workers]\ndelete = 7\n"],
    });
    installation.add("configMapGenerator", json!([other]))?;
    installation.apply().await?;
    let after = installation.config_name().await?;
    ensure!(before != after, "still {after}");
    let content = installation.configuration().await?;
    ensure!(content.contains("delete = 7"), "{content}");
    Ok(())
}

/// The API server reports the FlowSchema of a request.
async fn requests_of_the_collector_have_the_priority_of_controllers() -> Result<()> {
    let installation = Installation::of(plane()?, "plain").await?;
    let path =
        preferred(&installation, "/apis/flowcontrol.apiserver.k8s.io/VERSION/flowschemas/kube-gc").await?;
    let schema = installation.get(&path).await?;
    let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().context("no priority level")?;
    let path = path.replace("flowschemas/kube-gc", &format!("prioritylevelconfigurations/{level}"));
    let level = installation.get(&path).await?;
    let token = installation.request_token(None).await?;
    let client = client(installation.plane.kubeconfig(), &token).await?;
    poll("the FlowSchema to take effect", async || {
        let request = http::Request::get("/api/v1/secrets?limit=1").body(kube::client::Body::empty())?;
        let answer = client.send(request).await?;
        ensure!(answer.status() == 200, "{answer:?}");
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        Ok(header("x-kubernetes-pf-flowschema-uid") == schema["metadata"]["uid"].as_str()
            && header("x-kubernetes-pf-prioritylevel-uid") == level["metadata"]["uid"].as_str())
    })
    .await
}

/// A client with this token instead of the certificate in the kubeconfig.
async fn client(kubeconfig: &Path, token: &str) -> Result<Client> {
    let mut config = kube_gc_testkit::config_of(kubeconfig).await?;
    config.auth_info = serde_json::from_value(json!({ "token": token }))?;
    Ok(Client::try_from(config)?)
}
