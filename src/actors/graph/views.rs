//! What people are shown of a partition: a page at a time, so that it is soon back
//! at its work.

use actix::{Context, Handler, MessageResult};

use super::GraphActor;
use crate::actors::messages::{
    AskAround, AskBetter, AskEdges, AskNodes, AskNodesOf, AskWaiting, IdentifyAll,
};

impl Handler<AskNodes> for GraphActor {
    type Result = MessageResult<AskNodes>;

    fn handle(&mut self, AskNodes { after, places }: AskNodes, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.page_of_nodes(after, places))
    }
}

impl Handler<AskEdges> for GraphActor {
    type Result = MessageResult<AskEdges>;

    fn handle(&mut self, AskEdges { after, places }: AskEdges, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.partition.page_of_edges(after, places))
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
