//! Relists: an object that a list does not contain may be gone (rules 1.16 and 1.17).

use std::cmp::Ordering;

use crate::mutation::{self, Mutation};
use crate::object::ResourceVersion;

use super::node::NodeId;
use super::types::{Listing, TypeId};
use super::{DeletesProve, Effects, Partition};

impl Partition {
    pub(super) fn list_began(&mut self, type_id: TypeId, is_version_known: bool) {
        let super::store::Store { types, nodes, .. } = &mut self.store;
        let entry = &mut types.entries[type_id];
        for &id in &entry.nodes {
            nodes[id].listed = false;
        }
        if let Some(monitor) = &mut entry.monitor {
            monitor.listing = if is_version_known { Listing::UpToDate } else { Listing::OfUnknownVersion };
        }
    }

    /// A list is complete. A node whose uid was not in it is gone, unless the node's version
    /// is greater than the list's: such an object was created after the list was taken.
    pub(super) fn list_ended(
        &mut self,
        type_id: TypeId,
        version: Option<&ResourceVersion>,
        deletes_prove: DeletesProve,
        out: &mut Effects,
    ) {
        if !self.store.types.entries[type_id].is_synced() {
            self.everything_changed();
        }
        let entry = &mut self.store.types.entries[type_id];
        let is_foreign = match &mut entry.monitor {
            Some(monitor) if monitor.listing != Listing::None => {
                monitor.listing = Listing::None;
                monitor.synced = true;
                std::mem::take(&mut monitor.is_foreign)
            }
            // An end without a beginning proves nothing.
            _ => return,
        };
        entry.was_listed = true;
        let missing: Vec<NodeId> = entry
            .nodes
            .iter()
            .copied()
            .filter(|&id| self.store.nodes[id].is_observed() && !self.store.nodes[id].listed)
            .collect();
        let worth = self.proof_of_delete(deletes_prove, version);
        for id in missing {
            if is_foreign {
                self.object_gone(id, DeletesProve::Nothing, out);
                continue;
            }
            let order = self.store.version(id).zip(version).and_then(|(a, b)| a.partial_cmp(b));
            match order {
                // Created after the list, if versions are ordered at all.
                Some(Ordering::Greater)
                    if deletes_prove == DeletesProve::Absence && !mutation::is(Mutation::TrustOldList) => {}
                Some(_) if worth != deletes_prove => self.object_gone_unproved(id, out),
                Some(_) => self.object_gone(id, worth, out),
                // Versions that cannot be compared prove nothing.
                None => self.object_gone(id, DeletesProve::Nothing, out),
            }
        }
    }
}
