//! What must be the same.

use std::collections::BTreeMap;
use std::fmt;

use super::run::{Both, Left};

/// Everything in which the two differ.
pub fn differences(both: &Both) -> Vec<String> {
    let Both { case, kubelet, ours, .. } = both;
    let mut found = Vec::new();
    for (what, theirs, ours) in [
        ("container", &kubelet.containers, &ours.containers),
        ("sandbox", &kubelet.sandboxes, &ours.sandboxes),
        ("image", &kubelet.images, &ours.images),
        ("file", &kubelet.files, &ours.files),
    ] {
        found.extend(ours.difference(theirs).map(|id| format!("only the kubelet removes {what} {id}")));
        found.extend(theirs.difference(ours).map(|id| format!("only kube-gc removes {what} {id}")));
    }
    // Where all of a list goes, the kubelet does not sort it.
    let containers = &case.rules.containers;
    if containers.max_per_container != Some(0) && containers.max_total != Some(0) {
        let (theirs, ours) = (by_unit(both, kubelet), by_unit(both, ours));
        if theirs != ours {
            found.push(format!("containers go in another order: kubelet {theirs:?}, kube-gc {ours:?}"));
        }
    }
    if kubelet.removed_images != ours.removed_images {
        let (theirs, ours) = (&kubelet.removed_images, &ours.removed_images);
        found.push(format!("images go in another order: kubelet {theirs:?}, kube-gc {ours:?}"));
    }
    found
}

/// The containers that were removed, in their order, by pod and name. Of a pod of which all go, the
/// kubelet removes them in no certain order.
fn by_unit(both: &Both, left: &Left) -> BTreeMap<(String, String), Vec<String>> {
    let case = &both.case;
    let all_go = |uid: &str| {
        let pod = case.pods.iter().find(|pod| pod.uid == uid);
        pod.is_none_or(|pod| pod.state.is_gone() || (case.pressure && pod.state.is_over()))
    };
    let world = case.world();
    let mut units: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for id in &left.removed_containers {
        let Some(container) = world.containers().find(|container| container.id == *id) else { continue };
        let uid = container.labels.get("io.kubernetes.pod.uid").cloned().unwrap_or_default();
        let name = container.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
        if !all_go(&uid) {
            units.entry((uid, name)).or_default().push(id.clone());
        }
    }
    units
}

/// How many items of each kind the kubelet removed and kept: containers, sandboxes, images, files.
#[derive(Default)]
pub struct Counts([(usize, usize); 4]);

impl Counts {
    pub fn add(&mut self, both: &Both) {
        let world = both.case.world();
        let Left { containers, sandboxes, images, files, .. } = &both.kubelet;
        let counts = [
            (world.containers().count(), containers.len()),
            (world.sandboxes().count(), sandboxes.len()),
            (world.images().count(), images.len()),
            (both.case.files.count(), files.len()),
        ];
        for ((removed, kept), (before, left)) in self.0.iter_mut().zip(counts) {
            *removed += before.saturating_sub(left);
            *kept += left;
        }
    }

    /// Whether enough of each kind went and stayed to compare.
    pub fn is_varied(&self) -> bool {
        self.0.iter().all(|(removed, kept)| *removed >= 20 && *kept >= 20)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kubelet removed")?;
        for (what, (removed, kept)) in ["containers", "sandboxes", "images", "files"].iter().zip(self.0) {
            write!(f, " {removed} {what} of {},", removed + kept)?;
        }
        f.write_str(" and kube-gc the same unless said otherwise")
    }
}

impl fmt::Display for Both {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = &self.case;
        writeln!(f, "rules {:?}", case.rules)?;
        writeln!(
            f,
            "pressure {}, disk {:?}",
            case.pressure,
            (case.world().capacity, case.world().available())
        )?;
        for pod in &case.pods {
            writeln!(f, "{pod:?}")?;
        }
        for (rpc, about) in &case.faults {
            writeln!(f, "{rpc:?} of {about} fails")?;
        }
        writeln!(f, "kubelet {:#?}", self.kubelet)?;
        write!(f, "kube-gc {:#?}", self.ours)
    }
}
