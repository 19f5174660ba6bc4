//! Many small control planes: the overlay `small`, and the units for systemd.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::deployment::{Installation, NAME, plane, repository};
use kube_gc_testkit::{Collector, Policy, target};

kube_gc_testkit::scenarios! {
    the_small_overlay_collects_the_cluster_of_a_kubeconfig,
    the_units_are_valid_and_have_little_exposure,
    the_command_of_the_unit_starts_a_small_collector,
}

/// What the kubelet would mount, and the arguments with the paths on this machine.
fn arguments(container: &Value, mounts: &Path) -> Result<Vec<String>> {
    let arguments = container["args"].as_array().context("no arguments")?;
    let paths = container["volumeMounts"].as_array().context("no mounts")?;
    let on_this_machine = |argument: &Value| {
        let argument = argument.as_str()?;
        let mount = paths.iter().find(|mount| {
            mount["mountPath"].as_str().is_some_and(|path| argument.starts_with(&format!("{path}/")))
        });
        Some(mount.map_or_else(|| argument.to_owned(), |_| format!("{}{argument}", mounts.display())))
    };
    arguments.iter().map(|argument| on_this_machine(argument).context("not a text")).collect()
}

/// Fails unless these variables set one partition, and fewer workers of each kind than the default.
fn needs_less_than_the_default(variables: &[(&str, &str)]) -> Result<()> {
    let defaults: toml::Table = toml::from_str(&std::fs::read_to_string(repository("config/default.toml"))?)?;
    let value = |section: &str, key: &str| -> Result<i64> {
        let name = format!("KUBE_GC__{section}__{key}").to_uppercase();
        let (_, value) = variables.iter().find(|(known, _)| *known == name).context(name)?;
        Ok(value.parse()?)
    };
    ensure!(value("graph", "partitions")? == 1);
    let workers = defaults["workers"].as_table().context("no workers")?;
    ensure!(!workers.is_empty());
    for (kind, default) in workers {
        let default = default.as_integer().context("not a number")?;
        ensure!(value("workers", kind)? < default, "not fewer workers than {default}: {kind}");
    }
    Ok(())
}

/// Starts a collector and waits until it is ready. It must have a partition for all namespaces and
/// one for objects without a namespace.
async fn started(mut command: Command) -> Result<Collector> {
    command.args(["--log-format", "json"]);
    let collector = Collector::spawn(command, None).await?;
    collector.ready().await?;
    let mut partitions = 0;
    poll("the metrics of the graph", async || {
        let metrics = collector.metrics().await?;
        partitions = metrics.keys().filter(|series| series.starts_with("kube_gc_graph_nodes{")).count();
        Ok(partitions > 0)
    })
    .await?;
    ensure!(partitions == 2, "{partitions} partitions");
    Ok(collector)
}

/// One API server is both clusters here: the one where the Deployment is, and the one it collects, by the
/// rights of `tenant` alone.
async fn the_small_overlay_collects_the_cluster_of_a_kubeconfig() -> Result<()> {
    // For the namespace, and for the turn.
    let installation = Installation::of(plane()?, "plain").await?;
    installation.add("resources", json!(["deploy/overlays/small"]))?;
    installation.add("components", json!(["deploy/components/finish-namespaces"]))?;
    let built = installation.built().await?;
    for absent in ["kind: Namespace", "priorityClassName"] {
        ensure!(!built.contains(absent), "{absent} needs rights in this cluster: {built}");
    }
    // Another Deployment than that of `plain`, whose fields would be merged with it.
    installation.add("namePrefix", json!("small-"))?;
    installation.apply().await?;
    let path = format!("/apis/apps/v1/namespaces/{NAME}/deployments/small-{NAME}");
    let spec = installation.get(&path).await?["spec"]["template"]["spec"].clone();
    let container = &spec["containers"][0];
    ensure!(container["resources"]["requests"] == json!({ "cpu": "10m", "memory": "32Mi" }), "{container}");
    ensure!(spec["automountServiceAccountToken"] == false, "it has rights in this cluster: {spec}");

    let mounts = tempfile::tempdir()?;
    let mounted = |name: &str| mounts.path().join(name);
    for volume in spec["volumes"].as_array().context("no volumes")? {
        if let Some(name) = volume["configMap"]["name"].as_str() {
            let config = installation.configmap(name).await?;
            let text = config["data"]["config.toml"].as_str().context("no config.toml")?.to_owned();
            std::fs::create_dir_all(mounted("etc/kube-gc"))?;
            std::fs::write(mounted("etc/kube-gc/config.toml"), text)?;
        } else {
            ensure!(volume["secret"]["secretName"] == "kube-gc-kubeconfig", "{volume}");
            let item = volume["secret"]["items"][0]["path"].as_str().context("no key")?;
            std::fs::create_dir_all(mounted("etc/kube-gc-kubeconfig"))?;
            std::fs::copy(installation.plane.kubeconfig(), mounted("etc/kube-gc-kubeconfig").join(item))?;
        }
    }
    let mut environment = Vec::new();
    for variable in container["env"].as_array().context("no variables")? {
        let value = variable["value"].as_str().context("not a value")?;
        environment.push((variable["name"].as_str().context("no name")?, value));
    }
    needs_less_than_the_default(&environment)?;
    installation.add("resources", json!(["deploy/tenant"]))?;
    installation.add("components", json!(["old-server"]))?;
    installation.apply().await?;
    // The user that the tenant's rights are for.
    poll("the role to take effect", async || installation.allows(NAME, &everywhere("delete")).await).await?;
    let mut command = Command::new(target::binary());
    command
        .args(arguments(container, mounts.path())?)
        .args([
            "--listen",
            "127.0.0.1:0",
            "--debug-listen",
            "127.0.0.1:0",
            "--exit-with-parent",
            "--as",
            NAME,
        ])
        .env_clear()
        .envs(environment);
    let collector = started(command).await?;

    let ns = installation.cluster.namespace().await?;
    let owner = ns.configmap("owner").create().await?;
    let dependent = ns.configmap("dependent").owned_by(&owner).create().await?;
    installation.cluster.send("DELETE", &owner.path(), None, None).await?;
    poll("the dependent to go", async || {
        Ok(installation.cluster.send("GET", &dependent.path(), None, None).await.is_err())
    })
    .await?;

    let missing = async || {
        let page = collector.get("/readyz?verbose").await?;
        ensure!(page.status == 200, "missing rights make it unready: {}", page.body);
        Ok(page.body.contains("deletecollection") && page.body.contains("namespaces/finalize"))
    };
    poll("the rights to be missed", missing).await?;
    collector.log_line("docs/finish-namespaces.md").await?;
    installation.add("components", json!(["old-server", "deploy/components/finish-namespaces"]))?;
    installation.apply().await?;
    installation.cluster.delete(ns.as_object(), Policy::Background).await?;
    installation.cluster.gone(ns.as_object()).await?;
    poll("the rights to be noticed", async || Ok(!missing().await?)).await?;
    collector.stop().await
}

/// A verb for all objects.
fn everywhere(verb: &str) -> Value {
    json!({ "resourceAttributes": { "verb": verb, "group": "*", "resource": "*" } })
}

/// systemd itself does not run where the tests do.
async fn the_command_of_the_unit_starts_a_small_collector() -> Result<()> {
    let plane = plane()?;
    let _turn = plane.exclusive().await;
    let unit = std::fs::read_to_string(repository("deploy/systemd/kube-gc@.service"))?;
    let values = |key: &'static str| unit.lines().filter_map(move |line| line.strip_prefix(key));
    let variables: Vec<(&str, &str)> = values("Environment=")
        .flat_map(str::split_whitespace)
        .map(|variable| variable.split_once('=').context("no value"))
        .collect::<Result<_>>()?;
    needs_less_than_the_default(&variables)?;

    // As LoadCredential and RuntimeDirectory make them.
    let directory = tempfile::tempdir()?;
    let (credentials, runtime) = (directory.path().join("credentials"), directory.path().join("run"));
    std::fs::create_dir(&credentials)?;
    std::fs::create_dir(&runtime)?;
    let (credential, _) =
        values("LoadCredential=").find_map(|value| value.split_once(':')).context("none")?;
    std::fs::copy(plane.kubeconfig(), credentials.join(credential))?;
    let directories = [("CREDENTIALS_DIRECTORY", &credentials), ("RUNTIME_DIRECTORY", &runtime)];
    let line = values("ExecStart=").next().context("no command")?;
    let line = directories.iter().fold(line.to_owned(), |line, (name, path)| {
        line.replace(&format!("${{{name}}}"), &path.display().to_string())
    });
    let mut words = line.split_whitespace();
    ensure!(words.next() == Some("/usr/local/bin/kube-gc") && !line.contains('$'), "{line}");

    let mut command = Command::new(target::binary());
    command.args(words).env_clear().envs(variables);
    let collector = started(command).await?;
    ensure!(runtime.join("ready.json").exists(), "the unit names no file");
    collector.stop().await?;
    ensure!(!runtime.join("ready.json").exists(), "the file is still there");
    Ok(())
}

async fn the_units_are_valid_and_have_little_exposure() -> Result<()> {
    let analyze = |arguments: Vec<String>| Command::new("systemd-analyze").args(arguments).output();
    if analyze(vec!["--version".to_owned()]).is_err() {
        eprintln!("skipped: the_units_are_valid_and_have_little_exposure: systemd-analyze is not installed");
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let unit = |name: &str| directory.path().join(name).display().to_string();
    for (name, instance) in [("kube-gc@", "kube-gc@one"), ("kube-gc-node", "kube-gc-node")] {
        let text = std::fs::read_to_string(repository(&format!("deploy/systemd/{name}.service")))?;
        // It must name a program that is there.
        let here = text.replace("/usr/local/bin/kube-gc", target::binary().to_str().context("not UTF-8")?);
        ensure!(here != text, "{name} names another path");
        let [name, instance] = [name, instance].map(|name| unit(&format!("{name}.service")));
        for path in [&name, &instance] {
            std::fs::write(path, &here)?;
        }
        let found = analyze(vec!["verify".to_owned(), name])?;
        ensure!(found.status.success() && found.stderr.is_empty(), "{found:?}");

        let options = ["security", "--offline=true", "--no-pager", "--threshold=20"].map(str::to_owned);
        let found = analyze(options.into_iter().chain([instance]).collect())?;
        ensure!(found.status.success(), "exposed more than 2.0 of 10: {found:?}");
    }
    Ok(())
}
