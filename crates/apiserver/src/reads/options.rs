//! The options of lists and watches, and their validation.

use std::time::Duration;

use crate::call::Call;
use crate::object::{Key, Object};
use crate::reads::selectors::{Fields, Labels};
use crate::resources::{Resource, ResourceName};
use crate::server::Release;
use crate::status::{FieldError, Status};

/// The objects that a request selects.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) namespace: Option<String>,
    labels: Labels,
    fields: Fields,
}

impl Selection {
    pub(super) fn selects(&self, key: &Key, object: &Object) -> bool {
        (self.namespace.is_none() || self.namespace.as_deref() == key.namespace.as_deref())
            && self.labels.match_object(object)
            && self.fields.match_object(object)
    }

    /// Whether the request selects all objects of the namespace.
    pub(super) fn is_everything(&self) -> bool {
        self.labels == Labels::default() && self.fields == Fields::default()
    }
}

/// The meaning of `resourceVersion` for reads that may return older state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedVersion {
    /// Absent: the newest state.
    Newest,
    /// 0: any state.
    Any,
    /// At least this version.
    Version(u64),
}

impl RequestedVersion {
    /// Parses a version. The watch cache reports a malformed one as an internal error, the store as
    /// an error of the client.
    pub(super) fn parse(text: Option<&str>, stored: bool) -> Result<Self, Status> {
        match text {
            None => Ok(Self::Newest),
            Some("0") => Ok(Self::Any),
            Some(text) => text.parse().map(Self::Version).map_err(|_| {
                let message = format!("resourceVersion: Invalid value: {text:?}");
                if stored { Status::bad_request(message) } else { Status::unnamed(message) }
            }),
        }
    }
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Exact,
    NotOlderThan,
}

/// The options of a list or watch.
#[derive(Clone, Debug)]
pub(super) struct Options<'a> {
    pub(super) selection: Selection,
    /// `None` if there is no limit.
    pub(super) limit: Option<usize>,
    pub(super) token: Option<&'a str>,
    pub(super) version: RequestedVersion,
    pub(super) matching: Option<Match>,
    pub(super) bookmarks: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) initial_events: Option<bool>,
}

impl<'a> Options<'a> {
    pub(super) fn parse(
        call: &'a Call,
        resource: &Resource,
        namespace: Option<&str>,
        release: Release,
    ) -> Result<Self, Status> {
        let selection = Selection {
            namespace: namespace.map(str::to_owned),
            labels: Labels::parse(call.query("labelSelector").unwrap_or_default())?,
            fields: Fields::parse(call.query("fieldSelector").unwrap_or_default(), resource)?,
        };
        let limit = integer(call.query("limit"))?.and_then(|limit| usize::try_from(limit).ok());
        let timeout = integer(call.query("timeoutSeconds"))?.and_then(timeout);
        check(call, release)?;
        let limit = limit.filter(|limit| *limit > 0);
        let exact = call.query("resourceVersionMatch") == Some("Exact");
        let stored = !call.flag("watch") && (limit.is_some() || exact);
        Ok(Self {
            selection,
            limit,
            token: call.query("continue"),
            version: RequestedVersion::parse(call.query("resourceVersion"), stored)?,
            matching: match call.query("resourceVersionMatch") {
                Some("Exact") => Some(Match::Exact),
                Some(_) => Some(Match::NotOlderThan),
                None => None,
            },
            bookmarks: call.flag("allowWatchBookmarks"),
            timeout,
            initial_events: call
                .query("sendInitialEvents")
                .filter(|_| release > Release::V1_20)
                .map(|_| call.flag("sendInitialEvents")),
        })
    }
}

/// The duration of a watch; `None` if the server chooses it. Real servers count nanoseconds: if the
/// number overflows or is negative, the watch ends at once.
fn timeout(seconds: i64) -> Option<Duration> {
    let nanoseconds = seconds.wrapping_mul(1_000_000_000);
    (nanoseconds != 0).then(|| Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default()))
}

fn integer(text: Option<&str>) -> Result<Option<i64>, Status> {
    let parse = |text: &str| {
        text.parse()
            .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax")))
    };
    text.map(parse).transpose()
}

fn check(call: &Call, release: Release) -> Result<(), Status> {
    const MATCH: &str = "resourceVersionMatch";
    let watch = call.flag("watch");
    let initial_events = release > Release::V1_20 && call.query("sendInitialEvents").is_some();
    let matching = call.query(MATCH);
    let mut wrong = Vec::new();
    let mut forbid = |when: bool, field, why: &str| {
        if when {
            wrong.push(FieldError::forbidden(field, why));
        }
    };
    forbid(initial_events && !watch, "sendInitialEvents", "sendInitialEvents is forbidden for list");
    forbid(
        initial_events && watch && matching != Some("NotOlderThan"),
        MATCH,
        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    );
    if let Some(matching) = matching {
        let unversioned = !watch && call.query("resourceVersion").is_none();
        forbid(unversioned, MATCH, "it is forbidden unless resourceVersion is provided");
        let continues = call.query("continue").is_some() && !(watch && release == Release::V1_20);
        forbid(continues, MATCH, "it is forbidden when continue is provided");
        let exactly_any = !watch && matching == "Exact" && call.query("resourceVersion") == Some("0");
        forbid(exactly_any, MATCH, "\"exact\" is forbidden for resourceVersion \"0\"");
        forbid(watch && !initial_events, MATCH, "it is forbidden for watch without sendInitialEvents");
        let known = matching == "NotOlderThan" || matching == "Exact" && !watch;
        if !(known || watch && release == Release::V1_20) {
            wrong.push(FieldError::not_supported(MATCH, matching));
        }
    }
    let options = ResourceName::new("meta.k8s.io", "ListOptions");
    if wrong.is_empty() { Ok(()) } else { Err(Status::invalid(&options, "", &wrong)) }
}
