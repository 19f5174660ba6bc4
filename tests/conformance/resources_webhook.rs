//! Types whose conversion webhook fails and recovers.

use anyhow::Result;
use kube::api::ApiResource;
use serde_json::json;

use crate::conformance::outcome::Rest;
use crate::conformance::resources_broken::{Fallible, play};
use crate::conformance::stage::{MERGE_PATCH, Stage};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Cluster, Crd, Scope, Webhook, WebhookBehavior};

kube_gc_testkit::scenarios! {
    a_type_whose_conversion_fails_from_the_start_delays_no_other,
    a_type_whose_conversion_begins_to_fail_delays_no_other,
    a_type_whose_conversion_webhook_answers_wrongly_delays_no_other,
}

/// The error of the webhook.
const WORDS: &str = "no conversion today";

/// A type whose storage version is not the watched one, with a conversion webhook that the scenario
/// controls.
struct Converted {
    cluster: Cluster,
    widgets: Crd,
    webhook: Webhook,
    failure: WebhookBehavior,
}

impl Converted {
    async fn create(stage: &Stage, failure: WebhookBehavior) -> Result<Self> {
        let cluster = &stage.cluster;
        let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1beta1", "v1"]).await?;
        let webhook = Webhook::start(stage.plane).await?;
        let conversion = json!({
            "strategy": "Webhook",
            "webhook": { "clientConfig": webhook.client_config(), "conversionReviewVersions": ["v1"] },
        });
        let patch = json!({ "spec": { "conversion": conversion } });
        cluster.send("PATCH", &widgets.definition().path(), MERGE_PATCH, Some(&patch)).await?;
        Ok(Self { cluster: cluster.clone(), widgets, webhook, failure })
    }
}

impl Fallible for Converted {
    fn resource(&self) -> &ApiResource {
        self.widgets.resource()
    }

    async fn set(&self, works: bool) -> Result<()> {
        self.webhook.set_behavior(if works { WebhookBehavior::Accept } else { self.failure.clone() });
        if !works {
            self.webhook.ends_watches(self.widgets.resource());
        }
        let watched = self.widgets.resource_at("v1");
        poll("the API server to ask the webhook", async || {
            Ok(self.cluster.list(&watched, None).await.is_ok() == works)
        })
        .await
    }

    async fn remove(&self) -> Result<()> {
        self.widgets.remove().await
    }
}

/// Runs the scenario with a webhook that fails before or after the collector starts.
async fn converted(failure: WebhookBehavior, words: &str, broken_first: bool) -> Result<()> {
    let stage = Stage::set().await?;
    let widgets = Converted::create(&stage, failure).await?;
    play(&stage, &widgets, words, Rest::Parked, broken_first).await
}

/// The conversion webhook of a type fails when the collector starts (rule 2.14).
async fn a_type_whose_conversion_fails_from_the_start_delays_no_other() -> Result<()> {
    converted(WebhookBehavior::Reject(WORDS, None), WORDS, true).await
}

/// The conversion webhook of a type fails while the collector runs (rule 2.14). Nothing
/// but the webhook changes, so no event tells the collector when it works again.
async fn a_type_whose_conversion_begins_to_fail_delays_no_other() -> Result<()> {
    converted(WebhookBehavior::Reject(WORDS, None), WORDS, false).await
}

/// The configuration of the webhook itself is broken (rule 2.14).
async fn a_type_whose_conversion_webhook_answers_wrongly_delays_no_other() -> Result<()> {
    converted(WebhookBehavior::Fail, "conversion webhook", true).await
}
