//! `/debug/search`, `/debug/neighbourhood`, `/debug/explain` and `/debug/summary`: what people ask
//! about objects, and the collector at a glance.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{DecisionView, ObjectView, QueueCounts, StuckItem, parameters};
use crate::telemetry::Distribution;
use kube_gc_core::graph::SearchQuery;
use kube_gc_core::object::{GroupResource, Uid};
use kube_gc_insight::{Explanation, Neighbourhood, State, Unseen};

/// The default limit and the highest limit of a search.
const SEARCH_LIMITS: (usize, usize) = (50, 1000);
/// The most objects of a neighbourhood.
const MOST_NODES: usize = 200;
/// The most objects of all pages of a neighbourhood.
pub const MOST_PAGED: usize = 2000;
/// The least objects of a page after the first one: the object that was asked about, an object
/// of an earlier page and a new one.
const LEAST_OF_A_PAGE: usize = 3;
/// The most levels of a neighbourhood in each direction.
const MOST_LEVELS: usize = 64;
/// The most bytes of a search text. A name has 253, and a kind 63.
const LONGEST_TEXT: usize = 400;

/// The parameters of `/debug/search`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindQuery {
    /// What to look for.
    pub search: SearchQuery,
    /// The most objects to return.
    pub limit: usize,
}

impl FindQuery {
    /// Reads the parameters of a request.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        use parameters::{namespace, resource, set, unknown, word};
        let (mut text, mut of_namespace, mut of_resource, mut limit) = (None, None, None, None);
        for (name, value) in parameters {
            match name.as_str() {
                "q" => set(&mut text, &name, word(&name, &value).and_then(short))?,
                "namespace" => set(&mut of_namespace, &name, namespace(&value))?,
                "resource" => set(&mut of_resource, &name, resource(&value))?,
                "limit" => set(&mut limit, &name, number(&name, &value, 1, SEARCH_LIMITS.1))?,
                _ => return Err(unknown(&name)),
            }
        }
        let search = SearchQuery {
            text: text.unwrap_or_default(),
            namespace: of_namespace,
            resource: of_resource,
            ..SearchQuery::default()
        };
        Ok(Self { search, limit: limit.unwrap_or(SEARCH_LIMITS.0) })
    }
}

fn short(text: String) -> Result<String, String> {
    if text.len() > LONGEST_TEXT { Err(format!("q= is longer than {LONGEST_TEXT} bytes")) } else { Ok(text) }
}

fn number(name: &str, value: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{name}={value:?} is not a whole number from {least} to {most}"))
}

/// The parameters of `/debug/neighbourhood` and `/debug/explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectQuery {
    /// The object.
    pub uid: Uid,
    /// Its type, if several types show the uid.
    pub resource: Option<GroupResource>,
    /// How far up a neighbourhood goes.
    pub up: usize,
    /// How far down it goes.
    pub down: usize,
    /// The most dependents of each parent and type.
    pub max: usize,
    /// The most objects.
    pub limit: usize,
    /// How many objects earlier pages have shown.
    pub after: usize,
}

impl ObjectQuery {
    /// Reads the parameters of a request for an explanation.
    pub(super) fn read(parameters: Vec<(String, String)>) -> Result<Self, String> {
        Self::read_with(parameters, false)
    }

    /// Reads the parameters of a request for a neighbourhood.
    pub(super) fn read_neighbourhood(parameters: Vec<(String, String)>) -> Result<Self, String> {
        Self::read_with(parameters, true)
    }

    fn read_with(parameters: Vec<(String, String)>, with_reach: bool) -> Result<Self, String> {
        use parameters::{resource, set, unknown};
        let (mut uid, mut of_resource) = (None, None);
        let (mut up, mut down, mut max, mut limit, mut after) = (None, None, None, None, None);
        for (name, value) in parameters {
            match name.as_str() {
                "uid" => {
                    let parsed = Uid::parse(&value).ok_or_else(|| "uid= needs a uid".to_owned());
                    set(&mut uid, &name, parsed)?;
                }
                "resource" => set(&mut of_resource, &name, resource(&value))?,
                "up" if with_reach => set(&mut up, &name, number(&name, &value, 0, MOST_LEVELS))?,
                "down" if with_reach => set(&mut down, &name, number(&name, &value, 0, MOST_LEVELS))?,
                "max" if with_reach => set(&mut max, &name, number(&name, &value, 1, MOST_PAGED))?,
                "limit" if with_reach => set(&mut limit, &name, number(&name, &value, 1, MOST_NODES))?,
                "after" if with_reach => set(&mut after, &name, number(&name, &value, 1, MOST_PAGED))?,
                _ => return Err(unknown(&name)),
            }
        }
        let (down, max) = (down.unwrap_or(MOST_LEVELS), max.unwrap_or(20));
        if max > MOST_NODES && down > 1 {
            return Err(format!("max={max}: more than {MOST_NODES} need down=1"));
        }
        let limit = limit.unwrap_or(MOST_NODES);
        if after.is_some() && limit < LEAST_OF_A_PAGE {
            return Err(format!("limit={limit}: a page after the first one needs {LEAST_OF_A_PAGE}"));
        }
        Ok(Self {
            uid: uid.ok_or("uid= is missing")?,
            resource: of_resource,
            up: up.unwrap_or(MOST_LEVELS),
            down,
            max,
            limit,
            after: after.unwrap_or_default(),
        })
    }
}

/// The answer of `/debug/search`. The JSON fields are a public interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FoundPage {
    /// The objects, in no particular order.
    pub found: Vec<FoundObject>,
    /// Whether there are more.
    pub more: bool,
}

/// An object that a search has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundObject {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectView,
    /// The kind.
    pub kind: String,
    /// Its state.
    pub state: State,
}

/// The answer of `/debug/neighbourhood`: that of `kube-gc tree -o json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NeighbourhoodPage {
    /// Objects and references.
    #[serde(flatten)]
    pub shown: Neighbourhood,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// The parameter `after` of the next page, if there is one.
    pub next: Option<String>,
}

/// The answer of `/debug/explain`: that of `kube-gc explain -o json`, with what the collector did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationPage {
    /// The explanation.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// The last decisions about it, newest first.
    pub decisions: Vec<DecisionView>,
    /// What keeps the collector from finishing with it.
    pub stuck: Option<StuckItem>,
}

/// The answer of `/debug/summary`. The JSON fields are a public interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SummaryPage {
    /// Whether the collector works: it has started, and every type is synced.
    pub synced: bool,
    /// The number of watched types.
    pub types: usize,
    /// Types that are not synced, up to 16 of them.
    pub not_synced: Vec<String>,
    /// `alone`, `leader` or `standby`.
    pub role: &'static str,
    /// Of a standby: the leader, if it is known.
    pub leader: Option<String>,
    /// Why the brake is engaged.
    pub brake: Option<String>,
    /// The objects of the graph, stubs of owners included.
    pub objects: usize,
    /// Their owner references.
    pub references: usize,
    /// The decisions since the start.
    pub decisions_total: u64,
    /// The work queues by name.
    pub queues: BTreeMap<String, QueueSummary>,
    /// The number of stuck objects by reason.
    pub stuck: BTreeMap<&'static str, usize>,
    /// How long things took since the start.
    pub latencies: Latencies,
}

/// How long things took, as far as something has happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latencies {
    /// From the event after which an object had to go to its deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_lag: Option<LatencyHistogram>,
    /// Requests to the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<LatencyHistogram>,
}

/// How often something took how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LatencyHistogram {
    /// The upper bounds of the buckets in seconds, ascending.
    pub le: &'static [f64],
    /// One count for each bound, and one for what took longer. They are not cumulative.
    pub counts: Vec<u64>,
}

impl From<Distribution> for LatencyHistogram {
    fn from(Distribution { bounds, counts }: Distribution) -> Self {
        Self { le: bounds, counts }
    }
}

/// A work queue at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueSummary {
    /// The keys by state.
    #[serde(flatten)]
    pub counts: QueueCounts,
    /// How long the oldest ready key has waited.
    pub oldest_ready_seconds: Option<f64>,
    /// How long the longest work in progress has taken so far.
    pub longest_running_seconds: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(text: &str) -> Vec<(String, String)> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn limits_are_bounded() {
        for wrong in
            ["uid=", "up=1", "uid=a&up=65", "uid=a&limit=201", "uid=a&limit=0", "uid=a&q=b", "uid=a&uid=b"]
        {
            assert!(ObjectQuery::read_neighbourhood(parameters(wrong)).is_err(), "{wrong}");
        }
        for wrong in [
            "uid=a&after=0",
            "uid=a&after=2001",
            "uid=a&after=5&limit=2",
            "uid=a&max=201",
            "uid=a&max=2001&down=1",
        ] {
            assert!(ObjectQuery::read_neighbourhood(parameters(wrong)).is_err(), "{wrong}");
        }
        let paged = ObjectQuery::read_neighbourhood(parameters("uid=a&after=200&max=2000&down=1")).unwrap();
        assert_eq!((paged.after, paged.max, paged.limit), (200, 2000, 200));
        assert!(ObjectQuery::read(parameters("uid=a&up=1")).is_err(), "an explanation has no reach");
        let query =
            ObjectQuery::read_neighbourhood(parameters("uid=a&resource=jobs.batch&up=0&limit=3")).unwrap();
        assert_eq!((query.up, query.down, query.limit, query.max), (0, 64, 3, 20));
        for wrong in ["q=", "limit=1001", "q=a&x=1"] {
            assert!(FindQuery::read(parameters(wrong)).is_err(), "{wrong}");
        }
        assert!(FindQuery::read(vec![("q".into(), "x".repeat(401))]).is_err());
        assert_eq!(FindQuery::read(parameters("q=web")).unwrap().limit, 50);
    }
}
