//! The actions of the steps.

mod admission;
mod change;
mod create;
mod delete;
mod faults;
mod references;
mod restore;
mod scenes;

pub use self::admission::{BOUND, in_admission};
pub use self::references::FOREIGN;
pub use self::scenes::Stage;

use super::plan::Action;
use super::random::Random;
use super::world::World;

/// What the run itself must do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Continue.
    GoOn,
    /// Kill the collector at once.
    Crash,
}

/// Carries out one action.
pub async fn act(action: Action, world: &mut World, random: &mut Random) -> After {
    match action {
        Action::CreateTree => create::tree(world, random).await,
        Action::Create => create::one(world, random).await,
        Action::CreateLarge => create::large(world, random).await,
        Action::CreateCycle => create::cycle(world, random).await,
        Action::Adopt => change::adopt(world, random).await,
        Action::Release => change::release(world, random).await,
        Action::ChangeOwners => change::change_owners(world, random).await,
        Action::FlipBlocking => change::flip_blocking(world, random).await,
        Action::Delete => delete::one(world, random).await,
        Action::DeleteAgain => delete::again(world, random).await,
        Action::DeleteCollection => delete::collection(world, random).await,
        Action::AddFinalizer => change::add_finalizer(world, random).await,
        Action::RemoveFinalizer => change::remove_finalizer(world, random).await,
        Action::ClearFinalizers => change::clear_finalizers(world, random).await,
        Action::Label => change::label(world, random).await,
        Action::Recreate => delete::recreate(world, random).await,
        Action::CreateType => create::definition(world, random).await,
        Action::DropType => delete::definition(world, random).await,
        Action::CreateNamespace => create::namespace(world, random).await,
        Action::DeleteNamespace => delete::namespace(world, random).await,
        Action::CutWatches => faults::cut(world, random),
        Action::StallWatches => faults::stall(world, random),
        Action::Deny => faults::deny(world, random),
        Action::Webhook => faults::webhook(world, random),
        Action::Unlistable => faults::unlistable(world, random),
        Action::Freeze => faults::freeze(world, random),
        Action::Compact => faults::compact(world),
        Action::ChangeOfMind => scenes::change_of_mind(world, random).await,
        Action::ChangeOfMindInAQueue => scenes::change_of_mind_in_a_queue(world, random).await,
        Action::LateAmongMany => scenes::late_among_many(world, random).await,
        Action::UnseenOrphan => scenes::unseen_orphan(world, random).await,
        Action::BehindTheTimes => scenes::behind_the_times(world, random).await,
        Action::Blackout => faults::blackout(world, random),
        Action::LoseLease => faults::lose_lease(world, random),
        Action::BackUp => restore::back_up(world),
        Action::Restore => restore::restore(world, random).await,
        Action::RestoreRaised => restore::restore_raised(world, random).await,
        Action::OmitType => scenes::omit_type(world, random).await,
        Action::Birth => admission::birth(world, random).await,
        Action::DenyByAdmission => admission::deny(world, random).await,
        Action::BringBack => admission::bring_back(world, random).await,
        Action::GroupAway => return scenes::group_away(world, random).await,
        Action::Crash => return After::Crash,
        Action::Pass => faults::pass(random).await,
        Action::Jump => faults::jump(world, random).await,
    }
    After::GoOn
}
