//! How fast the owners of large objects are looked up, and in which portions.

/// How many owners of large objects are looked up in a second, over all objects.
/// kube-controller-manager looks up 20 owners in a second for all kinds of objects.
pub(super) const LOOK_UPS_PER_SECOND: u32 = 250;
/// How many look-ups may follow each other without a pause after an idle time.
pub(super) const BURST: u32 = 250;
/// Owners of one object that are looked up before the next object has its turn. The pool takes its
/// objects in turns between namespaces, so this also bounds how far one namespace is ahead.
pub(super) const LOOK_UPS_A_TURN: usize = 64;
/// References that are classified between two yields, about half a millisecond of work.
pub(super) const REFERENCES_A_TURN: usize = 256;

/// Yields to other tasks of the thread at regular intervals.
#[derive(Debug, Default)]
pub(super) struct Turns(usize);

impl Turns {
    /// Counts one more reference.
    pub(super) async fn next(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(REFERENCES_A_TURN) {
            tokio::task::yield_now().await;
        }
    }
}
