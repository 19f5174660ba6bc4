//! What else is written on the Lease.

use std::fmt;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;

/// Somebody who has something to say to whoever leads next, and to hear from people, by
/// way of the Lease's annotations. Called by the elector, and must not take long.
pub trait LeaseAnnotations: fmt::Debug + Send + Sync {
    /// This replica leads, and the Lease is as it was read or written just now.
    fn read(&self, lease: &Lease);

    /// This replica is about to take the Lease of one that has not given it back.
    fn inherit(&self, lease: &Lease);

    /// This replica is about to write the Lease, to hold it.
    fn write(&self, lease: &mut Lease);

    /// It is about to give it back.
    fn erase(&self, lease: &mut Lease);

    /// Another replica leads.
    fn deposed(&self);

    /// Resolves when there is something to be written soon.
    fn news(&self) -> BoxFuture<'_, ()>;
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAnnotations;

impl LeaseAnnotations for NoAnnotations {
    fn read(&self, _: &Lease) {}
    fn inherit(&self, _: &Lease) {}
    fn write(&self, _: &mut Lease) {}
    fn erase(&self, _: &mut Lease) {}
    fn deposed(&self) {}
    fn news(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }
}
