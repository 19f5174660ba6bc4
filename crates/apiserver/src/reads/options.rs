//! The options of lists and watches, and their validation.

use std::time::Duration;

use crate::call::Call;
use crate::object::{Key, Object};
use crate::reads::selectors::{Fields, Labels};
use crate::resources::ResourceName;
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
    pub(super) fn parse(text: Option<&str>) -> Result<Self, Status> {
        match text {
            None => Ok(Self::Newest),
            Some("0") => Ok(Self::Any),
            Some(text) => text
                .parse()
                .map(Self::Version)
                .map_err(|_| Status::bad_request(format!("resourceVersion: Invalid value: {text:?}"))),
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
    pub(super) fn parse(call: &'a Call, namespace: Option<&str>, release: Release) -> Result<Self, Status> {
        let selection = Selection {
            namespace: namespace.map(str::to_owned),
            labels: Labels::parse(call.query("labelSelector").unwrap_or_default())?,
            fields: Fields::parse(call.query("fieldSelector").unwrap_or_default())?,
        };
        let limit = integer(call.query("limit"))?.and_then(|limit| usize::try_from(limit).ok());
        let timeout = integer(call.query("timeoutSeconds"))?.and_then(timeout);
        check(call, release)?;
        Ok(Self {
            selection,
            limit: limit.filter(|limit| *limit > 0),
            token: call.query("continue"),
            version: RequestedVersion::parse(call.query("resourceVersion"))?,
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

/// Checks that the options fit together.
fn check(call: &Call, release: Release) -> Result<(), Status> {
    let watch = call.flag("watch");
    let initial_events = release > Release::V1_20 && call.query("sendInitialEvents").is_some();
    let matching = call.query("resourceVersionMatch");
    let version = call.query("resourceVersion");
    let faults = [
        (initial_events && !watch, "sendInitialEvents is forbidden for list"),
        (initial_events && matching != Some("NotOlderThan"), "sendInitialEvents requires NotOlderThan"),
        (matching.is_some() && watch && !initial_events, "it is forbidden for watch"),
        (matching.is_some() && !watch && version.is_none(), "it is forbidden without resourceVersion"),
        (matching.is_some() && call.query("continue").is_some(), "it is forbidden with continue"),
        (
            matching == Some("Exact") && version == Some("0"),
            "\"Exact\" is forbidden for resourceVersion \"0\"",
        ),
        (!matches!(matching, None | Some("Exact" | "NotOlderThan")), "unsupported value"),
    ];
    let Some((_, why)) = faults.into_iter().find(|(wrong, _)| *wrong) else { return Ok(()) };
    let options = ResourceName::new("meta.k8s.io", "ListOptions");
    Err(Status::invalid(&options, "", &[FieldError::forbidden("resourceVersionMatch", why)]))
}
