//! Reviews that a test makes itself: it sees each write, and denies, changes or delays it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::api::ApiResource;
use kube_gc_apiserver::guards::{Admission, Denial, Operation, Review, Verdict};
use kube_gc_apiserver::resources::ResourceName;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Caller, NAME, Webhook};
use crate::cluster::{Cluster, Ns, Obj, collection, poll};
use crate::{DEADLINE, lock};

/// The object whose writes show that a webhook is in effect.
const PROBE: &str = "kube-gc-test-probe";
/// The label of the namespaces of which a webhook is told.
const REVIEWED: &str = "kube-gc-test/reviewed";

/// Which webhooks are asked, and about which writes.
#[derive(Clone, Copy, Debug)]
pub struct Hook<'a> {
    /// Whether it may change objects.
    pub mutating: bool,
    /// The type.
    pub resource: &'a ApiResource,
    /// Some of `CREATE`, `UPDATE` and `DELETE`.
    pub operations: &'a [&'static str],
}

/// A write that the API server asks about.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// The object to be written; of a deletion, the stored one. At a creation, a validating webhook
    /// sees the uid. A mutating one sees it only on the embedded server.
    pub object: Value,
}

impl Asked {
    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// What the test decides about a write.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It takes effect.
    Allow,
    /// It does not. The name of the webhook is filled in.
    Deny(Denial),
    /// This object, which has at least the same top-level fields, is written instead. Only for
    /// mutating webhooks.
    Mutate(Value),
}

type Judge = dyn Fn(Asked) -> BoxFuture<'static, Decision> + Send + Sync;

/// A registered webhook.
pub(super) struct Registered {
    mutating: bool,
    resource: ResourceName,
    namespace: String,
    operations: Vec<&'static str>,
    judge: Box<Judge>,
    is_in_effect: AtomicBool,
}

/// The registered webhooks, by the number in their path.
pub(super) type Hooks = Mutex<Vec<Arc<Registered>>>;

impl Registered {
    async fn decide(&self, operation: &'static str, object: Value) -> Decision {
        if object["metadata"]["name"] == PROBE {
            self.is_in_effect.store(true, Ordering::SeqCst);
            return Decision::Allow;
        }
        (self.judge)(Asked { operation, object }).await
    }

    fn covers(&self, review: &Review<'_>) -> bool {
        review.resource == self.resource
            && review.subresource.is_none()
            && review.object.key().namespace.as_deref() == Some(&*self.namespace)
            && self.operations.contains(&name_of(review.operation))
    }

    /// The response to a real server.
    pub(super) async fn respond(&self, request: &Value) -> Result<Value> {
        let asked = request["operation"].as_str().unwrap_or_default();
        let operation = self.operations.iter().find(|operation| **operation == asked);
        let operation = operation.with_context(|| format!("{asked} is not registered"))?;
        let object = if *operation == "DELETE" { &request["oldObject"] } else { &request["object"] };
        let mut response = json!({ "uid": request["uid"], "allowed": true });
        match self.decide(operation, object.clone()).await {
            Decision::Allow => {}
            Decision::Deny(Denial { webhook: _, code, reason, message, details }) => {
                response["allowed"] = json!(false);
                response["status"] = json!({
                    "status": "Failure", "code": code, "reason": reason, "message": message, "details": details,
                });
            }
            Decision::Mutate(new) => {
                let fields = new.as_object().into_iter().flatten();
                let patch = fields.map(|(field, value)| {
                    let path = format!("/{field}");
                    json!({ "op": "add", "path": path, "value": value })
                });
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(STANDARD.encode(json!(patch.collect::<Vec<_>>()).to_string()));
            }
        }
        Ok(response)
    }
}

impl Webhook {
    /// Lets the test decide about writes in a namespace. Returns the configuration of the webhook
    /// when the server applies it.
    ///
    /// At each write, the server calls `judge` and waits for its future, which may send requests
    /// itself and may wait for a [`Gate`], up to 30 seconds.
    pub async fn review<J, D>(&self, cluster: &Cluster, ns: &Ns, hook: Hook<'_>, judge: J) -> Result<Obj>
    where
        J: Fn(Asked) -> D + Send + Sync + 'static,
        D: Future<Output = Decision> + Send + 'static,
    {
        let Hook { mutating, resource, operations } = hook;
        let registered = Arc::new(Registered {
            mutating,
            resource: ResourceName::new(&resource.group, &resource.plural),
            namespace: ns.name().to_owned(),
            operations: operations.to_vec(),
            judge: Box::new(move |asked| judge(asked).boxed()),
            is_in_effect: AtomicBool::new(false),
        });
        let number = {
            let mut hooks = lock(&self.hooks);
            hooks.push(Arc::clone(&registered));
            hooks.len() - 1
        };
        if let Caller::Guard(embedded) = &self.caller {
            let hooks = Arc::clone(&self.hooks);
            embedded.admit_by(Some(Admission::new(move |review| ask(&hooks, review))));
        }
        let configuration = self.configure(cluster, ns, hook, number).await?;
        let probe = ns.object(resource, PROBE).create().await?;
        let mut new = ns.object(resource, PROBE).body().clone();
        let in_namespace = collection(resource, Some(ns.name()));
        poll("the webhook to be in effect", async || {
            for operation in operations {
                let (method, path, body) = match *operation {
                    "CREATE" => ("POST", in_namespace.clone(), Some(&new)),
                    "DELETE" => ("DELETE", probe.path(), None),
                    _ => {
                        new["metadata"]["labels"] = json!({ "probe": "probe" });
                        ("PATCH", probe.path(), Some(&new))
                    }
                };
                // A creation fails in any case, because the name is taken.
                let merge = (method == "PATCH").then_some("application/merge-patch+json");
                let _ = cluster.send(method, &format!("{path}?dryRun=All"), merge, body).await;
            }
            Ok(registered.is_in_effect.load(Ordering::SeqCst))
        })
        .await?;
        cluster.delete(&probe, crate::Policy::Background).await?;
        Ok(configuration)
    }

    async fn configure(&self, cluster: &Cluster, ns: &Ns, hook: Hook<'_>, number: usize) -> Result<Obj> {
        let Hook { mutating, resource, operations } = hook;
        cluster.set_label(ns.as_object(), REVIEWED, ns.name()).await?;
        let mut client_config = self.config.clone();
        let url = client_config["url"].as_str().unwrap_or_default();
        client_config["url"] = json!(format!("{url}{number}"));
        let webhooks = json!([{
            "name": NAME,
            "clientConfig": client_config,
            "rules": [{
                "apiGroups": [resource.group], "apiVersions": ["*"], "resources": [resource.plural],
                "operations": operations, "scope": "*",
            }],
            "namespaceSelector": { "matchLabels": { REVIEWED: ns.name() } },
            "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
        }]);
        let name = format!("{}-{number}", ns.name());
        let configuration = if mutating {
            cluster.of::<k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration>(name)
        } else {
            cluster.of::<k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration>(name)
        };
        configuration.field("webhooks", webhooks).create().await
    }
}

/// The question of the embedded server: first to mutating webhooks, then to validating ones.
fn ask(hooks: &Hooks, review: &Review<'_>) -> Verdict {
    let mut asked = lock(hooks).clone();
    asked.retain(|hook| hook.covers(review));
    if asked.is_empty() {
        return Verdict::Allow;
    }
    asked.sort_by_key(|hook| !hook.mutating);
    let operation = name_of(review.operation);
    let mut object = review.new.cloned().unwrap_or_else(|| review.object.to_value());
    let decided = async move {
        let mut verdict = Verdict::Allow;
        for hook in asked {
            match hook.decide(operation, object.clone()).await {
                Decision::Allow => {}
                Decision::Deny(denial) => return Denial { webhook: NAME.to_owned(), ..denial }.into(),
                Decision::Mutate(new) => {
                    object = new;
                    verdict = Verdict::Mutate(object.clone());
                }
            }
        }
        verdict
    };
    Verdict::Wait(decided.boxed())
}

fn name_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    }
}

/// Holds back what comes to it, until the test opens it. Clones share it.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    open: bool,
}

impl Gate {
    /// A gate that is not open yet.
    pub fn closed() -> Self {
        Self(watch::Sender::new(State::default()))
    }

    /// Passes the gate when it is open.
    pub async fn pass(&self) {
        self.0.send_modify(|state| state.arrived += 1);
        // The sender lives as long as this gate.
        let _ = self.0.subscribe().wait_for(|state| state.open).await;
    }

    /// Waits until this many have come to the gate.
    pub async fn arrived(&self, count: usize) -> Result<()> {
        let mut states = self.0.subscribe();
        let arrived = timeout(DEADLINE, states.wait_for(|state| state.arrived >= count));
        arrived.await.with_context(|| format!("waited {DEADLINE:?} for {count} to come to the gate"))??;
        Ok(())
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.0.send_modify(|state| state.open = true);
    }
}
