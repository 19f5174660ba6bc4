//! The parameters of the debug pages.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use kube_gc_core::graph::dump::DumpFormat;
use kube_gc_core::object::{GroupResource, Namespace, PropagationPolicy, ResourceVersion, Uid};
use kube_gc_core::text;
use kube_gc_observe::telemetry::StuckReason;

/// The default limit on the entries of a page.
pub const DEFAULT_LIMIT: usize = 1000;
/// The highest limit that a request may set.
const MAX_LIMIT: usize = 100_000;
/// The highest limit of a search.
const MOST_FOUND: usize = 1000;
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

/// The filters of `/debug/decisions`. `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DecisionQuery {
    /// The object's namespace.
    #[serde(deserialize_with = "namespace")]
    pub namespace: Option<Namespace>,
    /// The object's type.
    #[serde(deserialize_with = "resource")]
    pub resource: Option<GroupResource>,
    /// The object.
    #[serde(deserialize_with = "some_uid")]
    pub uid: Option<Uid>,
    /// Its name.
    #[serde(deserialize_with = "word")]
    pub name: Option<String>,
    /// The name or uid of an owner.
    #[serde(deserialize_with = "word")]
    pub owner: Option<String>,
    /// The action.
    #[serde(deserialize_with = "word")]
    pub action: Option<String>,
    /// The outcome.
    #[serde(deserialize_with = "word")]
    pub outcome: Option<String>,
    /// The most entries to return.
    #[serde(deserialize_with = "some_limit")]
    pub limit: Option<usize>,
    /// The most of each namespace.
    #[serde(deserialize_with = "some_limit")]
    pub each: Option<usize>,
}

/// The filters of `/debug/stuck`. `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StuckQuery {
    /// The object's namespace.
    #[serde(deserialize_with = "namespace")]
    pub namespace: Option<Namespace>,
    /// The object's type.
    #[serde(deserialize_with = "resource")]
    pub resource: Option<GroupResource>,
    /// Why it is stuck.
    #[serde(deserialize_with = "reason")]
    pub reason: Option<StuckReason>,
    /// The age from which on an object is stuck that waits for what is normal for a while.
    #[serde(deserialize_with = "some_seconds")]
    pub older: Option<Duration>,
    /// The most entries to return.
    #[serde(deserialize_with = "some_limit")]
    pub limit: Option<usize>,
}

/// The parameters of `/debug/stuck/causes`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CausesQuery {
    /// Only objects in this namespace.
    #[serde(default, deserialize_with = "namespace")]
    pub namespace: Option<Namespace>,
    /// How long ago an object must have been deleted.
    #[serde(default = "a_minute", deserialize_with = "seconds")]
    pub older: Duration,
}

/// The parameters of `/debug/plan`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// The object that would be deleted.
    #[serde(deserialize_with = "uid")]
    pub uid: Uid,
    /// Its type, if several types show the uid.
    #[serde(default, deserialize_with = "resource")]
    pub resource: Option<GroupResource>,
    /// How it would be deleted.
    #[serde(default = "background", deserialize_with = "policy")]
    pub policy: PropagationPolicy,
    /// The most objects to list.
    #[serde(default = "value::<DEFAULT_LIMIT>", deserialize_with = "number::<1, MAX_LIMIT, _>")]
    pub limit: usize,
}

/// The parameters of `/debug/search`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindQuery {
    /// What a person types, such as TYPE/NAME or NAMESPACE/NAME.
    #[serde(default, deserialize_with = "short_text")]
    pub q: String,
    /// Only objects in this namespace.
    #[serde(default, deserialize_with = "namespace")]
    pub namespace: Option<Namespace>,
    /// Only objects of this type.
    #[serde(default, deserialize_with = "resource")]
    pub resource: Option<GroupResource>,
    /// The most objects to return.
    #[serde(default = "value::<50>", deserialize_with = "number::<1, MOST_FOUND, _>")]
    pub limit: usize,
}

/// The parameters of `/debug/explain` and `/debug/row`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// The object.
    #[serde(deserialize_with = "uid")]
    pub uid: Uid,
    /// Its type, if several types show the uid.
    #[serde(default, deserialize_with = "resource")]
    pub resource: Option<GroupResource>,
}

/// The parameters of `/debug/neighbourhood`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectQuery {
    /// The object.
    #[serde(deserialize_with = "uid")]
    pub uid: Uid,
    /// Its type, if several types show the uid.
    #[serde(default, deserialize_with = "resource")]
    pub resource: Option<GroupResource>,
    /// How far up it goes.
    #[serde(default = "value::<MOST_LEVELS>", deserialize_with = "number::<0, MOST_LEVELS, _>")]
    pub up: usize,
    /// How far down it goes.
    #[serde(default = "value::<MOST_LEVELS>", deserialize_with = "number::<0, MOST_LEVELS, _>")]
    pub down: usize,
    /// The most dependents of each parent and type.
    #[serde(default = "value::<20>", deserialize_with = "number::<1, MOST_PAGED, _>")]
    pub max: usize,
    /// The most objects.
    #[serde(default = "value::<MOST_NODES>", deserialize_with = "number::<1, MOST_NODES, _>")]
    pub limit: usize,
    /// How many objects earlier pages have shown.
    #[serde(default, deserialize_with = "number::<1, MOST_PAGED, _>")]
    pub after: usize,
}

impl ObjectQuery {
    /// What is wrong with these parameters together.
    pub fn problem(&self) -> Option<String> {
        let Self { down, max, limit, after, .. } = *self;
        if max > MOST_NODES && down > 1 {
            return Some(format!("max={max}: more than {MOST_NODES} need down=1"));
        }
        (after > 0 && limit < LEAST_OF_A_PAGE)
            .then(|| format!("limit={limit}: a page after the first one needs {LEAST_OF_A_PAGE}"))
    }
}

/// The parameters of `/debug/graph`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<(String, String)>")]
pub struct GraphQuery {
    /// Only what is connected to these objects; everything without any.
    pub uids: Vec<Uid>,
    /// How it is written.
    pub format: DumpFormat,
}

impl TryFrom<Vec<(String, String)>> for GraphQuery {
    type Error = String;

    fn try_from(parameters: Vec<(String, String)>) -> Result<Self, String> {
        let mut query = Self { uids: Vec::new(), format: DumpFormat::Dot };
        for (name, value) in parameters {
            match (name.as_str(), value.as_str()) {
                ("uid", uid) => query.uids.push(Uid::parse(uid).ok_or("uid= needs a uid")?),
                ("format", "dot") => query.format = DumpFormat::Dot,
                ("format", "json") => query.format = DumpFormat::Json,
                ("format", other) => return Err(format!("format={other:?} must be dot or json")),
                _ => return Err(format!("unknown parameter {name:?}")),
            }
        }
        Ok(query)
    }
}

/// The namespace of this name, if it can be one: a DNS label.
///
/// # Errors
/// What is wanted instead.
pub fn namespace_named(name: &str) -> Result<Namespace, String> {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = name.len() <= 63 && name.bytes().all(is_inside) && name == name.trim_matches('-');
    let wanted = "is no name of a namespace: lower-case letters, digits and \"-\", at most 63";
    let invalid = || format!("namespace={:?} {wanted}", text::word(name));
    Namespace::parse(name).filter(|_| is_label).ok_or_else(invalid)
}

/// The parameters of `/debug/idle`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<(String, String)>")]
pub struct IdleQuery {
    /// Versions that the watches must have reached, so that a client can wait until the
    /// collector has seen its writes.
    pub seen: Vec<(GroupResource, ResourceVersion)>,
    /// Whether parked objects, which wait for a change in the cluster, count as idle.
    pub parked_ok: bool,
    /// Only the work on objects of this namespace counts.
    pub namespace: Option<Namespace>,
    /// Only the work on the object with this uid, even if it is gone, and on all below it counts.
    pub owner: Option<Uid>,
}

impl TryFrom<Vec<(String, String)>> for IdleQuery {
    type Error = String;

    fn try_from(parameters: Vec<(String, String)>) -> Result<Self, String> {
        let mut query = Self::default();
        for (name, value) in parameters {
            match (name.as_str(), value.as_str()) {
                ("seen", seen) => query.seen.push(seen_version(seen)?),
                ("namespace", name) => query.namespace = Some(namespace_named(name)?),
                ("owner", uid) => query.owner = Some(Uid::parse(uid).ok_or("owner= needs a uid")?),
                ("parked", "ok") => query.parked_ok = true,
                ("parked", other) => return Err(format!("parked={other:?}: the only value is ok")),
                _ => return Err(format!("unknown parameter {name:?}")),
            }
        }
        Ok(query)
    }
}

/// A version that is not a number cannot be compared, so nobody could ever wait for it.
fn seen_version(seen: &str) -> Result<(GroupResource, ResourceVersion), String> {
    let (resource, version) = seen
        .rsplit_once('=')
        .filter(|(resource, version)| !resource.is_empty() && !version.is_empty())
        .ok_or_else(|| {
            format!("seen={seen:?} is not of the form RESOURCE=VERSION or RESOURCE.GROUP=VERSION")
        })?;
    let number = ResourceVersion::parse_number(version).ok_or_else(|| {
        format!(
            "seen={seen:?}: the version {version:?} is not a whole number above 0; pass metadata.resourceVersion of an object"
        )
    })?;
    Ok((GroupResource::parse(resource), number))
}

// How single parameters are read.

fn parsed<'de, D: Deserializer<'de>, T>(
    value: D,
    parse: impl FnOnce(&str) -> Option<T>,
    needs: impl FnOnce() -> String,
) -> Result<T, D::Error> {
    let value = String::deserialize(value)?;
    parse(&value).ok_or_else(|| D::Error::custom(format!("{value:?} is not {}", needs())))
}

fn uid<'de, D: Deserializer<'de>>(value: D) -> Result<Uid, D::Error> {
    parsed(value, Uid::parse, || "a uid".to_owned())
}

fn some_uid<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Uid>, D::Error> {
    uid(value).map(Some)
}

fn namespace<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Namespace>, D::Error> {
    parsed(value, Namespace::parse, || "the name of a namespace".to_owned()).map(Some)
}

fn resource<'de, D: Deserializer<'de>>(value: D) -> Result<Option<GroupResource>, D::Error> {
    let parse = |value: &str| (!value.is_empty()).then(|| GroupResource::parse(value));
    parsed(value, parse, || "RESOURCE, as in pods, or RESOURCE.GROUP, as in jobs.batch".to_owned()).map(Some)
}

fn word<'de, D: Deserializer<'de>>(value: D) -> Result<Option<String>, D::Error> {
    let parse = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    parsed(value, parse, || "a word".to_owned()).map(Some)
}

fn short_text<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    let parse = |value: &str| (1..=LONGEST_TEXT).contains(&value.len()).then(|| value.to_owned());
    parsed(value, parse, || format!("a text of 1 to {LONGEST_TEXT} bytes"))
}

fn reason<'de, D: Deserializer<'de>>(value: D) -> Result<Option<StuckReason>, D::Error> {
    let parse = |value: &str| StuckReason::ALL.into_iter().find(|reason| reason.name() == value);
    let needs = || format!("one of {}", StuckReason::ALL.map(StuckReason::name).join(", "));
    parsed(value, parse, needs).map(Some)
}

fn policy<'de, D: Deserializer<'de>>(value: D) -> Result<PropagationPolicy, D::Error> {
    let parse = |value: &str| match value {
        "background" => Some(PropagationPolicy::Background),
        "foreground" => Some(PropagationPolicy::Foreground),
        "orphan" => Some(PropagationPolicy::Orphan),
        _ => None,
    };
    parsed(value, parse, || "background, foreground or orphan".to_owned())
}

const fn background() -> PropagationPolicy {
    PropagationPolicy::Background
}

fn seconds<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    let parse = |value: &str| value.parse().ok().map(Duration::from_secs);
    parsed(value, parse, || "a number of seconds".to_owned())
}

fn some_seconds<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    seconds(value).map(Some)
}

/// How long ago an object was deleted that counts as stuck, unless the request says otherwise.
const fn a_minute() -> Duration {
    StuckReason::OLD
}

fn number<'de, const LEAST: usize, const MOST: usize, D: Deserializer<'de>>(
    value: D,
) -> Result<usize, D::Error> {
    let parse = |value: &str| value.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    parsed(value, parse, || format!("a whole number from {LEAST} to {MOST}"))
}

fn some_limit<'de, D: Deserializer<'de>>(value: D) -> Result<Option<usize>, D::Error> {
    number::<1, MAX_LIMIT, _>(value).map(Some)
}

/// A default value.
const fn value<const VALUE: usize>() -> usize {
    VALUE
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    fn read<T: DeserializeOwned>(parameters: &str) -> Result<T, String> {
        kube_gc_observe::http::page::read(&format!("/?{parameters}").parse().unwrap())
    }

    #[test]
    fn questions_have_defaults_and_bounds() {
        let fits = |query: Result<ObjectQuery, String>| query.is_ok_and(|query| query.problem().is_none());
        for wrong in [
            "uid=",
            "up=1",
            "uid=a&up=65",
            "uid=a&limit=201",
            "uid=a&limit=0",
            "uid=a&q=b",
            "uid=a&uid=b",
            "uid=a&after=0",
            "uid=a&after=2001",
            "uid=a&after=5&limit=2",
            "uid=a&max=201",
            "uid=a&max=2001&down=1",
        ] {
            assert!(!fits(read(wrong)), "{wrong}");
        }
        let paged: ObjectQuery = read("uid=a&after=200&max=2000&down=1").unwrap();
        assert_eq!((paged.after, paged.max, paged.limit), (200, 2000, 200));
        assert!(fits(Ok(paged)));
        let query: ObjectQuery = read("uid=a&resource=jobs.batch&up=0&limit=3").unwrap();
        assert_eq!((query.up, query.down, query.limit, query.max), (0, 64, 3, 20));
        assert!(read::<ExplainQuery>("uid=a&up=1").is_err(), "an explanation has no reach");

        assert_eq!(read::<FindQuery>("q=web").unwrap().limit, 50);
        for wrong in ["q=", "limit=1001", "q=a&x=1", &format!("q={}", "x".repeat(401))] {
            assert!(read::<FindQuery>(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read(""), Ok(CausesQuery { namespace: None, older: a_minute() }));
        assert_eq!(read::<CausesQuery>("namespace=a&older=0").unwrap().older, Duration::ZERO);
        for wrong in ["namespace=", "older=-1", "older=1m", "reason=blocked", "older=1&older=2"] {
            assert!(read::<CausesQuery>(wrong).is_err(), "{wrong:?}");
        }
        let request: PlanRequest = read("uid=a&policy=orphan&resource=jobs.batch").unwrap();
        assert_eq!((request.policy, request.limit), (PropagationPolicy::Orphan, DEFAULT_LIMIT));
        for wrong in ["", "uid=", "uid=a&policy=Orphan", "uid=a&limit=0", "uid=a&up=1"] {
            assert!(read::<PlanRequest>(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_filter_is_read() {
        let uid = "0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10";
        let query = format!(
            "namespace=n&resource=jobs.batch&uid={uid}&name=x&owner=y&action=delete&outcome=denied&limit=3&each=2"
        );
        let (namespace, resource) = (Namespace::parse("n"), Some(GroupResource::parse("jobs.batch")));
        let asked = DecisionQuery {
            namespace: namespace.clone(),
            resource: resource.clone(),
            uid: Uid::parse(uid),
            name: Some("x".to_owned()),
            owner: Some("y".to_owned()),
            action: Some("delete".to_owned()),
            outcome: Some("denied".to_owned()),
            limit: Some(3),
            each: Some(2),
        };
        assert_eq!(read(&query), Ok(asked));
        let reason = Some(StuckReason::InvalidScope);
        let asked = StuckQuery { namespace, resource, reason, older: Some(Duration::ZERO), limit: Some(3) };
        assert_eq!(read("namespace=n&resource=jobs.batch&reason=invalid_scope&older=0&limit=3"), Ok(asked));
        assert_eq!((read(""), read("")), (Ok(DecisionQuery::default()), Ok(StuckQuery::default())));
        let seen = |resource, version| (GroupResource::parse(resource), ResourceVersion::number(version));
        let asked = IdleQuery {
            seen: vec![seen("pods", 7), seen("deployments.apps", 8)],
            parked_ok: true,
            namespace: Namespace::parse("shop"),
            owner: Uid::parse(uid),
        };
        let query = format!("seen=pods=7&seen=deployments.apps%3D8&parked=ok&namespace=shop&owner={uid}");
        assert_eq!(read(&query), Ok(asked));
    }

    #[test]
    fn invalid_parameters_are_rejected_with_a_reason() {
        let stuck = |query: &str| read::<StuckQuery>(query).map(drop);
        let decisions = |query: &str| read::<DecisionQuery>(query).map(drop);
        for (problem, said) in [
            (stuck("reason=tired"), "is not one of conflict, denied,"),
            (stuck("limit=0"), "whole number from 1 to"),
            (stuck("uid=x"), "unknown field `uid`"),
            (stuck("namespace="), "namespace: "),
            (stuck("namespace=a&namespace=b"), "duplicate field `namespace`"),
            (decisions("resource="), "resource: "),
            (decisions("uid="), "uid: "),
            (decisions("action="), "action: "),
            (decisions("reason=denied"), "unknown field `reason`"),
        ] {
            let problem = problem.unwrap_err();
            assert!(problem.contains(said), "{problem}");
        }
        for query in ["uid=", "format=svg", "uids=x"] {
            assert!(read::<GraphQuery>(query).is_err(), "{query}");
        }
        for query in [
            "seen=pods",
            "seen=pods=",
            "seen==3",
            "seen=pods=0",
            "seen=pods=3&seen=pods=-3",
            "parked=no",
            "owner=",
            "namespace=",
            "namespace=In%20Valid!/",
            "namespace=-a",
            &format!("namespace={}", "a".repeat(64)),
            "sen=pods=3",
        ] {
            assert!(read::<IdleQuery>(query).is_err(), "{query}");
        }
    }

    #[test]
    fn a_version_that_is_not_a_number_is_rejected_with_the_reason() {
        let reason = "seen=\"configmaps=newest\": the version \"newest\" is not a whole number above 0; pass \
                      metadata.resourceVersion of an object";
        let problem = read::<IdleQuery>("seen=configmaps=newest").unwrap_err();
        assert!(problem.contains(reason), "{problem}");
    }
}
