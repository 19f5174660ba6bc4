//! The limits are exact.

mod lease;
mod naive;
mod rules;

use std::num::NonZeroU32;
use std::time::Duration;

use super::{Limits, Share};
use crate::object::{GroupResource, Namespace, Uid};

const SECOND: Duration = Duration::from_secs(1);

fn rate(limit: u32) -> Limits {
    Limits { per_minute: NonZeroU32::new(limit), ..Limits::default() }
}

fn share(percent: u32, window: Duration, floor: u32) -> Limits {
    let share = NonZeroU32::new(percent).map(|percent| Share { percent, window, floor });
    Limits { share, ..Limits::default() }
}

fn uid(number: usize) -> Uid {
    Uid::parse(&format!("uid-{number}")).unwrap()
}

fn pods() -> GroupResource {
    GroupResource::parse("pods")
}
