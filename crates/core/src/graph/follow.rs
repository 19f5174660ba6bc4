//! Who follows answers, and is woken when one of them may have changed.
//!
//! An answer is about some uids. Everything that a [view](super::NodeView) shows of a node is
//! changed by an event about its own uid, about one of its owners, or about one of its dependents.
//! So a follower asks for the uids of the nodes and of their owners, and a change of a node counts
//! for its owners, too. An event that changes nothing in the graph wakes nobody.

use std::task::Waker;

use super::Partition;
use super::node::NodeId;
use super::store::Store;
use crate::object::{Keyed, KeyedSet, Uid};

/// The most uids that are kept of one follower. One that asks for more is woken by each change.
const MOST_UIDS: usize = 1024;

/// Who follows the answer to a question.
#[derive(Clone, Debug)]
pub struct Follower {
    /// Who it is.
    pub id: u64,
    /// The number of the question. What an earlier question was about no longer counts.
    pub question: u64,
    pub waker: Waker,
}

/// The followers of a partition. They are few.
#[derive(Debug)]
pub(super) struct Followers {
    all: Vec<Following>,
    hasher: Keyed,
}

/// What a follower has asked for.
#[derive(Debug)]
struct Following {
    follower: Follower,
    uids: KeyedSet<Uid>,
    /// Whether it has asked for more than is kept.
    of_all: bool,
    /// Whether something has changed since it asked.
    is_outdated: bool,
    /// Whether it has not been woken since.
    is_to_be_woken: bool,
}

impl Followers {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { all: Vec::new(), hasher }
    }

    /// Whether nobody could be woken, which costs nothing to find out.
    pub(super) fn is_idle(&self) -> bool {
        self.all.iter().all(|following| following.is_outdated)
    }

    /// Something that an answer shows of this uid has changed.
    pub(super) fn changed(&mut self, uid: &Uid) {
        self.outdate(|following| following.of_all || following.uids.contains(uid));
    }

    /// Something has changed that any answer may rest on.
    pub(super) fn everything_changed(&mut self) {
        self.outdate(|_| true);
    }

    fn outdate(&mut self, concerns: impl Fn(&Following) -> bool) {
        for following in self.all.iter_mut().filter(|following| !following.is_outdated) {
            following.is_outdated = concerns(following);
            following.is_to_be_woken |= following.is_outdated;
        }
    }

    /// Follows a uid, until the follower asks another question.
    pub(super) fn follow(&mut self, follower: &Follower, uid: &Uid) {
        let Self { all, hasher } = self;
        let place = all.iter().position(|following| following.follower.id == follower.id);
        let place = place.unwrap_or_else(|| {
            all.push(Following {
                follower: follower.clone(),
                uids: KeyedSet::with_hasher(*hasher),
                of_all: false,
                is_outdated: false,
                is_to_be_woken: false,
            });
            all.len() - 1
        });
        let following = &mut all[place];
        if following.follower.question != follower.question {
            following.follower = follower.clone();
            following.uids.clear();
            following.of_all = false;
            (following.is_outdated, following.is_to_be_woken) = (false, false);
        }
        if following.uids.len() < MOST_UIDS {
            following.uids.insert(uid.clone());
        } else {
            following.of_all |= !following.uids.contains(uid);
        }
    }

    /// Forgets a follower.
    pub(super) fn unfollow(&mut self, id: u64) {
        self.all.retain(|following| following.follower.id != id);
    }

    /// The followers whose answers may have changed, each once after its question.
    pub(super) fn outdated(&mut self) -> impl Iterator<Item = &Waker> {
        let to_wake = |following: &&mut Following| following.is_to_be_woken;
        self.all.iter_mut().filter(to_wake).map(|following| {
            following.is_to_be_woken = false;
            &following.follower.waker
        })
    }
}

impl Store {
    /// A node has changed, as its own view or that of an owner shows it.
    pub(super) fn changed(&mut self, id: NodeId) {
        if self.followers.is_idle() {
            return;
        }
        let Self { followers, nodes, edges, .. } = self;
        followers.changed(&nodes[id].uid);
        let mut next = nodes[id].first_owner;
        while let Some(edge) = next.filter(|_| !followers.is_idle()) {
            followers.changed(&nodes[edges[edge].owner].uid);
            next = edges[edge].next_owner;
        }
    }

    /// A node has got a dependent, or is going to lose one. The dependent itself has changed, too.
    pub(super) fn dependents_changed(&mut self, owner: NodeId) {
        let Self { followers, nodes, .. } = self;
        if !followers.is_idle() {
            followers.changed(&nodes[owner].uid);
        }
    }
}

impl Partition {
    /// Follows a uid, until the follower asks another question.
    pub fn follow(&mut self, follower: &Follower, uid: &Uid) {
        self.store.followers.follow(follower, uid);
    }

    /// Forgets a follower.
    pub fn unfollow(&mut self, id: u64) {
        self.store.followers.unfollow(id);
    }

    /// The followers whose answers may have changed, each once after its question.
    pub fn outdated(&mut self) -> impl Iterator<Item = &Waker> {
        self.store.followers.outdated()
    }

    /// Something has changed that any answer may rest on: which types there are, and which are
    /// synced.
    pub(super) fn everything_changed(&mut self) {
        self.store.followers.everything_changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever looks at the same uid for several facts does not ask for more.
    #[test]
    fn only_more_uids_than_are_kept_make_a_follower_one_of_all() {
        let uid = |number: usize| Uid::parse(&format!("uid-{number}")).unwrap();
        let mut followers = Followers::new(crate::object::HashSeed::new(1).keyed(0));
        let follower = Follower { id: 1, question: 1, waker: Waker::noop().clone() };
        for number in (0..MOST_UIDS).chain(0..MOST_UIDS) {
            followers.follow(&follower, &uid(number));
        }
        followers.changed(&uid(MOST_UIDS));
        assert_eq!(followers.outdated().count(), 0);
        followers.follow(&follower, &uid(MOST_UIDS));
        followers.changed(&uid(MOST_UIDS + 1));
        assert_eq!(followers.outdated().count(), 1);
    }
}
