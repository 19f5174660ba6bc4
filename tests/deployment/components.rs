//! The components, and the overlays for special places.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::http::client::{Client, Pair};
use kube_gc_testkit::Policy;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::deployment::{Installation, NAME, Pod, USER, overlays, plane, repository};

kube_gc_testkit::scenarios! {
    the_component_grants_what_finishing_namespaces_needs,
    rights_are_for_the_cluster_that_is_collected,
    the_protected_overlay_shows_metrics_to_authorized_users_and_needs_its_rules,
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

/// Whether the collector may change objects. (Its Lease and its reviews have roles of their own.)
fn writes(objects: &[String]) -> bool {
    let is_role = |object: &&String| kind(object) == "ClusterRole" && object.contains("\n  name: kube-gc\n");
    let rules = objects.iter().filter(is_role).flat_map(|role| role.lines());
    let mut verbs = rules.filter_map(|line| line.strip_prefix("  - "));
    verbs.any(|verb| ["create", "delete", "deletecollection", "patch", "update"].contains(&verb))
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
            let mut orders = vec![chosen];
            if !component.is_empty()
                && component != "dry-run"
                && base != "overlays/dry-run"
                && !of_nodes(base)
            {
                orders.extend([vec!["dry-run", component], vec![component, "dry-run"]]);
            }
            for chosen in orders {
                let what = || format!("{base} with {chosen:?}");
                let objects = rendered(base, &chosen).with_context(what)?;
                let rights = check(&objects, place).with_context(what)?;
                ensure!(rights == (place != Place::Host), "{}: rights: {rights}", what());
                // The flag and the rights for it go to different clusters.
                let has = |word: &str| objects.iter().any(|object| object.contains(word));
                let is_dry = base == "overlays/dry-run" || chosen.contains(&"dry-run");
                let finishes = component == "finish-namespaces";
                ensure!(has("- --finish-namespaces") == (finishes && place != Place::Tenant), "{}", what());
                let empties = finishes && place != Place::Host && !is_dry;
                ensure!(has("- deletecollection") == empties, "{}", what());
                ensure!(!is_dry || !writes(&objects), "{}: a dry run may write", what());
            }
        }
    }
    Ok(())
}

/// What the overlay lets the collector ask for.
const REVIEWS: [(&str, &str); 2] =
    [("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")];
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MERGE_PATCH: Option<&str> = Some("application/merge-patch+json");

async fn the_protected_overlay_shows_metrics_to_authorized_users_and_needs_its_rules() -> Result<()> {
    let installation = Installation::of(plane()?, "protected").await?;
    let cluster = &installation.cluster;
    let pair = Pair::new()?;
    let secrets = format!("/api/v1/namespaces/{NAME}/secrets");
    cluster.send("POST", &secrets, None, Some(&pair.secret("kube-gc-tls"))).await?;
    for account in ["prometheus", "other"] {
        installation.account(account).await?;
    }
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "kube-gc-metrics-reader" },
        "roleRef":
            { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kube-gc-metrics-reader" },
        "subjects": [{ "kind": "ServiceAccount", "name": "prometheus", "namespace": NAME }],
    });
    cluster.send("POST", &format!("{RBAC}/clusterrolebindings"), None, Some(&binding)).await?;
    let get = json!({ "nonResourceAttributes": { "path": "/metrics", "verb": "get" } });
    let reader = format!("system:serviceaccount:{NAME}:prometheus");
    poll("the role to take effect", async || installation.allows(&reader, &get).await).await?;
    ensure!(!installation.allows(USER, &get).await?, "it grants itself what it has not been granted");

    let collector = Pod::of(&installation).await?.start().await?;
    let (client, address) = (Client::trusting(&[&pair])?, collector.health_address());
    poll("readiness", async || Ok(client.get(address, "/readyz", None).await?.status == 200)).await?;
    let prometheus = installation.token_of("prometheus").await?;
    let metrics = client.get(address, "/metrics", Some(&prometheus)).await?;
    ensure!(metrics.status == 200 && metrics.body.contains("kube_gc_build_info"), "{metrics:?}");
    ensure!(client.get(address, "/metrics", None).await?.status == 401);

    // Without its rules, no client can be admitted.
    let role = format!("{RBAC}/clusterroles/kube-gc-reviews");
    let rules = installation.get(&role).await?["rules"].take();
    for (group, resource) in REVIEWS {
        ensure!(rules.as_array().is_some_and(|rules| rules.iter().any(|it| it["resources"][0] == resource)));
        ensure!(installation.may("create", group, resource).await?, "it may not ask for {resource}");
    }
    cluster.send("PATCH", &role, MERGE_PATCH, Some(&json!({ "rules": [] }))).await?;
    let (group, resource) = REVIEWS[0];
    poll("the role to take effect", async || Ok(!installation.may("create", group, resource).await?)).await?;
    // A token that has not been checked yet.
    let other = installation.token_of("other").await?;
    let refused = client.get(address, "/metrics", Some(&other)).await?;
    let words = format!("{resource}.{group} is forbidden");
    ensure!(refused.status == 503 && refused.body.contains(&words), "{refused:?}");
    cluster.send("PATCH", &role, MERGE_PATCH, Some(&json!({ "rules": rules }))).await?;
    let other = installation.token_of("other").await?;
    poll("a forbidden user to get 403", async || {
        Ok(client.get(address, "/metrics", Some(&other)).await?.status == 403)
    })
    .await?;
    collector.stop().await
}
