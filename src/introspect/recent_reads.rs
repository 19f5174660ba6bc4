//! Live reads of the last seconds, so that pages that are asked again and again do not keep the API
//! server busy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use kube_gc_core::object::{Identity, OwnerReference, Uid};
use kube_gc_insight::{AbsenceEvidence, Details, Live, LiveObject};

/// How long a read counts.
const AGE: Duration = Duration::from_secs(10);
/// The most reads that are kept.
const CAPACITY: usize = 256;
/// The most bytes of a read that is kept. Names and uids of references can have any length.
const MOST_BYTES: usize = 8 << 10;

/// The reads of the last seconds. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RecentReads(Arc<Mutex<HashMap<Identity, (Instant, Live)>>>);

impl RecentReads {
    fn entries(&self) -> MutexGuard<'_, HashMap<Identity, (Instant, Live)>> {
        // Each entry is replaced as a whole, so a panic elsewhere leaves none half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a read has shown in the last seconds.
    pub fn get(&self, identity: &Identity) -> Option<Live> {
        let entries = self.entries();
        let (at, live) = entries.get(identity)?;
        (at.elapsed() < AGE).then(|| live.clone())
    }

    /// Keeps a read, without details. There is no room for large objects, nor for many.
    pub fn put(&self, identity: &Identity, live: &Live) {
        if bytes(identity, live) > MOST_BYTES {
            return;
        }
        let kept = match live {
            Live::Found(object) => {
                Live::Found(Box::new(LiveObject { facts: object.facts.clone(), details: Details::default() }))
            }
            Live::Absent(_) | Live::Failed(_) => live.clone(),
            Live::NotAsked => return,
        };
        let mut entries = self.entries();
        if entries.len() >= CAPACITY {
            entries.retain(|_, (at, _)| at.elapsed() < AGE);
        }
        if entries.len() < CAPACITY {
            entries.insert(identity.clone(), (Instant::now(), kept));
        }
    }
}

/// About how many bytes a read takes.
fn bytes(identity: &Identity, live: &Live) -> usize {
    let text = |uid: &Uid| uid.to_string().len();
    let named = size_of::<(Identity, Instant, Live)>() + identity.name.len() + text(&identity.uid);
    named
        + match live {
            Live::Found(object) => {
                let owners = object.facts.owners.iter().map(|owner| {
                    let texts = owner.api_version.len() + owner.kind.len() + owner.name.len();
                    size_of::<OwnerReference>() + texts + text(&owner.uid)
                });
                size_of::<LiveObject>() + object.facts.name.len() + owners.sum::<usize>()
            }
            Live::Absent(AbsenceEvidence::OtherUid(uid)) => text(uid),
            Live::Failed(why) => why.len(),
            Live::Absent(AbsenceEvidence::NotFound) | Live::NotAsked => 0,
        }
}

#[cfg(test)]
mod tests {
    use kube_gc_core::object::{GroupResource, ResourceType, Scope};

    use super::*;

    fn identity(name: &str) -> Identity {
        let resource = ResourceType {
            group_resource: GroupResource::new("", "events"),
            version: "v1".into(),
            kind: "Event".into(),
            scope: Scope::Cluster,
        };
        let uid = Uid::parse(name).unwrap();
        Identity { resource: Arc::new(resource), namespace: None, name: name.into(), uid }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_counts_for_ten_seconds() {
        let reads = RecentReads::default();
        let absent = Live::Absent(AbsenceEvidence::NotFound);
        reads.put(&identity("a"), &absent);
        assert_eq!(reads.get(&identity("a")), Some(absent));
        assert_eq!(reads.get(&identity("b")), None);
        tokio::time::advance(AGE).await;
        assert_eq!(reads.get(&identity("a")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn neither_many_nor_large_reads_are_kept() {
        let reads = RecentReads::default();
        let failed = Live::Failed("503".to_owned());
        reads.put(&identity(&"x".repeat(MOST_BYTES)), &failed);
        assert!(reads.entries().is_empty());
        for number in 0..2 * CAPACITY {
            reads.put(&identity(&number.to_string()), &failed);
        }
        assert_eq!(reads.entries().len(), CAPACITY);
        tokio::time::advance(AGE).await;
        reads.put(&identity("new"), &failed);
        assert_eq!(reads.entries().len(), 1, "old reads make room");
    }
}
