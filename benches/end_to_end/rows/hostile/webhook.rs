//! A validating webhook that reviews the deletions of one namespace and never answers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use http::Method;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::figure::Contestant;
use crate::http::Call;
use crate::objects::{config_map, config_maps, make_all};
use crate::observe::{DEADLINE, Watch};
use crate::row::Measured;
use crate::stage::Stage;
use crate::statistics::Spread;

/// The interval between two garbage objects in another namespace.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the API server waits for the webhook: its default.
const TIMEOUT_SECONDS: u32 = 10;

/// How many garbage objects the webhook blocks: 500 at the usual size.
const fn held(objects: usize) -> usize {
    objects / 8
}

/// How many garbage objects another namespace gets, one after another: 60 at the usual size.
const fn others(objects: usize) -> usize {
    objects * 3 / 200
}

/// Measures one collector: how long garbage in another namespace exists.
pub async fn measure(stage: &Stage, contestant: Contestant, namespace: &str) -> Result<Measured> {
    let (held, free) = (format!("{namespace}-held"), format!("{namespace}-free"));
    make_labelled_namespace(stage, &held, "hangs").await?;
    make_labelled_namespace(stage, &free, "answers").await?;
    let webhook = Silent::start().await?;
    webhook.guard(stage, &held).await?;
    let collector = stage.collector_at_rest(contestant, namespace).await?;

    let count = self::held(stage.scale.objects);
    let bodies = (0..count).map(|number| garbage(&format!("held-{number}")));
    make_all(&stage.client, bodies.map(|body| (held.clone(), body))).await?;
    let mut watch = Watch::namespace(&stage.client, &free).await?;
    let created = RefCell::new(HashMap::new());
    let count = others(stage.scale.objects);
    let create = async {
        for number in 0..count {
            let name = format!("free-{number}");
            created.borrow_mut().insert(name.clone(), Instant::now());
            make_all(&stage.client, std::iter::once((free.clone(), garbage(&name)))).await?;
            sleep(PAUSE).await;
        }
        anyhow::Ok(())
    };
    let observe = async {
        let mut seconds = Vec::new();
        while seconds.len() < count {
            let event = watch.next().await?;
            if event.kind == "DELETED" {
                let since = created.borrow_mut().remove(&event.name);
                let since: Instant = since.context("an object that was not created")?;
                seconds.push((event.at - since).as_secs_f64());
            }
        }
        anyhow::Ok(seconds)
    };
    let ((), seconds) = futures::try_join!(create, observe)?;
    drop(collector);
    let spread = Spread::of(&seconds).context("nothing was created")?;
    Ok(vec![("webhook_median", spread.median), ("webhook_worst", spread.max)])
}

/// An object whose only owner never existed.
fn garbage(name: &str) -> Value {
    let owners = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "never",
        "uid": "00000000-0000-4000-8000-000000000000",
    }]);
    config_map(name, Some(&owners))
}

async fn make_labelled_namespace(stage: &Stage, name: &str, webhook: &str) -> Result<()> {
    let metadata = json!({"name": name, "labels": {"webhook": webhook}});
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    stage.client.post("/api/v1/namespaces", &body).await?;
    Ok(())
}

/// A webhook that accepts connections and never answers.
struct Silent {
    url: String,
    asked: watch::Receiver<usize>,
    accepting: JoinHandle<()>,
}

impl Silent {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/", listener.local_addr()?);
        let (sender, asked) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.push(stream);
                sender.send_replace(open.len());
            }
        });
        Ok(Self { url, asked, accepting })
    }

    /// Configures the webhook for deletions of a namespace's ConfigMaps, and waits until it takes
    /// effect.
    async fn guard(&self, stage: &Stage, namespace: &str) -> Result<()> {
        let certificates = ByteString(stage.certificates()?);
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [{
                "name": "hangs.example.com",
                "clientConfig": {"url": self.url, "caBundle": certificates},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                    "operations": ["DELETE"],
                }],
                "namespaceSelector": {"matchLabels": {"webhook": "hangs"}},
                "timeoutSeconds": TIMEOUT_SECONDS, "failurePolicy": "Fail",
                "admissionReviewVersions": ["v1"], "sideEffects": "None",
            }],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        stage.client.post(path, &configuration).await?;
        let mut asked = self.asked.clone();
        let begun = Instant::now();
        while *asked.borrow_and_update() == 0 {
            ensure!(begun.elapsed() < DEADLINE, "the API server does not ask the webhook");
            make_all(&stage.client, std::iter::once((namespace.to_owned(), config_map("probe", None))))
                .await?;
            let call =
                Call { method: Method::DELETE, ..Call::get(format!("{}/probe", config_maps(namespace))) };
            // Either the object is deleted, or the webhook is called and blocks the deletion.
            tokio::select! {
                answer = stage.client.send(call) => { answer?; }
                _ = asked.changed() => {}
            }
        }
        Ok(())
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
