//! The overlay for node collection, and its components.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::deployment::admitted_pod;
use kube_gc_testkit::deployment::{Installation, NODE, plane};

kube_gc_testkit::scenarios! {
    the_pods_of_the_node_overlay_are_admitted_and_have_no_more_than_they_need,
    the_components_for_other_hosts_change_the_paths_and_nothing_else,
    the_role_of_node_collection_grants_nothing_else,
    prometheus_finds_the_metrics_of_the_pods_and_the_rules_by_the_operators_objects,
}

/// The directories of the host that a pod gets: each with whether it is read-only, and what is mounted
/// below it later.
fn host_paths(spec: &Value) -> Result<BTreeMap<String, (bool, Option<String>)>> {
    let mounts = spec["containers"][0]["volumeMounts"].as_array().context("no mounts")?;
    let volumes = spec["volumes"].as_array().context("no volumes")?;
    let mut found = BTreeMap::new();
    for volume in volumes.iter().filter(|volume| volume["hostPath"].is_object()) {
        let path = volume["hostPath"]["path"].as_str().context("no path")?;
        let mut of_volume = mounts.iter().filter(|mount| mount["name"] == volume["name"]);
        let mount = of_volume.next().with_context(|| format!("{path} is not mounted"))?;
        // Symlinks and sockets are found by the paths of the host.
        ensure!(mount["mountPath"] == path && of_volume.next().is_none(), "{mount}");
        let propagation = mount["mountPropagation"].as_str().map(str::to_owned);
        found.insert(path.to_owned(), (mount["readOnly"] == true, propagation));
    }
    // Besides, its configuration and a place in memory.
    let in_memory = volumes.iter().filter(|volume| volume["emptyDir"]["medium"] == "Memory").count();
    ensure!(in_memory == 1 && mounts.len() == found.len() + 2, "other mounts: {mounts:?}");
    Ok(found)
}

/// What the pods get of a host whose runtime has these directories.
fn needed(socket: &str, images: &str) -> BTreeMap<String, (bool, Option<String>)> {
    let follows = Some("HostToContainer".to_owned());
    BTreeMap::from([
        (socket.to_owned(), (true, follows.clone())),
        (images.to_owned(), (true, follows)),
        ("/var/log/pods".to_owned(), (false, None)),
        ("/var/log/containers".to_owned(), (false, None)),
        ("/var/lib/kube-gc".to_owned(), (false, None)),
    ])
}

async fn the_pods_of_the_node_overlay_are_admitted_and_have_no_more_than_they_need() -> Result<()> {
    let installation = Installation::of(plane()?, "node").await?;
    // The namespace of the other overlays admits only restricted pods.
    let namespace = installation.get(&format!("/api/v1/namespaces/{NODE}")).await?;
    let admits = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    ensure!(admits == "privileged", "{namespace}");
    let pod = admitted_pod(&installation).await?;
    let spec = &pod["spec"];
    ensure!(
        spec["priority"].as_i64().unwrap_or_default() > 2_000_000_000,
        "not critical for its node: {pod}"
    );
    let tolerates_all = |toleration: &Value| {
        toleration["operator"] == "Exists" && toleration["key"].is_null() && toleration["effect"].is_null()
    };
    ensure!(spec["tolerations"].as_array().is_some_and(|all| all.iter().any(tolerates_all)), "{spec}");
    for shared in ["hostPID", "hostNetwork", "hostIPC", "shareProcessNamespace"] {
        ensure!(spec[shared] != true, "{shared}: {spec}");
    }
    ensure!(spec["securityContext"]["runAsUser"] == 0, "{spec}");
    let paths = host_paths(spec)?;
    ensure!(paths == needed("/run/containerd", "/var/lib/containerd"), "{paths:?}");
    Ok(())
}

async fn the_components_for_other_hosts_change_the_paths_and_nothing_else() -> Result<()> {
    let installation = Installation::of(plane()?, "node").await?;
    let template = async || anyhow::Ok(installation.workload().await?["spec"]["template"].take());
    let plain = template().await?;
    for (component, socket, images) in [
        ("node-cri-o", "/run/crio", "/var/lib/containers"),
        ("node-k3s", "/run/k3s/containerd", "/var/lib/rancher/k3s/agent/containerd"),
    ] {
        installation.add("components", json!([format!("deploy/components/{component}")]))?;
        installation.apply().await?;
        let mut changed = template().await?;
        let paths = host_paths(&changed["spec"])?;
        ensure!(paths == needed(socket, images), "{component}: {paths:?}");
        changed["spec"]["volumes"] = plain["spec"]["volumes"].clone();
        changed["spec"]["containers"][0]["volumeMounts"] =
            plain["spec"]["containers"][0]["volumeMounts"].clone();
        ensure!(changed == plain, "{component} changes more: {changed}");
    }
    installation.add("components", json!(["deploy/components/node-selinux"]))?;
    installation.apply().await?;
    let mut changed = template().await?;
    let options = changed["spec"]["securityContext"]["seLinuxOptions"].take();
    ensure!(options == json!({ "type": "spc_t" }), "{options}");
    if let Some(context) = changed["spec"]["securityContext"].as_object_mut() {
        context.remove("seLinuxOptions");
    }
    ensure!(changed == plain, "node-selinux changes more: {changed}");
    Ok(())
}

/// The API server is not what limits these pods, but nothing else should be had by their token.
async fn the_role_of_node_collection_grants_nothing_else() -> Result<()> {
    let installation = Installation::of(plane()?, "node").await?;
    for verb in ["get", "list", "watch"] {
        ensure!(installation.may(verb, "", "pods").await?, "it may not {verb} pods");
    }
    for verb in ["create", "patch"] {
        ensure!(installation.may_in("default", verb, "", "events").await?, "it may not {verb} events");
        ensure!(
            !installation.may_in("kube-system", verb, "", "events").await?,
            "it may {verb} others' events"
        );
    }
    ensure!(!installation.may_in("default", "get", "", "events").await?, "it may get events");
    for (verb, group, resource) in [
        ("create", "", "pods"),
        ("delete", "", "pods"),
        ("patch", "", "pods"),
        ("create", "", "pods/eviction"),
        ("create", "", "pods/exec"),
        ("get", "", "pods/exec"),
        ("get", "", "pods/log"),
        ("get", "", "secrets"),
        ("get", "", "nodes"),
        ("get", "", "nodes/proxy"),
        ("patch", "", "nodes"),
        ("create", "", "serviceaccounts/token"),
        ("list", "", "events"),
        ("get", "", "configmaps"),
    ] {
        ensure!(!installation.may(verb, group, resource).await?, "it may {verb} {resource}");
    }
    Ok(())
}

async fn prometheus_finds_the_metrics_of_the_pods_and_the_rules_by_the_operators_objects() -> Result<()> {
    let installation = Installation::of(plane()?, "node").await?;
    let component = "deploy/components/node-prometheus-operator";
    installation.add("components", json!([component]))?;
    installation.apply().await?;
    let of_operator = format!("/apis/monitoring.coreos.com/v1/namespaces/{NODE}");
    let monitor = installation.get(&format!("{of_operator}/podmonitors/{NODE}")).await?;
    let template = installation.workload().await?["spec"]["template"].take();
    let labels = &template["metadata"]["labels"];
    let selected = monitor["spec"]["selector"]["matchLabels"].as_object().context("it selects nothing")?;
    ensure!(!selected.is_empty(), "{monitor}");
    ensure!(
        selected.iter().all(|(name, value)| labels[name] == *value),
        "{monitor} does not select {labels}"
    );
    // What the rules select.
    let job = monitor["spec"]["jobLabel"].as_str().context("no job")?;
    ensure!(labels[job] == NODE, "{labels}");
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    let ports = template["spec"]["containers"][0]["ports"].as_array().context("no ports")?;
    ensure!(ports.iter().any(|port| port["name"] == endpoint["port"]), "{endpoint} is none of {ports:?}");
    let rule = installation.get(&format!("{of_operator}/prometheusrules/{NODE}")).await?;
    ensure!(rule["spec"]["groups"].as_array().is_some_and(|groups| !groups.is_empty()), "{rule}");
    Ok(())
}
