//! Questions of people to a partition. It answers one after each batch of changes, so that an
//! answer does not wait for all changes that came before it.

use tokio::sync::{mpsc, oneshot};

use kube_gc_core::graph::Partition;

/// A question with the way back of its answer.
struct Question(Box<dyn FnOnce(&mut Partition) + Send>);

/// Takes questions to one partition. Cheap to clone.
#[derive(Clone)]
pub struct QuestionSender(mpsc::UnboundedSender<Question>);

/// The questions that wait for a partition. Their bound is that of the listener's requests and
/// streams: each of them waits for an answer before it asks again.
pub struct QuestionQueue {
    sender: QuestionSender,
    waiting: mpsc::UnboundedReceiver<Question>,
}

impl std::fmt::Debug for QuestionSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuestionSender").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for QuestionQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuestionQueue").finish_non_exhaustive()
    }
}

impl Default for QuestionQueue {
    fn default() -> Self {
        let (sender, waiting) = mpsc::unbounded_channel();
        Self { sender: QuestionSender(sender), waiting }
    }
}

impl QuestionSender {
    /// Queues a question. The receiver fails if the partition has ended.
    pub fn send<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Partition) -> A + Send + 'static,
    ) -> oneshot::Receiver<A> {
        let (answer, answered) = oneshot::channel();
        self.tell(move |partition| {
            // Who asked may have given up.
            if !answer.is_closed() {
                let _ = answer.send(question(partition));
            }
        });
        answered
    }

    /// Queues something that needs no answer.
    pub fn tell(&self, what: impl FnOnce(&mut Partition) + Send + 'static) {
        // If the partition has ended, this drops the way back of the answer.
        let _ = self.0.send(Question(Box::new(what)));
    }
}

impl QuestionQueue {
    /// Takes questions to this queue.
    #[must_use]
    pub fn sender(&self) -> QuestionSender {
        self.sender.clone()
    }

    /// Answers the question that has waited longest, if there is one.
    pub fn answer_one(&mut self, partition: &mut Partition) {
        if let Ok(Question(question)) = self.waiting.try_recv() {
            question(partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::actors::tests::sharding;
    use kube_gc_core::graph::PartitionId;

    #[test]
    fn a_question_that_nobody_waits_for_any_more_is_not_asked() {
        let mut partition = Partition::new(PartitionId(0), sharding(), Arc::default());
        let mut questions = QuestionQueue::default();
        let asked = Arc::new(AtomicUsize::new(0));
        let ask = || {
            let asked = Arc::clone(&asked);
            questions.sender().send(move |_| asked.fetch_add(1, Ordering::Relaxed))
        };
        let [given_up, mut kept] = [ask(), ask()];
        drop(given_up);
        for _ in 0..2 {
            questions.answer_one(&mut partition);
        }
        assert_eq!(kept.try_recv(), Ok(0), "the first that was asked");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
