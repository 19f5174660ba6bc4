//! For which cluster the manifests are: what `kubectl kustomize` makes of each overlay, with each component.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use kube_gc_testkit::deployment::{overlays, repository};

kube_gc_testkit::scenarios! {
    rights_are_for_the_cluster_that_is_collected,
}

/// The components whose roles only fit where the pods run in the cluster that they collect.
const AT_HOME: [&str; 2] = ["high-availability", "protected"];

/// Which cluster the objects are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The cluster that its own pods collect.
    Home,
    /// A cluster that only runs the pods.
    Host,
    /// A cluster that is collected from outside.
    Tenant,
}

/// The objects of a kustomization, in the form that kubectl gives all of them.
fn rendered(base: &str, components: &[&str]) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    std::os::unix::fs::symlink(repository("deploy"), directory.path().join("deploy"))?;
    let components: Vec<_> = components.iter().map(|name| format!("deploy/components/{name}")).collect();
    let text = json!({ "resources": [format!("deploy/{base}")], "components": components });
    std::fs::write(directory.path().join("kustomization.yaml"), text.to_string())?;
    let output = Command::new("kubectl").arg("kustomize").arg(directory.path()).output();
    let output = output.context("kubectl 1.27 or newer is needed on PATH")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.split("\n---\n").map(str::to_owned).collect())
}

fn kind(object: &str) -> &str {
    object.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap_or_default()
}

/// Fails if an object is not for this cluster. Returns whether there are rights.
fn check(objects: &[String], place: Place) -> Result<bool> {
    let mut rights = false;
    for object in objects {
        let kind = kind(object);
        let is_right = kind.ends_with("Role") || kind.ends_with("Binding");
        rights |= is_right;
        let fits = match place {
            // Whoever is bound there must exist there.
            Place::Home => !kind.ends_with("Binding") || object.contains("\n- kind: ServiceAccount\n"),
            Place::Host => !is_right && kind != "FlowSchema",
            Place::Tenant => (is_right || kind == "FlowSchema") && !object.contains("kind: ServiceAccount"),
        };
        ensure!(fits, "not for {place:?}: {object}");
    }
    Ok(rights)
}

async fn rights_are_for_the_cluster_that_is_collected() -> Result<()> {
    let mut bases: Vec<_> = overlays()?.into_iter().map(|name| format!("overlays/{name}")).collect();
    bases.push("tenant".to_owned());
    let mut components = vec![String::new()];
    for component in std::fs::read_dir(repository("deploy/components"))? {
        components.push(component?.file_name().to_string_lossy().into_owned());
    }
    for base in &bases {
        let place = match &**base {
            "overlays/small" => Place::Host,
            "tenant" => Place::Tenant,
            _ => Place::Home,
        };
        for component in &components {
            let of_nodes = |name: &str| name.contains("node");
            // It has the component already, or is another workload.
            let is_twice = base.ends_with(&**component)
                || (base.ends_with("protected") && component == "prometheus-operator");
            if !component.is_empty() && (is_twice || of_nodes(base) != of_nodes(component)) {
                continue;
            }
            let what = || format!("{base} with {component:?}");
            let chosen: Vec<&str> = Some(&**component).filter(|name| !name.is_empty()).into_iter().collect();
            if place != Place::Home && AT_HOME.contains(&&**component) {
                ensure!(
                    rendered(base, &chosen).and_then(|objects| check(&objects, place)).is_err(),
                    "{} fits",
                    what()
                );
                continue;
            }
            if place == Place::Tenant && component == "prometheus-operator" {
                continue;
            }
            let objects = rendered(base, &chosen).with_context(what)?;
            let rights = check(&objects, place).with_context(what)?;
            ensure!(rights == (place != Place::Host), "{}: rights: {rights}", what());
            // The flag and the rights for it go to different clusters.
            let has = |word: &str| objects.iter().any(|object| object.contains(word));
            let finishes = component == "finish-namespaces";
            ensure!(has("- --finish-namespaces") == (finishes && place != Place::Tenant), "{}", what());
            ensure!(has("- deletecollection") == (finishes && place != Place::Host), "{}", what());
        }
    }
    Ok(())
}
