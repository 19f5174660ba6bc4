//! Answers the questions of workers and takes their reports.

use actix::{Context, Handler, MessageResult};

use super::GraphActor;
use crate::actors::messages::{
    AskConcerned, AskOwner, AskSnapshot, AskUnread, Expect, Finding, Identify, Locate, LookAtSmall, Page,
    PageOfDependents, Show, Verified,
};
use kube_gc_core::graph::Verification;

impl Handler<AskSnapshot> for GraphActor {
    type Result = MessageResult<AskSnapshot>;

    fn handle(&mut self, AskSnapshot(key): AskSnapshot, ctx: &mut Context<Self>) -> Self::Result {
        MessageResult(self.update(ctx, |partition, effects| partition.snapshot_and_queue(&key, effects)))
    }
}

impl Handler<LookAtSmall> for GraphActor {
    type Result = MessageResult<LookAtSmall>;

    fn handle(&mut self, LookAtSmall(key): LookAtSmall, ctx: &mut Context<Self>) -> Self::Result {
        MessageResult(
            self.update(ctx, |partition, effects| partition.snapshot_and_queue_small(&key, effects)),
        )
    }
}

impl Handler<AskOwner> for GraphActor {
    type Result = MessageResult<AskOwner>;

    fn handle(&mut self, AskOwner(identity): AskOwner, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.owner_state(&identity))
    }
}

impl Handler<AskUnread> for GraphActor {
    type Result = bool;

    fn handle(&mut self, AskUnread(owner): AskUnread, _: &mut Context<Self>) -> Self::Result {
        self.partition.is_blocked_through_unread(&owner)
    }
}

impl Handler<Verified> for GraphActor {
    type Result = MessageResult<Verified>;

    fn handle(&mut self, verified: Verified, ctx: &mut Context<Self>) -> Self::Result {
        let Verified { identity, generation, under, finding } = verified;
        let is_void = under.is_some_and(|number| number < self.partition.disturbance());
        MessageResult(self.update(ctx, |partition, effects| match finding {
            _ if is_void => {
                partition.requeue(&identity.key(), effects);
                Verification::Stale
            }
            Finding::Absent => partition.absence_proved(&identity, generation, effects),
            Finding::NotServed => partition.not_resolved(&identity, generation, effects),
        }))
    }
}

impl Handler<PageOfDependents> for GraphActor {
    type Result = Page;

    fn handle(&mut self, page: PageOfDependents, _: &mut Context<Self>) -> Self::Result {
        let PageOfDependents { owner, after, limit } = page;
        let (dependents, next) = self.partition.dependents(&owner, after, limit);
        Page { dependents, next }
    }
}

impl Handler<Locate> for GraphActor {
    type Result = MessageResult<Locate>;

    fn handle(&mut self, Locate(uid): Locate, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.observed(&uid))
    }
}

impl Handler<Identify> for GraphActor {
    type Result = MessageResult<Identify>;

    fn handle(&mut self, Identify(key): Identify, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.identify(&key))
    }
}

impl Handler<Show> for GraphActor {
    type Result = MessageResult<Show>;

    fn handle(&mut self, Show(keys): Show, _: &mut Context<Self>) -> Self::Result {
        MessageResult(keys.iter().map(|key| self.partition.observed_object(key)).collect())
    }
}

impl Handler<AskConcerned> for GraphActor {
    type Result = MessageResult<AskConcerned>;

    fn handle(&mut self, asked: AskConcerned, _: &mut Context<Self>) -> Self::Result {
        let AskConcerned { keys, by } = asked;
        MessageResult(keys.iter().map(|key| self.partition.is_concerned(key, &by)).collect())
    }
}

impl Handler<Expect> for GraphActor {
    type Result = ();

    fn handle(&mut self, Expect { key, change, under }: Expect, _: &mut Context<Self>) {
        // The store may have lost what was written before.
        if under.is_none_or(|number| number >= self.partition.disturbance()) {
            self.partition.expect_event(&key, &change);
        }
    }
}
