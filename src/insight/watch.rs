//! What belongs to an object, again and again.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::answer::{TreeAnswer, TreeQuery};
use super::collector::{Collector, CollectorError, Events};
use super::error::InsightError;
use super::lists::Watcher;
use super::session::Session;
use kube_gc_insight::Neighbourhood;

/// The time between two answers, in which details are read.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long to wait for a collector that has ended its stream before it is asked again.
const RECONNECT: Duration = Duration::from_secs(1);

/// What follows the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Another one.
    Stream,
    /// Nothing: the object is gone, or nobody looks any more.
    End,
}

impl Session {
    /// Shows what belongs to an object whenever it may have changed, until the object is gone or
    /// somebody ends the command. Lists are read every two seconds; a collector says when something
    /// has changed.
    ///
    /// # Errors
    ///
    /// There has been no answer at all, or the source is lost.
    pub async fn watch_tree(
        &self,
        collector: Option<&Collector>,
        query: &TreeQuery,
        watcher: &Watcher<'_>,
        mut show: impl FnMut(&TreeAnswer) -> bool,
    ) -> Result<(), InsightError> {
        match collector {
            Some(collector) => self.follow_tree(collector, query, watcher, &mut show).await,
            None => self.list_again(query, watcher, &mut show).await,
        }
    }

    async fn list_again(
        &self,
        query: &TreeQuery,
        watcher: &Watcher<'_>,
        show: &mut impl FnMut(&TreeAnswer) -> bool,
    ) -> Result<(), InsightError> {
        let mut is_first = true;
        loop {
            let next = Instant::now() + INTERVAL;
            match self.tree(query, watcher).await {
                // What is half known after Ctrl-C is no change.
                _ if watcher.interrupted.is_cancelled() && !is_first => return Ok(()),
                Ok(answer) if !show(&answer) => return Ok(()),
                Ok(_) => is_first = false,
                Err(InsightError::NoSuchObject(_)) if !is_first => return Ok(()),
                Err(error) => return Err(error),
            }
            if watcher.interrupted.run_until_cancelled(sleep_until(next)).await.is_none() {
                return Ok(());
            }
        }
    }

    async fn follow_tree(
        &self,
        collector: &Collector,
        query: &TreeQuery,
        watcher: &Watcher<'_>,
        show: &mut impl FnMut(&TreeAnswer) -> bool,
    ) -> Result<(), InsightError> {
        let object = self.object_ref(&query.object).await?;
        let following = async {
            let mut is_first = true;
            loop {
                let mut events = match self.follow(collector, &object, query).await {
                    Ok(events) => events,
                    // It may have been restarted.
                    Err(InsightError::Collector(CollectorError::Unreachable { .. })) if !is_first => {
                        sleep_until(Instant::now() + RECONNECT).await;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                if self.show_events(&mut events, query, watcher, show, &mut is_first).await? == Next::End {
                    return Ok(());
                }
                sleep_until(Instant::now() + RECONNECT).await;
            }
        };
        watcher.interrupted.run_until_cancelled(following).await.unwrap_or(Ok(()))
    }

    /// Shows the newest event, as often as its details may be read.
    async fn show_events(
        &self,
        events: &mut Events<Neighbourhood>,
        query: &TreeQuery,
        watcher: &Watcher<'_>,
        show: &mut impl FnMut(&TreeAnswer) -> bool,
        is_first: &mut bool,
    ) -> Result<Next, InsightError> {
        let mut newest = None;
        let mut due = Instant::now();
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Ok(Some(page)) => newest = Some(page),
                    // A stream ends now and then, and a new one begins with the whole state.
                    Ok(None) | Err(CollectorError::Unreachable { .. }) => return Ok(Next::Stream),
                    Err(error) => return Err(error.into()),
                },
                () = sleep_until(due), if newest.is_some() => {
                    let page = newest.take().unwrap_or_default();
                    if page.answer.nodes.is_empty() {
                        if *is_first {
                            let why = "the graph of the collector does not have this object; --from lists asks the \
                                 API server";
                            return Err(InsightError::NoSuchObject(why.to_owned()));
                        }
                        return Ok(Next::End);
                    }
                    let answer = self.tree_of(page, query, watcher).await;
                    if !show(&answer) {
                        return Ok(Next::End);
                    }
                    *is_first = false;
                    due = Instant::now() + if query.with_rows { INTERVAL } else { Duration::ZERO };
                }
            }
        }
    }
}
