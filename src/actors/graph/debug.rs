//! Answers metrics and debug pages, one page at a time, so that the partition soon returns to its
//! work.

use actix::{Context, Handler, MessageResult};

use super::GraphActor;
use crate::actors::messages::{
    AskAround, AskBetter, AskEdges, AskNodes, AskNodesOf, AskPopulation, AskStatus, AskWaiting, IdentifyAll,
    PartitionStatus,
};

impl Handler<AskNodes> for GraphActor {
    type Result = MessageResult<AskNodes>;

    fn handle(&mut self, AskNodes { after, slots }: AskNodes, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.page_of_nodes(after, slots))
    }
}

impl Handler<AskEdges> for GraphActor {
    type Result = MessageResult<AskEdges>;

    fn handle(&mut self, AskEdges { after, slots }: AskEdges, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.page_of_edges(after, slots))
    }
}

impl Handler<AskBetter> for GraphActor {
    type Result = Vec<bool>;

    fn handle(&mut self, AskBetter { asker, shown }: AskBetter, _: &mut Context<Self>) -> Self::Result {
        self.partition.shows_better(asker, &shown)
    }
}

impl Handler<AskNodesOf> for GraphActor {
    type Result = MessageResult<AskNodesOf>;

    fn handle(&mut self, AskNodesOf(uids): AskNodesOf, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.nodes_of(&uids))
    }
}

impl Handler<AskAround> for GraphActor {
    type Result = MessageResult<AskAround>;

    fn handle(&mut self, AskAround(ids): AskAround, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.neighborhood(&ids))
    }
}

impl Handler<AskWaiting> for GraphActor {
    type Result = MessageResult<AskWaiting>;

    fn handle(&mut self, AskWaiting(filter): AskWaiting, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.stuck_objects(self.began.elapsed(), &filter))
    }
}

impl Handler<IdentifyAll> for GraphActor {
    type Result = MessageResult<IdentifyAll>;

    fn handle(&mut self, IdentifyAll(keys): IdentifyAll, _: &mut Context<Self>) -> Self::Result {
        MessageResult(keys.iter().map(|key| self.partition.identify(key)).collect())
    }
}

impl Handler<AskStatus> for GraphActor {
    type Result = PartitionStatus;

    fn handle(&mut self, AskStatus: AskStatus, _: &mut Context<Self>) -> Self::Result {
        PartitionStatus {
            stats: self.partition.stats(),
            outbox: self.outbox.len() + usize::from(!self.outbox.is_empty()),
        }
    }
}

impl Handler<AskPopulation> for GraphActor {
    type Result = usize;

    fn handle(&mut self, AskPopulation(resource): AskPopulation, _: &mut Context<Self>) -> Self::Result {
        self.partition.population(&resource)
    }
}
