//! Deliberate mistakes, with which the random worlds prove that they would find them.
//!
//! Each mistake is at the one line where somebody could make it. Tests choose one per thread with
//! the feature `mutations`. Without the feature, [`is()`] is `false` at compile time.

use kube_gc_core::mutations;

mutations! {
    /// A running container is a candidate.
    RunningMayGo,
    /// A container of unknown state is removed without a stop.
    UnknownWithoutStop,
    /// Containers that cannot be told apart go nevertheless.
    DuplicatesMayGo,
    /// A pod that is missing in the list is gone, without a live look.
    MissingIsGone,
    /// A pod of the same name that mirrors the missing one proves that it is gone.
    MirrorIsAnotherPod,
    /// Static pods are gone like others.
    StaticMayBeGone,
    /// It does not matter that the API server knows few of the ready sandboxes.
    TrustNodeName,
    /// Without an API server, every pod is gone.
    NoApiServerMeansGone,
    /// Beside a kubelet, the newest dead instance goes.
    NewestDeadMayGo,
    /// A container that was just created goes before it is started.
    YoungCreatedMayGo,
    /// A dry run removes.
    ActInDryRun,
    /// A pass removes as many containers as there are.
    NoContainerLimit,
    /// A pass removes as many images as there are.
    NoImageLimit,
    /// A ready sandbox goes.
    ReadyMayGo,
    /// A sandbox goes with containers in it.
    SandboxWithContainersMayGo,
    /// A log path may lead anywhere.
    TrustLogPath,
    /// The logs of a pod go while it runs.
    LogsOfRunningMayGo,
    /// Only running containers use their images.
    OnlyRunningUsesImages,
    /// Image volumes do not use images.
    ForgetImageVolumes,
    /// The specs of pods do not use images.
    ForgetSpecs,
    /// Pinned images go.
    PinnedMayGo,
    /// A list in slices is taken for whole.
    TrustSlices,
    /// The second look at a candidate is left out.
    NoSecondLook,
    /// Images of the pass are not looked at again when containers are listed again.
    NoSecondList,
    /// An image goes however young it is.
    YoungImagesMayGo,
    /// Images go on and on, however much space is free by now.
    IgnoreUsage,
}
