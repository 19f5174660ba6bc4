//! The answer of `kube-gc stuck`.

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Serialize;

use super::collector::Collector;
use super::error::InsightError;
use super::glob::TypeFilter;
use super::lists::{Lists, Watcher};
use super::session::Session;
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::text::Thousands;
use kube_gc_insight::{StuckReport, Unseen};

/// The most objects that are read.
const MOST_READS: usize = 2_000;

/// What `kube-gc stuck` asks.
#[derive(Clone, Debug, Default)]
pub struct StuckQuery {
    /// All namespaces and cluster-scoped objects, instead of one namespace.
    pub everywhere: bool,
    /// Which types are listed.
    pub filter: TypeFilter,
    /// The labels of the objects that are reported; `None` for all.
    pub selector: Option<String>,
    /// Objects that were deleted longer ago than this are stuck.
    pub older: Duration,
}

impl StuckQuery {
    /// The time before which stuck objects were deleted, in RFC 3339, as the server writes it.
    fn before(&self) -> String {
        let time = SystemTime::now().checked_sub(self.older).unwrap_or(SystemTime::UNIX_EPOCH);
        humantime::format_rfc3339_seconds(time).to_string()
    }
}

/// The answer of `kube-gc stuck`. It says the same whether lists or a collector's `/debug/stuck`
/// have filled it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StuckAnswer {
    #[serde(flatten)]
    pub report: StuckReport,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// How many types were left out on request.
    pub left_out: usize,
}

impl Session {
    /// What was deleted long ago and is still there.
    ///
    /// # Errors
    ///
    /// The server does not understand the selector. What cannot be listed or read is named in the
    /// answer.
    pub async fn stuck(
        &self,
        query: &StuckQuery,
        watcher: &Watcher<'_>,
    ) -> Result<StuckAnswer, InsightError> {
        let namespace = if query.everywhere { None } else { self.namespace.as_ref() };
        let selection = self.select(namespace, &query.filter, query.selector.as_deref(), watcher).await?;
        let mut lists = Lists::new(self, ViewLimits::default(), watcher);
        lists.most_reads = MOST_READS;
        lists.list(namespace, &query.filter, watcher).await;
        let report = lists.stuck(&query.before(), selection.as_ref().map(|selection| &selection.uids)).await;
        let mut incomplete = std::mem::take(&mut lists.unseen);
        selection.iter().for_each(|selection| selection.add_unseen_to(&mut incomplete));
        if report.not_read > 0 {
            let why = format!("more than {} objects would have to be read", Thousands(MOST_READS));
            let plural = if report.not_read == 1 { "" } else { "s" };
            incomplete.push(Unseen { what: format!("{} object{plural}", Thousands(report.not_read)), why });
        }
        incomplete.extend(lists.unread());
        incomplete.sort();
        Ok(StuckAnswer { report, incomplete, left_out: lists.left_out })
    }

    /// The same, from the graph of a collector.
    ///
    /// # Errors
    ///
    /// The collector does not answer.
    pub async fn stuck_from(
        &self,
        collector: &Collector,
        query: &StuckQuery,
        watcher: &Watcher<'_>,
    ) -> Result<StuckAnswer, InsightError> {
        let namespace = if query.everywhere { None } else { self.namespace.as_ref() };
        let page = watcher.wait(collector.causes(namespace, query.older)).await?;
        Ok(StuckAnswer { report: page.answer, incomplete: page.rest.incomplete, left_out: 0 })
    }
}
