//! A namespace with half of all objects is deleted.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use tokio::time::sleep;

use super::Course;
use crate::subject::Subject;

/// The interval at which memory is read.
const EVERY: Duration = Duration::from_millis(500);

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Deletion {
    /// Objects in the namespace.
    pub objects: u64,
    /// How many of them the collector deleted. The others were deleted before it reached them.
    pub by_requests: u64,
    /// Until the collector had seen everything and had no work left.
    pub seconds: f64,
    pub before: f64,
    pub graph_before: f64,
    pub graph_after: f64,
    /// Memory over time, from the beginning of the deletion.
    pub course: Course,
}

impl Deletion {
    /// The resident memory at the end.
    pub fn after(&self) -> f64 {
        self.course.resident.last().map_or(self.before, |&(_, resident)| resident)
    }
}

/// Deletes the namespace, faster than a real cluster does, and observes memory until some time
/// afterwards.
pub async fn namespace(subject: &Subject, after: Duration) -> Result<Deletion> {
    let feeder = &subject.feeder;
    let (before, graph_before) = (subject.resident()?, subject.graph_bytes().await?);
    let began = Instant::now();
    let mut course = Course::default();
    let deleting = async {
        let mut objects = 0;
        let mut last = std::collections::BTreeMap::new();
        for number in feeder.cluster.of_merged() {
            objects += 1;
            if let Some((resource, version)) = feeder.delete(number).await {
                last.insert(resource, version);
            }
        }
        for told in last {
            subject.seen(Some(told)).await?;
        }
        let seconds = began.elapsed().as_secs_f64();
        sleep(after).await;
        anyhow::Ok((objects, seconds))
    };
    let (objects, seconds) = tokio::select! {
        done = deleting => done?,
        failed = course.follow(subject, EVERY) => match failed? {},
    };
    let cluster = &feeder.cluster;
    let graph = subject.graph(cluster.objects() - objects, None, cluster.links() - cluster.merged).await?;
    course.resident.push((began.elapsed().as_secs_f64(), subject.resident()?));
    Ok(Deletion {
        objects,
        by_requests: feeder.deleted(),
        seconds,
        before,
        graph_before,
        graph_after: graph.bytes,
        course,
    })
}
