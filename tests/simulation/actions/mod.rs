//! The actions of the steps.

mod admission;
mod change;
mod create;
mod delete;
mod faults;
mod references;
mod restore;
mod scenes;

pub use self::references::FOREIGN;

use futures::future::LocalBoxFuture;

use super::random::Random;
use super::world::World;

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates owners and dependents on several levels at once.
    CreateTree,
    /// Creates one object with any references.
    Create,
    /// Creates one object that names some hundreds of owners, hardly any of which exists.
    CreateLarge,
    /// Creates owners that own each other.
    CreateCycle,
    /// Adds a reference.
    Adopt,
    /// Removes a reference.
    Release,
    /// Replaces all references.
    ChangeOwners,
    /// Changes `blockOwnerDeletion` of one reference.
    FlipBlocking,
    /// Deletes one object.
    Delete,
    /// Deletes an object that is being deleted already.
    DeleteAgain,
    /// Deletes a collection.
    DeleteCollection,
    /// Adds a finalizer that is not the collector's.
    AddFinalizer,
    /// Removes such a finalizer.
    RemoveFinalizer,
    /// Removes all such finalizers of one object.
    ClearFinalizers,
    /// Changes a label.
    Label,
    /// Deletes an object and creates another one with its name.
    Recreate,
    /// Creates a custom type.
    CreateType,
    /// Removes a custom type and its objects.
    DropType,
    /// Creates a namespace.
    CreateNamespace,
    /// Deletes a namespace and its objects.
    DeleteNamespace,
    /// Breaks watches.
    CutWatches,
    /// Stalls the watches of one type for a while.
    StallWatches,
    /// Denies writes of a type from now on, or allows them again.
    Deny,
    /// Adds a webhook that hangs or fails for one verb, type and namespace, or removes it.
    Webhook,
    /// Makes lists of a type fail from now on, or work again.
    Unlistable,
    /// Stops the watch cache of a type, or lets it continue.
    Freeze,
    /// Compacts the history of the store.
    Compact,
    /// Deletes an owner in the foreground and then with Orphan, before the watches show the
    /// change.
    ChangeOfMind,
    /// The same while many dependents wait for the collector's rate limit.
    ChangeOfMindInAQueue,
    /// An orphan deletion with a dependent of a type that cannot be listed.
    UnseenOrphan,
    /// A type is listed again by a server that has not seen its newest owner yet.
    BehindTheTimes,
    /// An orphan deletion with several dependents, one of which is late.
    LateAmongMany,
    /// Nothing is reachable for a while.
    Blackout,
    /// Another replica takes the lease for a while.
    LoseLease,
    /// Takes a backup of the store.
    BackUp,
    /// Restores the store from the last backup.
    Restore,
    /// The same, with a version that is higher than any before.
    RestoreRaised,
    /// Discovery omits a type for a while.
    OmitType,
    /// Dependents of an object that is still in admission, which may deny it in the end.
    Birth,
    /// Admission denies deletions or changes of a type with any answer, while a chain of owners is
    /// deleted.
    DenyByAdmission,
    /// An orphan deletion while admission brings back the references that are removed.
    BringBack,
    /// The collector is killed and starts while an API group does not answer, which has dependents
    /// of an owner that orphans them.
    GroupAway,
    /// Kills the collector and starts it again.
    Crash,
    /// Lets some time pass.
    Pass,
    /// Lets much time pass at once.
    Jump,
}

/// What a step does.
pub type Act = for<'a> fn(&'a mut World, &'a mut Random) -> LocalBoxFuture<'a, ()>;

/// Every action, with its weight if it is enabled, whether it is a fault and not an action of a user, and what
/// it does.
pub const ACTIONS: [(Action, u32, bool, Act); 45] = [
    (Action::CreateTree, 30, false, |world, random| Box::pin(create::tree(world, random))),
    (Action::Create, 60, false, |world, random| Box::pin(create::one(world, random))),
    (Action::CreateCycle, 12, false, |world, random| Box::pin(create::cycle(world, random))),
    (Action::Adopt, 40, false, |world, random| Box::pin(change::adopt(world, random))),
    (Action::Release, 20, false, |world, random| Box::pin(change::release(world, random))),
    (Action::ChangeOwners, 15, false, |world, random| Box::pin(change::change_owners(world, random))),
    (Action::FlipBlocking, 15, false, |world, random| Box::pin(change::flip_blocking(world, random))),
    (Action::Delete, 90, false, |world, random| Box::pin(delete::one(world, random))),
    (Action::DeleteAgain, 25, false, |world, random| Box::pin(delete::again(world, random))),
    (Action::DeleteCollection, 3, false, |world, random| Box::pin(delete::collection(world, random))),
    (Action::AddFinalizer, 15, false, |world, random| Box::pin(change::add_finalizer(world, random))),
    (Action::RemoveFinalizer, 30, false, |world, random| Box::pin(change::remove_finalizer(world, random))),
    (Action::ClearFinalizers, 15, false, |world, random| Box::pin(change::clear_finalizers(world, random))),
    (Action::Label, 20, false, |world, random| Box::pin(change::label(world, random))),
    (Action::Recreate, 20, false, |world, random| Box::pin(delete::recreate(world, random))),
    (Action::CreateType, 12, false, |world, random| Box::pin(create::definition(world, random))),
    (Action::DropType, 6, false, |world, random| Box::pin(delete::definition(world, random))),
    (Action::CreateNamespace, 10, false, |world, random| Box::pin(create::namespace(world, random))),
    (Action::DeleteNamespace, 4, false, |world, random| Box::pin(delete::namespace(world, random))),
    (Action::CutWatches, 12, true, |world, random| Box::pin(faults::cut(world, random))),
    (Action::StallWatches, 12, true, |world, random| Box::pin(faults::stall(world, random))),
    (Action::Deny, 8, true, |world, random| Box::pin(faults::deny(world, random))),
    (Action::Unlistable, 8, true, |world, random| Box::pin(faults::unlistable(world, random))),
    (Action::Freeze, 10, true, |world, random| Box::pin(faults::freeze(world, random))),
    (Action::Compact, 6, true, |world, random| Box::pin(faults::compact(world, random))),
    (Action::ChangeOfMind, 4, true, |world, random| Box::pin(scenes::change_of_mind(world, random))),
    (Action::UnseenOrphan, 4, true, |world, random| Box::pin(scenes::unseen_orphan(world, random))),
    (Action::BehindTheTimes, 4, true, |world, random| Box::pin(scenes::behind_the_times(world, random))),
    (Action::Blackout, 4, true, |world, random| Box::pin(faults::blackout(world, random))),
    (Action::Crash, 5, true, |world, random| Box::pin(faults::crash(world, random))),
    (Action::Pass, 90, false, |world, random| Box::pin(faults::pass(world, random))),
    (Action::Jump, 6, false, |world, random| Box::pin(faults::jump(world, random))),
    (Action::BackUp, 40, true, |world, random| Box::pin(restore::back_up(world, random))),
    (Action::Restore, 12, true, |world, random| Box::pin(restore::restore(world, random))),
    (Action::LoseLease, 30, true, |world, random| Box::pin(faults::lose_lease(world, random))),
    (Action::LateAmongMany, 30, true, |world, random| Box::pin(scenes::late_among_many(world, random))),
    (Action::Webhook, 20, true, |world, random| Box::pin(faults::webhook(world, random))),
    (Action::CreateLarge, 40, false, |world, random| Box::pin(create::large(world, random))),
    (Action::ChangeOfMindInAQueue, 30, true, |world, random| {
        Box::pin(scenes::change_of_mind_in_a_queue(world, random))
    }),
    (Action::RestoreRaised, 12, true, |world, random| Box::pin(restore::restore_raised(world, random))),
    (Action::OmitType, 20, true, |world, random| Box::pin(scenes::omit_type(world, random))),
    (Action::Birth, 60, false, |world, random| Box::pin(admission::birth(world, random))),
    (Action::DenyByAdmission, 30, false, |world, random| Box::pin(admission::deny(world, random))),
    (Action::BringBack, 30, false, |world, random| Box::pin(admission::bring_back(world, random))),
    (Action::GroupAway, 15, true, |world, random| Box::pin(scenes::group_away(world, random))),
];
