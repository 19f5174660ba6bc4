//! The answer of `kube-gc tree`, once or again and again, the worst dependents first.

use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::{Instant, sleep_until};

use super::collector::Collector;
use super::lists::{AT_ONCE, Lists};
use super::session::{ObjectArgument, Session, TypeFilter};
use super::{CollectorError, InsightError};
use kube_gc_core::graph::ViewLimits;
use kube_gc_core::object::Identity;
use kube_gc_core::text::listed;
use kube_gc_insight::{
    Answer, Asker, Details, Live, More, Neighbourhood, NeighbourhoodQuery, NodeExtra, ObjectName, Shown,
    Standing, State, counted, neighbourhood,
};
use kube_gc_observe::telemetry::StuckReason;

/// The most objects that a tree shows.
pub const MOST_OBJECTS: usize = 1000;
/// The most objects whose rows of the server's table are read.
pub(super) const MOST_ROWS: usize = 200;
/// The most objects that are being deleted and whose finalizers are read.
const MOST_FINALIZED: usize = 50;

/// What `kube-gc tree` asks.
#[derive(Clone, Debug)]
pub struct TreeQuery {
    /// The object.
    pub object: ObjectArgument,
    /// How far up.
    pub up: usize,
    /// How far down.
    pub down: usize,
    /// The most dependents of each parent and type.
    pub most: usize,
    /// Which types are listed.
    pub filter: TypeFilter,
    /// Whether to read the rows of the server's tables.
    pub with_rows: bool,
}

/// What is known of all dependents that are not shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    /// How many are ready.
    pub ready: Option<usize>,
    /// The age of the oldest, in the words of the server.
    pub oldest: Option<String>,
}

impl TreeQuery {
    /// How many dependents of each owner and type are looked at, to show the worst of them: as many as rows
    /// can be read.
    pub(super) fn candidates(&self) -> impl Iterator<Item = usize> {
        let shown = if self.with_rows { self.most } else { usize::MAX };
        [MOST_ROWS, MOST_ROWS / 2, MOST_ROWS / 4].into_iter().filter(move |candidates| *candidates > shown)
    }
}

impl Session {
    /// What belongs to an object, which may be gone if it was found before.
    ///
    /// # Errors
    ///
    /// There is no such object, or it cannot be read.
    pub async fn tree(
        &self,
        query: &TreeQuery,
        known: Option<&Identity>,
    ) -> Result<Answer<Neighbourhood>, InsightError> {
        let filter = &self.resolve(&query.filter)?;
        let mut lists = Lists::new(self, ViewLimits::default());
        let root = match (lists.root(&query.object, filter).await, known) {
            (Ok(_) | Err(InsightError::NoSuchObject(_)), Some(known)) => known.clone(),
            (found, _) => found?,
        };
        if !lists.has_everything && query.down > 0 {
            lists.list(root.namespace.as_ref(), filter).await?;
        }
        let mut question = NeighbourhoodQuery { root, up: query.up, down: query.down, limit: MOST_ROWS + 1 };
        for most in query.candidates() {
            let found = lists.neighbourhood(&question, most).await;
            if found.nodes.len() <= MOST_ROWS {
                let ranked = lists.ranked(found, query).await;
                return Ok(lists.answer(ranked));
            }
        }
        question.limit = MOST_OBJECTS;
        let found = lists.neighbourhood(&question, query.most).await;
        let ranked = lists.ranked(found, query).await;
        Ok(lists.answer(ranked))
    }
}

impl Lists<'_> {
    /// What belongs to an object, with so many dependents of each owner and type.
    async fn neighbourhood(&mut self, question: &NeighbourhoodQuery, most: usize) -> Neighbourhood {
        self.show(most);
        self.ask(|asker| neighbourhood(asker, question)).await
    }

    /// Reads what the graph does not keep, and shows the worst first.
    pub(super) async fn ranked(&mut self, mut shown: Neighbourhood, query: &TreeQuery) -> Neighbourhood {
        if query.with_rows {
            self.read_details(&mut shown).await;
            self.read_rows(&mut shown).await;
            shown = shown.worst(standing, query.most);
        }
        shown
    }

    /// Reads the finalizers of objects that are being deleted.
    async fn read_details(&mut self, shown: &mut Neighbourhood) {
        let deleted = shown.nodes.iter_mut().filter(|node| node.state.is_being_deleted());
        let deleted = deleted.filter_map(|Shown { identity, extra, .. }| Some((identity.as_ref()?, extra)));
        let deleted: Vec<(&Identity, &mut NodeExtra)> = deleted.take(MOST_FINALIZED).collect();
        let read = |asker: &mut Asker<'_>| -> Vec<Option<Details>> {
            let details = deleted.iter().map(|(identity, _)| match asker.live(identity) {
                Some(Live::Found(live)) => Some(live.details.clone()),
                _ => None,
            });
            details.collect()
        };
        let read = self.ask(read).await;
        for ((_, extra), details) in deleted.into_iter().zip(read) {
            extra.details = details;
        }
    }

    /// Reads the rows of the server's own tables, not older than what was listed. A row that cannot
    /// be read is left out.
    async fn read_rows(&self, shown: &mut Neighbourhood) {
        let exists = |state: State| state == State::Live || state.is_being_deleted();
        let wanted = shown.nodes.iter_mut().filter(|node| exists(node.state));
        let wanted = wanted.filter_map(|Shown { identity, extra, .. }| Some((identity.as_ref()?, extra)));
        let mut rows = futures::stream::iter(wanted.take(MOST_ROWS))
            .map(|(identity, extra)| async move {
                let version = self.version(identity);
                if let Ok(row) = self.session.api.table_row(identity, version.as_ref()).await {
                    extra.row = row;
                }
            })
            .buffer_unordered(AT_ONCE);
        while let Some(Some(())) = self.session.waiting.interrupted.run_until_cancelled(rows.next()).await {}
    }
}

fn standing(node: &Shown) -> Standing {
    let NodeExtra { row, details } = &node.extra;
    match (node.state.is_being_deleted(), details) {
        (true, Some(details)) if details.is_stuck(StuckReason::OLD) => Standing::Stuck,
        (true, _) => Standing::Terminating,
        (false, _) if is_ready(row) == Some(false) => Standing::NotReady,
        (false, _) => Standing::Other,
    }
}

impl Hidden {
    /// What the rows of objects that are not shown have in common.
    pub fn of(more: &More) -> Self {
        let rows = || more.looked_at.iter().map(|shown| &shown.extra.row);
        let ready: Vec<bool> = rows().filter_map(|row| is_ready(row)).collect();
        // The server writes ages as `3d4h`.
        let age = |cell| Some((humantime::parse_duration(cell).ok()?, cell));
        let ages: Vec<_> = rows().filter_map(|row| cell(row, "Age").and_then(age)).collect();
        let is_all = |known: usize| known == more.count;
        let oldest = ages.iter().max().filter(|_| is_all(ages.len()));
        Self {
            ready: is_all(ready.len()).then(|| ready.iter().filter(|is_ready| **is_ready).count()),
            oldest: oldest.map(|(_, age)| (*age).to_owned()),
        }
    }
}

fn cell<'r>(row: &'r [(String, String)], column: &str) -> Option<&'r str> {
    row.iter().find(|(name, _)| name.eq_ignore_ascii_case(column)).map(|(_, cell)| cell.as_str())
}

/// Whether an object is ready, as far as its row says: `2/3`, `True`, or a number beside the one
/// that is desired.
fn is_ready(row: &[(String, String)]) -> Option<bool> {
    // A pod that has done its work is not meant to be ready.
    if cell(row, "Status").is_some_and(|status| matches!(status, "Completed" | "Succeeded")) {
        return None;
    }
    let ready = cell(row, "Ready")?;
    if let Some((ready, all)) = ready.split_once('/') {
        return Some(ready.parse::<u64>().ok()? >= all.parse::<u64>().ok()?);
    }
    match ready {
        "True" => Some(true),
        "False" | "Unknown" => Some(false),
        number => {
            let desired = cell(row, "Desired")?.parse::<u64>().ok()?;
            Some(number.parse::<u64>().ok()? >= desired)
        }
    }
}

/// What an object's row says: how much is ready, as `2/3` or `True`, whether that is enough, and its age.
#[derive(Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cells {
    ready: Option<String>,
    is_ready: Option<bool>,
    age: Option<String>,
}

impl From<Vec<(String, String)>> for Cells {
    fn from(row: Vec<(String, String)>) -> Self {
        let is_ready = is_ready(&row);
        let ready = cell(&row, "Ready").filter(|_| is_ready.is_some()).map(str::to_owned);
        let age = cell(&row, "Age").filter(|age| !matches!(*age, "" | "<unknown>")).map(str::to_owned);
        Self { ready, is_ready, age }
    }
}

/// The time between two answers.
const INTERVAL: Duration = Duration::from_secs(2);

/// What is left of what was below an object that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    Nothing,
    Something,
    /// Nothing that could be looked at.
    Unknown,
}

impl Session {
    /// Says that an object is gone, and what is left of what was below it: these, and perhaps `more`.
    async fn after(&self, root: &ObjectName, below: &[Identity], mut more: bool) -> (String, Below) {
        // What was at the end of a chain has stood longest.
        let reads = below.iter().rev().take(MOST_ROWS);
        let mut reads = futures::stream::iter(reads)
            .map(async |one| (ObjectName::from(one), self.api.read_live(one).await))
            .buffered(AT_ONCE);
        let mut left = Vec::new();
        more |= below.len() > MOST_ROWS;
        while let Some((name, live)) = reads.next().await {
            more |= matches!(live, Live::Failed(_) | Live::NotAsked);
            left.extend(matches!(live, Live::Found(_)).then_some(name));
        }
        let at_least = if more { "at least " } else { "" };
        let are = if left.len() == 1 { "is" } else { "are" };
        let (rest, below) = match (left.len(), more) {
            (0, false) => (String::new(), Below::Nothing),
            (0, true) => ("; what else was below it was not looked at".to_owned(), Below::Unknown),
            (count, _) => {
                let (count, names) = (counted(count, "object"), listed(", ", count, &left));
                (format!(", and {at_least}{count} below it {are} still there: {names}"), Below::Something)
            }
        };
        (format!("{root} is gone{rest}"), below)
    }

    /// Shows what belongs to an object every two seconds, until nothing of it is left or somebody ends the
    /// command. Says of an object that is gone what of its dependents is still there.
    ///
    /// # Errors
    ///
    /// There has been no answer at all, or the source is lost.
    pub async fn watch_tree(
        &self,
        collector: Option<&Collector>,
        query: &TreeQuery,
        mut show: impl FnMut(&Answer<Neighbourhood>) -> bool,
    ) -> Result<Option<(String, Below)>, InsightError> {
        let (mut root, mut below, mut more): (Option<Identity>, Vec<Identity>, _) = (None, Vec::new(), false);
        loop {
            let next = Instant::now() + INTERVAL;
            let answer = match collector {
                Some(collector) => self.tree_from(collector, query, root.as_ref()).await,
                None => self.tree(query, root.as_ref()).await,
            };
            match (answer, root.clone()) {
                // What is half known after Ctrl-C is no change.
                (_, Some(_)) if self.waiting.interrupted.is_cancelled() => return Ok(None),
                (Ok(answer), _) => {
                    let shown = &answer.report;
                    let Some(first) = shown.nodes.first() else { return Ok(None) };
                    let is_alone = shown.nodes.len() == 1 && shown.more.is_empty();
                    if root.is_some() && first.state == State::Absent && is_alone {
                        more |= !answer.incomplete.is_empty();
                        return Ok(Some(self.after(&first.name, &below, more).await));
                    }
                    let nodes = shown.nodes.iter().filter(|node| node.distance > 0);
                    below = nodes.filter_map(|node| node.identity.clone()).collect();
                    more = !shown.more.is_empty() || shown.truncated || !answer.incomplete.is_empty();
                    root = root.or_else(|| first.identity.clone());
                    if !show(&answer) {
                        return Ok(None);
                    }
                }
                (Err(InsightError::NoSuchObject(_) | InsightError::NotInGraph(_)), Some(root)) => {
                    return Ok(Some(self.after(&(&root).into(), &below, more).await));
                }
                // The collector may have been restarted.
                (Err(InsightError::Collector(CollectorError::Unreachable { .. })), Some(_)) => {}
                (Err(error), _) => return Err(error),
            }
            if self.waiting.interrupted.run_until_cancelled(sleep_until(next)).await.is_none() {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(cells: &[(&str, &str)]) -> Vec<(String, String)> {
        cells.iter().map(|&(name, cell)| (name.to_owned(), cell.to_owned())).collect()
    }

    #[test]
    fn rows_say_whether_an_object_is_ready() {
        for (cells, expected) in [
            (&[("Ready", "2/2")][..], Some(true)),
            (&[("READY", "1/2")], Some(false)),
            (&[("Ready", "0/0")], Some(true)),
            (&[("Ready", "0/1"), ("Status", "Completed")], None),
            (&[("Ready", "0/1"), ("Status", "Running")], Some(false)),
            (&[("Ready", "True")], Some(true)),
            (&[("Ready", "False")], Some(false)),
            (&[("Ready", "Unknown")], Some(false)),
            (&[("Desired", "3"), ("Ready", "2")], Some(false)),
            (&[("Desired", "3"), ("Ready", "3")], Some(true)),
            (&[("Ready", "3")], None),
            (&[("Ready", "")], None),
            (&[("Ready", "99999999999999999999/1")], None),
            (&[], None),
        ] {
            assert_eq!(is_ready(&row(cells)), expected, "{cells:?}");
        }
    }

    #[test]
    fn the_cells_of_a_row_are_what_it_says() {
        for (cells, expected) in [
            (&[("Name", "n"), ("Ready", "0/2"), ("Age", "5d")][..], json!(["0/2", false, "5d"])),
            (&[("Desired", "3"), ("Ready", "3")], json!(["3", true, null])),
            (&[("Ready", "Unknown")], json!(["Unknown", false, null])),
            (&[("Ready", "0/1"), ("Status", "Completed"), ("Age", "4m")], json!([null, null, "4m"])),
            (&[("Ready", "<b>"), ("Age", "<unknown>")], json!([null, null, null])),
            (&[("Age", "")], json!([null, null, null])),
        ] {
            let Cells { ready, is_ready, age } = row(cells).into();
            assert_eq!(json!([ready, is_ready, age]), expected, "{cells:?}");
        }
    }

    #[test]
    fn a_deletion_of_long_ago_is_worse_than_one_of_now() {
        for (state, deleted, grace, ready, expected) in [
            (State::Terminating, Some("2026-01-01T00:10:00Z"), 0, "1/1", Standing::Stuck),
            (State::Terminating, Some("2026-01-01T00:10:00Z"), 60, "1/1", Standing::Terminating),
            (State::DeletingDependents, Some("2026-01-01T00:11:30Z"), 0, "1/1", Standing::Terminating),
            (State::Terminating, Some("2026-01-01T00:13:00Z"), 0, "0/1", Standing::Terminating),
            (State::Terminating, None, 0, "0/1", Standing::Terminating),
            (State::Live, None, 0, "0/1", Standing::NotReady),
            (State::Live, None, 0, "1/1", Standing::Other),
        ] {
            let read = Some("2026-01-01T00:12:00Z".to_owned());
            let details = Details { read, deleted: deleted.map(str::to_owned), grace, ..Details::default() };
            let details = Some(details);
            let extra = NodeExtra { row: row(&[("Ready", ready)]), details };
            let node = Shown { state, extra, ..Shown::default() };
            assert_eq!(standing(&node), expected, "{state:?} {deleted:?} {ready}");
        }
    }

    #[test]
    fn what_is_known_of_all_that_are_not_shown_is_summed_up() {
        let rows = [
            row(&[("Ready", "1/1"), ("Age", "3d4h")]),
            row(&[("Ready", "0/1"), ("Age", "2y45d")]),
            row(&[("Ready", "1/1"), ("Age", "<unknown>")]),
            row(&[("Age", "90m")]),
        ];
        let node =
            |row: &Vec<_>| Shown { extra: NodeExtra { row: row.clone(), details: None }, ..Shown::default() };
        for (shown, ready, oldest) in
            [(&rows[..2], Some(1), Some("2y45d")), (&rows[..3], Some(2), None), (&rows[..], None, None)]
        {
            let mut more = Vec::new();
            for _ in shown {
                More::count_in(&mut more, 0, &Shown::default());
            }
            more[0].looked_at = shown.iter().map(node).collect();
            let hidden = Hidden::of(&more[0]);
            assert_eq!((hidden.ready, hidden.oldest.as_deref()), (ready, oldest));
        }
    }
}
