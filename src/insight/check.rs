//! The answer of `kube-gc check`.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::InsightError;
use super::glob::TypeFilter;
use super::lists::{Lists, Watcher};
use super::session::Session;
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::text::Thousands;
use kube_gc_insight::{CheckReport, Unseen};

/// The most owners that are read.
const MOST_READS: usize = 2_000;
/// The most findings that an answer lists. All are counted.
const MOST_FINDINGS: usize = 10_000;
/// How many objects are checked at a time.
const AT_A_TIME: usize = 64;

/// What `kube-gc check` asks.
#[derive(Clone, Debug, Default)]
pub struct CheckQuery {
    /// All namespaces and cluster-scoped objects, instead of one namespace.
    pub everywhere: bool,
    /// Which types are listed.
    pub filter: TypeFilter,
    /// The labels of the objects that are reported; `None` for all.
    pub selector: Option<String>,
}

/// The answer of `kube-gc check`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckAnswer {
    #[serde(flatten)]
    pub report: CheckReport,
    /// What could not be looked at.
    pub incomplete: Vec<Unseen>,
    /// How many types were left out on request.
    pub left_out: usize,
}

impl Session {
    /// What is wrong with owner references.
    ///
    /// # Errors
    ///
    /// The server does not understand the selector. What cannot be listed or read is named in the
    /// answer.
    pub async fn check(
        &self,
        query: &CheckQuery,
        watcher: &Watcher<'_>,
    ) -> Result<CheckAnswer, InsightError> {
        let namespace = if query.everywhere { None } else { self.namespace.as_ref() };
        let selection = self.select(namespace, &query.filter, query.selector.as_deref(), watcher).await?;
        let mut lists = Lists::new(self, ViewLimits::default(), watcher);
        lists.most_reads = MOST_READS;
        lists.list(namespace, &query.filter, watcher).await;
        let survey = lists.survey(selection.as_ref().map(|selection| &selection.uids));
        let mut report = CheckReport::new(&survey);
        let mut not_asked = 0;
        let mut incomplete = Vec::new();
        let mut left = survey.suspects.len();
        for keys in survey.suspects.chunks(AT_A_TIME) {
            if watcher.interrupted.is_cancelled() {
                incomplete.push(unseen(left, "object", "interrupted".to_owned()));
                break;
            }
            for checked in lists.check(keys, &survey.circles).await {
                not_asked += checked.not_asked;
                report.add(checked, MOST_FINDINGS);
            }
            left -= keys.len();
        }
        report.keep_first(MOST_FINDINGS);
        if not_asked > 0 {
            let why = format!("more than {} owners would have to be read", Thousands(MOST_READS));
            incomplete.push(unseen(not_asked, "reference", why));
        }
        incomplete.append(&mut lists.unseen);
        selection.iter().for_each(|selection| selection.add_unseen_to(&mut incomplete));
        incomplete.extend(lists.unread());
        incomplete.sort();
        Ok(CheckAnswer { report, incomplete, left_out: lists.left_out })
    }
}

fn unseen(count: usize, what: &str, why: String) -> Unseen {
    let plural = if count == 1 { "" } else { "s" };
    Unseen { what: format!("{} {what}{plural}", Thousands(count)), why }
}
