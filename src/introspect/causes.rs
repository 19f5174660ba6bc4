//! What was deleted long ago and is still there, by what holds it.

use std::time::{Duration, SystemTime};

use super::introspection::CollectorIntrospection;
use super::questions::{Freshness, Questions};
use crate::actors::graph_handle::PartitionEnded;
use crate::http::{CausesPage, CausesQuery};
use kube_gc_core::graph::{SearchQuery, ViewLimits};
use kube_gc_core::text::Thousands;
use kube_gc_insight::{Remaining, StuckReport, Unseen, stuck};

/// The most objects that are looked at.
const MOST_OBJECTS: usize = 20_000;
/// The most dependents of a type that are looked at, of each object that waits for dependents.
const MOST_DEPENDENTS: usize = 2_000;

impl Questions {
    /// What was deleted longer ago than this.
    ///
    /// # Errors
    /// When a partition has ended.
    async fn causes(&self, query: CausesQuery) -> Result<(StuckReport, Vec<Unseen>), PartitionEnded> {
        let deleted =
            SearchQuery { namespace: query.namespace, being_deleted: true, ..SearchQuery::default() };
        let (found, more) = self.search(deleted, MOST_OBJECTS).await?;
        let limits = ViewLimits { dependents_of_a_type: MOST_DEPENDENTS, ..ViewLimits::default() };
        let before = before(query.older);
        let (report, mut incomplete) = self
            .ask(limits, Freshness::Now, |asker| {
                let remaining = Remaining::around(asker, &found);
                stuck(asker, &remaining, &before)
            })
            .await?;
        if report.not_read > 0 {
            let plural = if report.not_read == 1 { "" } else { "s" };
            let what = format!("{} object{plural}", Thousands(report.not_read));
            let why = "the collector reads only the first for an answer; --from lists reads more".to_owned();
            incomplete.push(Unseen { what, why });
        }
        if more {
            let why =
                format!("only the first {} that are being deleted are looked at", Thousands(MOST_OBJECTS));
            incomplete.push(Unseen { what: "further objects".to_owned(), why });
        }
        Ok((report, incomplete))
    }
}

impl CollectorIntrospection {
    /// The page of what was deleted longer ago than a time.
    pub(super) async fn causes_of(&self, query: CausesQuery) -> Result<CausesPage, PartitionEnded> {
        let is_namespaced = query.namespace.is_some();
        let (report, mut incomplete) = self.questions.causes(query).await?;
        incomplete.extend(self.undiscovered_types());
        incomplete.extend(self.unsynced_types(is_namespaced));
        incomplete.sort();
        Ok(CausesPage { report, incomplete, left_out: 0 })
    }
}

/// The time that is so long ago, as the server writes it.
fn before(older: Duration) -> String {
    let time = SystemTime::now().checked_sub(older).unwrap_or(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time).to_string()
}
