//! Pods, as a real API server tells them.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube_gc_cri::Rpc;
use kube_gc_cri::messages::ContainerState;
use kube_gc_cri::server::{CriServer, NewContainer, NewImage, NewSandbox, World};
use kube_gc_testkit::ControlPlane;
use serde_json::{Value, json};

use crate::measurable;
use crate::process::{Ended, Place, ended};

const NODE: &str = "node-1";
const NAMESPACE: &str = "node-pods";
/// The uid of a static pod is a hash.
const STATIC: &str = "0123456789abcdef0123456789abcdef";

/// A node and its API server.
struct Setup {
    plane: ControlPlane,
    pods: Api<Pod>,
    server: CriServer,
    image: String,
    place: Place,
}

impl Setup {
    async fn new() -> Result<Self> {
        let plane = ControlPlane::start()?;
        let client = plane.client().await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = json!({ "metadata": { "name": NAMESPACE } });
        namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        // No controller makes it here, and pods need one.
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
        let account = json!({ "metadata": { "name": "default" } });
        accounts.create(&PostParams::default(), &serde_json::from_value(account)?).await?;
        let mut world = World::default();
        let image = world.add_image(NewImage { tags: vec!["app:1".to_owned()], ..NewImage::default() });
        let server = CriServer::start(measurable(), world)?;
        let place = Place::new(server.endpoint())?;
        Ok(Self { plane, pods: Api::namespaced(client, NAMESPACE), server, image, place })
    }

    /// Creates a pod, and returns its uid.
    async fn create(&self, name: &str, node: &str, annotations: Value) -> Result<String> {
        let pod = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": {
                "nodeName": node,
                "automountServiceAccountToken": false,
                "containers": [{ "name": "app", "image": "app:1" }],
            },
        });
        let pod = self.pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        pod.metadata.uid.context("no uid")
    }

    /// A sandbox of a pod with two dead containers. Returns their ids.
    fn run(&self, name: &str, uid: &str, source: &str, ready: bool) -> Vec<String> {
        let annotations = [("kubernetes.io/config.source".to_owned(), source.to_owned())].into();
        let new = NewSandbox { stopped: !ready, annotations, ..NewSandbox::of(NAMESPACE, name, uid) };
        self.server.world(|world| {
            let sandbox = world.add_sandbox(new);
            let container = |attempt: u32| NewContainer {
                sandbox: sandbox.clone(),
                name: "app".to_owned(),
                attempt,
                image: self.image.clone(),
                state: ContainerState::ContainerExited,
                created_at: 1 + i64::from(attempt),
                ..NewContainer::default()
            };
            (0..2).map(|attempt| world.add_container(container(attempt))).collect()
        })
    }

    /// Runs `kube-gc node` with the API server.
    async fn node(&self, arguments: &[&str], name: &str) -> Result<Ended> {
        let mut command = self.place.command(arguments);
        command.env("KUBE_GC__NODE__PODS", "api").args(["--node", name, "--kubeconfig"]);
        command.arg(self.plane.kubeconfig());
        ended(command).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_real_api_server_says_of_pods_decides() -> Result<()> {
    let setup = Setup::new().await?;
    let living = setup.create("living", NODE, json!({})).await?;
    let of_living = setup.run("living", &living, "api", true);
    let mirror = json!({ "kubernetes.io/config.mirror": STATIC, "kubernetes.io/config.source": "file" });
    setup.create("static", NODE, mirror).await?;
    let of_static = setup.run("static", STATIC, "file", true);
    let elsewhere = setup.create("elsewhere", "node-2", json!({})).await?;
    let of_elsewhere = setup.run("elsewhere", &elsewhere, "api", false);
    let deleted = setup.create("deleted", NODE, json!({})).await?;
    setup.pods.delete("deleted", &DeleteParams::default().grace_period(0)).await?;
    let of_deleted = setup.run("deleted", &deleted, "api", false);
    let replaced = setup.create("replaced", NODE, json!({})).await?;
    setup.pods.delete("replaced", &DeleteParams::default().grace_period(0)).await?;
    setup.create("replaced", NODE, json!({})).await?;
    let of_replaced = setup.run("replaced", &replaced, "api", false);

    // With the name of another node, too few of the ready sandboxes are known.
    let wrong = setup.node(&["plan", "-o", "json"], "node-9").await?.json()?;
    ensure!(wrong["wrongNode"] == true, "{wrong:#}");
    ensure!(rule(&wrong, &of_deleted[1]) != Some("C3"), "{wrong:#}");

    let plan = setup.node(&["plan", "-o", "json"], NODE).await?.json()?;
    ensure!(plan["wrongNode"] == false && plan["notes"].as_array().is_some(), "{plan:#}");
    for (containers, rules) in [
        (&of_living, ["C5", "C5"]),
        (&of_static, ["C5", "C5"]),
        (&of_elsewhere, ["C5", "C5"]),
        (&of_deleted, ["C3", "C3"]),
        (&of_replaced, ["C3", "C3"]),
    ] {
        let found: Vec<_> = containers.iter().map(|id| rule(&plan, id).unwrap_or_default()).collect();
        ensure!(found == rules, "{containers:?}: {found:?}");
    }
    setup.node(&["once"], NODE).await?.expect(0, &[])?;
    // The newest dead container of each pod that is not gone is left.
    let mut left: Vec<String> =
        setup.server.world(|world| world.containers().map(|c| c.id.clone()).collect());
    left.sort();
    let mut expected = [&of_living, &of_static, &of_elsewhere].map(|ids| ids[1].clone()).to_vec();
    expected.sort();
    ensure!(left == expected, "{left:?}");
    let sandboxes = setup.server.calls(Rpc::RemovePodSandbox);
    ensure!(sandboxes.len() == 2, "{sandboxes:?}");
    Ok(())
}

/// The rule that decided about an item.
fn rule<'a>(plan: &'a Value, id: &str) -> Option<&'a str> {
    plan["entries"].as_array()?.iter().find(|entry| entry["id"] == id)?["rule"].as_str()
}
