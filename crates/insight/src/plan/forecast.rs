//! Whether the brake would engage.

use kube_gc_core::brake::Limits;
use kube_gc_core::object::GroupResource;

use super::answer::{Forecast, Plan};

impl Plan {
    /// Compares the deletions of the collector with the limits of its brake. What users, the
    /// namespace controller and the API server delete does not count there.
    ///
    /// `population` says how many objects a type has, if that is known.
    pub fn forecast(&mut self, limits: &Limits, population: impl Fn(&GroupResource) -> Option<u64>) {
        self.brake = if limits.is_off() { Forecast::Off } else { self.reached(limits, population) };
    }

    fn reached(&self, limits: &Limits, population: impl Fn(&GroupResource) -> Option<u64>) -> Forecast {
        let total: u64 = self.by_collector.iter().map(|(_, count)| count).sum();
        if let Some(most) = limits.per_minute
            && total > u64::from(most.get())
        {
            let why = format!("the collector deletes {total} objects, and may delete {most} in a minute");
            return Forecast::Engages { why };
        }
        if let (Some(most), Some((count, namespace))) = (limits.namespace_per_minute, &self.most_in_namespace)
            && *count > u64::from(most.get())
        {
            let why = format!(
                "the collector deletes {count} objects in the namespace {namespace}, and may delete {most} there in a minute"
            );
            return Forecast::Engages { why };
        }
        let mut is_known = true;
        if let Some(share) = limits.share {
            for (resource, count) in &self.by_collector {
                let Some(of) = population(resource) else {
                    // The floor is certain.
                    is_known &= *count <= u64::from(share.floor);
                    continue;
                };
                let most = share.of(of);
                if *count > most {
                    let why = format!(
                        "the collector deletes {count} of {of} {resource}, and may delete {most} ({} %)",
                        share.percent
                    );
                    return Forecast::Engages { why };
                }
            }
        }
        if is_known { Forecast::Passes } else { Forecast::Unknown }
    }
}
