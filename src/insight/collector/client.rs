//! Questions to a collector.

use std::fmt;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::connection::CollectorError;
use super::endpoint::Endpoint;
use super::events::Events;
use kube_gc_core::object::{GroupResource, Namespace, PropagationPolicy, Uid};
use kube_gc_core::text::bounded;
use kube_gc_insight::{Explanation, Neighbourhood, Plan, StuckReport, Unseen, join};

/// The most objects of one page.
const PAGE: usize = 200;
/// The most dependents of a type of which a page can show several levels.
const MOST_OF_A_TYPE: usize = 200;
/// The most objects that the page of a plan lists.
const MOST_PLANNED: usize = 100_000;

/// A collector that has answered.
#[derive(Clone, Debug)]
pub struct Collector {
    endpoint: Endpoint,
    is_standby: bool,
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

/// A page: an answer, and what the collector adds to it in the same JSON object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page<A, R = Rest> {
    pub answer: A,
    pub rest: R,
}

/// What a collector adds to an answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Rest {
    /// What it could not look at.
    pub incomplete: Vec<Unseen>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// What a collector adds to an explanation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Record {
    /// What it could not look at.
    pub incomplete: Vec<Unseen>,
    /// What it has decided.
    pub decisions: Vec<Decision>,
    /// What keeps it from finishing with the object.
    pub stuck: Option<Stuck>,
}

/// What a neighbourhood shows.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// How far up.
    pub up: usize,
    /// How far down.
    pub down: usize,
    /// The most dependents of each parent and type.
    pub most: usize,
    /// The most objects.
    pub limit: usize,
}

/// A decision of the collector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
pub struct Decision {
    /// When it was carried out.
    pub at: String,
    /// What was to be done.
    pub action: String,
    /// What came of it.
    pub outcome: String,
    /// The server's error.
    pub error: Option<String>,
}

/// What keeps the collector from finishing with an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(serialize = "camelCase"))]
pub struct Stuck {
    /// The reason, as in the metrics.
    pub reason: String,
    /// Since when.
    pub since: String,
    /// Failed attempts in a row.
    pub attempts: Option<u32>,
    /// The time until the next attempt.
    pub next_retry_seconds: Option<f64>,
    /// The last error, or what it waits for.
    pub message: String,
    /// What a person can do.
    pub hint: String,
}

impl<A: DeserializeOwned, R: DeserializeOwned> Page<A, R> {
    /// Reads a page. Each part ignores the fields of the other one: to read both at once, by
    /// `#[serde(flatten)]`, every type of every answer is compiled once more.
    pub(super) fn read(json: &[u8]) -> serde_json::Result<Self> {
        Ok(Self { answer: serde_json::from_slice(json)?, rest: serde_json::from_slice(json)? })
    }
}

impl Collector {
    /// Asks a collector whether it is one.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or is none.
    pub async fn at(endpoint: Endpoint) -> Result<Self, CollectorError> {
        let at = endpoint.to_string();
        let Some(body) = endpoint.get("/debug/summary").await? else {
            // Older ones have other pages.
            let monitors = endpoint.get("/debug/monitors").await?;
            let is_kube_gc = monitors.is_some_and(|body| serde_json::from_slice::<Vec<Value>>(&body).is_ok());
            return Err(if is_kube_gc {
                CollectorError::OtherVersion { at, why: "it has no page /debug/summary".to_owned() }
            } else {
                CollectorError::NotKubeGc { at, why: "it has no page /debug/summary".to_owned() }
            });
        };
        match serde_json::from_slice::<Value>(&body) {
            Ok(summary) if summary.get("decisions_total").is_some() => {
                let is_standby = summary.get("role").and_then(Value::as_str) == Some("standby");
                Ok(Self { endpoint, is_standby })
            }
            _ => {
                Err(CollectorError::NotKubeGc { at, why: "its /debug/summary is something else".to_owned() })
            }
        }
    }

    /// Whether another replica works.
    #[must_use]
    pub const fn is_standby(&self) -> bool {
        self.is_standby
    }

    /// What belongs to an object, from as many pages as it takes. `None` if the graph does not have
    /// the object.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn neighbourhood(
        &self,
        uid: &Uid,
        resource: Option<&GroupResource>,
        reach: Reach,
    ) -> Result<Option<Page<Neighbourhood>>, CollectorError> {
        let question = question("/debug/neighbourhood", uid, resource) + &reach.parameters();
        let mut whole: Option<Page<Neighbourhood>> = None;
        let mut after = String::new();
        loop {
            let page: Option<Page<Neighbourhood>> = self.page(&format!("{question}{after}")).await?;
            let Some(page) = page else { return Ok(whole) };
            let next = page.rest.next.clone();
            let all = match &mut whole {
                None => whole.insert(page),
                Some(all) => {
                    join(&mut all.answer, page.answer);
                    let incomplete = &mut all.rest.incomplete;
                    incomplete.extend(page.rest.incomplete);
                    incomplete.sort();
                    incomplete.dedup();
                    all
                }
            };
            match next {
                Some(next) if all.answer.nodes.len() < reach.limit => after = format!("&after={next}"),
                Some(_) | None => return Ok(whole),
            }
        }
    }

    /// Why an object is still there. `None` if the graph does not have it.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn explain(
        &self,
        uid: &Uid,
        resource: Option<&GroupResource>,
    ) -> Result<Option<Page<Explanation, Record>>, CollectorError> {
        self.page(&question("/debug/explain", uid, resource)).await
    }

    /// What happens to every object if one is deleted, and what the brake of the collector does.
    /// Lists at most so many objects. `None` if the graph does not have the object.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn plan(
        &self,
        uid: &Uid,
        resource: Option<&GroupResource>,
        policy: PropagationPolicy,
        listed: usize,
    ) -> Result<Option<Page<Plan>>, CollectorError> {
        let policy = match policy {
            PropagationPolicy::Background => "background",
            PropagationPolicy::Foreground => "foreground",
            PropagationPolicy::Orphan => "orphan",
        };
        let limit = listed.clamp(1, MOST_PLANNED);
        self.page(&format!("{}&policy={policy}&limit={limit}", question("/debug/plan", uid, resource))).await
    }

    /// What was deleted longer ago than this, by what holds it.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn causes(
        &self,
        namespace: Option<&Namespace>,
        older: Duration,
    ) -> Result<Page<StuckReport>, CollectorError> {
        let namespace = namespace.map(|namespace| format!("&namespace={}", encoded(namespace.as_str())));
        let path = format!("/debug/stuck/causes?older={}{}", older.as_secs(), namespace.unwrap_or_default());
        let missing = || CollectorError::OtherVersion {
            at: self.endpoint.to_string(),
            why: "it has no page /debug/stuck/causes".to_owned(),
        };
        self.page(&path).await?.ok_or_else(missing)
    }

    /// What belongs to an object, now and whenever it changes.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn follow(
        &self,
        uid: &Uid,
        resource: Option<&GroupResource>,
        reach: Reach,
    ) -> Result<Events<Neighbourhood>, CollectorError> {
        let question = question("/debug/stream", uid, resource) + &reach.parameters();
        let at = self.endpoint.to_string();
        let missing = || CollectorError::OtherVersion { at, why: "it has no page /debug/stream".to_owned() };
        let answer = self.endpoint.ask(&question).await?.ok_or_else(missing)?;
        let is_stream = answer
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if !is_stream {
            let at = self.endpoint.to_string();
            return Err(CollectorError::NotKubeGc { at, why: "its /debug/stream is no stream".to_owned() });
        }
        Ok(Events::new(self.endpoint.clone(), answer.into_body(), "neighbourhood"))
    }

    async fn page<A: DeserializeOwned, R: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<Page<A, R>>, CollectorError> {
        let Some(body) = self.endpoint.get(path).await? else { return Ok(None) };
        Page::read(&body).map(Some).map_err(|error| CollectorError::OtherVersion {
            at: self.endpoint.to_string(),
            why: bounded(error),
        })
    }
}

impl Reach {
    /// As parameters. A collector shows many dependents of a type only for one level.
    fn parameters(self) -> String {
        let Self { up, down, most, limit } = self;
        let most = if down > 1 { most.min(MOST_OF_A_TYPE) } else { most };
        format!("&up={up}&down={down}&max={most}&limit={}", limit.min(PAGE))
    }
}

/// The beginning of a question about an object.
fn question(page: &str, uid: &Uid, resource: Option<&GroupResource>) -> String {
    let resource = resource.map(|resource| format!("&resource={}", encoded(&resource.to_string())));
    format!("{page}?uid={}{}", encoded(&uid.to_string()), resource.unwrap_or_default())
}

/// A text in a query: what is not surely harmless is encoded.
fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_uid_is_one_parameter() {
        let uid = Uid::parse("a&limit=1#?%/\u{e9} b").unwrap();
        let resource = GroupResource::new("batch", "jobs");
        assert_eq!(
            question("/debug/explain", &uid, Some(&resource)),
            "/debug/explain?uid=a%26limit%3D1%23%3F%25%2F%C3%A9%20b&resource=jobs.batch"
        );
    }

    #[test]
    fn what_a_collector_says_is_understood() {
        let page = r#"{"object":{"apiVersion":"v1","kind":"Pod","resource":"pods","namespace":"a","name":"b","uid":"c"},
            "outcome":"waits","verdict":"v","deleted":null,"references":[{"owner":{"apiVersion":"v1","kind":"Pod",
            "resource":null,"namespace":null,"name":"o","uid":"u"},"controller":true,"blockOwnerDeletion":false,
            "class":"absent","evidence":{"kind":"otherUid","uid":"x"}}],"referenceCount":1,"finalizers":[{"name":"orphan",
            "remover":"the garbage collector","when":"w","setBy":{"manager":"m","time":null},"apiIsServed":null}],
            "chain":{"links":[],"leaves":[],"truncated":false},"namespace":null,"advice":[],"dependsOnUnseen":false,
            "incomplete":[],"decisions":[{"at":"t","object":{},"action":"delete","policy":null,"finalizer":null,
            "outcome":"denied","error":"403","owners":[],"owner":null}],"stuck":{"object":{},"reason":"denied",
            "since":"t","waiting_seconds":1.5,"attempts":2,"next_retry_seconds":0.5,"message":"m","hint":"h"}}"#;
        let page: Page<Explanation, Record> = Page::read(page.as_bytes()).unwrap();
        let Record { decisions, stuck, .. } = page.rest;
        assert_eq!((decisions[0].outcome.as_str(), stuck.unwrap().attempts), ("denied", Some(2)));
        assert_eq!(page.answer.finalizers[0].set_by.as_ref().unwrap().manager, "m");
    }

    /// An explanation also has a field `stuck`, which is something else.
    #[test]
    fn the_number_of_stuck_objects_is_understood() {
        let page = r#"{"groups":[],"stuck":2,"beingDeleted":3,"notRead":0,"incomplete":[]}"#;
        let page: Page<StuckReport> = Page::read(page.as_bytes()).unwrap();
        assert_eq!((page.answer.stuck, page.answer.being_deleted), (2, 3));
    }
}
