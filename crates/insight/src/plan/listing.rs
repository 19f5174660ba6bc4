//! What a plan says of each object, and of a namespace, a definition or a node that takes others along.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::finalizers::FinalizerReport;
use crate::hold::{grace, protects};
use crate::knowledge::{Asker, Details, Live, LiveObject, Particulars};
use crate::name::ObjectName;
use crate::plan::answer::{Cascade, Effect, Plan, PlannedObject, TypeEffects, is_precious};
use crate::plan::consequences::{Cause, Consequences, Goes, Held, Mode};
use crate::plan::outside::Met;
use crate::plan::verdict::{Tally, Verdict, notes};
use crate::plan::walk::{Container, Index, Owner, Reference, Visited, Walk};
use kube_gc_core::object::{
    Catalog, DeletionState, FOREGROUND_FINALIZER, GroupResource, Identity, Namespace, ORPHAN_FINALIZER,
};
use kube_gc_core::text::{LISTED, listed};
use kube_gc_core::verdict::ReferenceClass;

/// The finalizer of a definition, which the API server removes when its type has no objects.
pub(crate) const OF_DEFINITIONS: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The finalizer in the spec of a namespace that the namespace controller removes.
pub(crate) const OF_NAMESPACES: &str = "kubernetes";
/// The most claims, namespaces and definitions that are always listed.
const MOST_PRECIOUS: usize = 10_000;
/// The most owners that are named for each object.
const NAMED: usize = 64;

/// What the API server refuses to delete, whoever asks (kubernetes/kubernetes: admission/plugin/namespace/lifecycle;
/// pkg/registry/scheduling/priorityclass/storage).
const REFUSED: [(&str, &str); 5] = [
    ("namespaces", "default"),
    ("namespaces", "kube-system"),
    ("namespaces", "kube-public"),
    ("priorityclasses.scheduling.k8s.io", "system-cluster-critical"),
    ("priorityclasses.scheduling.k8s.io", "system-node-critical"),
];

impl Plan {
    /// Whether the API server refuses to delete an object, whoever asks.
    pub fn is_refused(of: &Identity) -> bool {
        REFUSED.contains(&(&*of.resource.group_resource.to_string(), &of.name))
    }

    /// Says so of these objects. The plan is about others.
    pub fn refuse(&mut self, refused: &[Identity]) {
        if !refused.is_empty() {
            self.refused = refused.iter().map(ObjectName::from).collect();
            let names = listed(", ", refused.len(), &self.refused);
            let space = if self.verdict.is_empty() { "" } else { " " };
            self.verdict.push_str(&format!("{space}The API server refuses to delete {names}."));
        }
    }
}

/// What the deletion of the roots does to each object that a walk has visited. Lists the claims,
/// namespaces and definitions that go, and at most `limit` others. An incomplete plan is returned if more
/// facts are needed.
pub fn plan(asker: &mut Asker<'_>, walk: &Walk, limit: usize) -> Plan {
    let mut plan = Plan {
        cascade: walk.query.policy.into(),
        truncated: walk.truncated,
        depends_on_unseen: walk.truncated || !asker.outside().is_empty(),
        ..Plan::default()
    };
    let mut names = walk.query.roots.iter().map(ObjectName::from);
    plan.object = names.next().unwrap_or_default();
    plan.others = names.collect();
    // All are asked about at once, so no needed one may end the loop.
    let roots = walk.visited.iter().take(walk.roots as usize).map(|root| &root.identity);
    let all: Vec<_> = roots.map(|root| (root, asker.live(root))).collect();
    let live = all.iter().filter_map(|(root, live)| Some((*root, live.and_then(Live::found)?)));
    let state = |(root, live): (_, &LiveObject)| {
        (live.facts.deletion_state(), Some(plan.cascade.of(live)), keeps_contents(root, &live.details))
    };
    plan.states = live.map(state).collect();
    if let [(_, Some(only), _)] = plan.states[..] {
        plan.cascade = only;
    }
    let mut lost = all.into_iter().filter(|(_, live)| !matches!(live, Some(Live::Found(_))));
    if let Some((root, live)) = lost.next() {
        let is_absent = matches!(live, Some(Live::Absent(_)));
        plan.exists = is_absent.then_some(false);
        plan.depends_on_unseen |= !is_absent;
        let what = if is_absent { "does not exist" } else { "could not be looked at" };
        plan.verdict = format!("{} {what}.", ObjectName::from(root));
        return plan;
    }
    plan.exists = Some(true);
    if walk.query.roots.iter().all(Plan::is_refused) {
        plan.refuse(&walk.query.roots);
    } else if let Some(consequences) = Consequences::of(asker, walk) {
        consequences.write(asker, &mut plan, limit);
    }
    plan
}

impl Consequences<'_> {
    fn write(&self, asker: &mut Asker<'_>, plan: &mut Plan, limit: usize) {
        // With the number of deletions that the collector carries out.
        let mut by_type: BTreeMap<&GroupResource, (TypeEffects, u64)> = BTreeMap::new();
        let mut by_namespace: BTreeMap<&Namespace, u64> = BTreeMap::new();
        let braked = Self::braked(asker);
        let mut order: Vec<(u32, Index)> = Vec::new();
        for (place, visited) in (0..).zip(&self.walk.visited) {
            let Some(effect) = self.effect(place) else { continue };
            let resource = &visited.identity.resource.group_resource;
            let (effects, by_collector) =
                by_type.entry(resource).or_insert_with(|| (TypeEffects::new(&visited.identity), 0));
            effects.count(effect);
            let is_new = visited.deletion == DeletionState::Live || self.is_freed(place);
            let is_braked = braked(visited);
            plan.is_braked |= is_braked;
            match self.goes[place as usize] {
                Goes::InAll if is_new => {
                    plan.deletes += 1;
                    if !self.walk.is_root(place) && visited.containers.is_empty() {
                        *by_collector += 1;
                        plan.braked += usize::from(is_braked && effect == Effect::Deleted);
                        plan.braked_held += usize::from(is_braked && effect == Effect::Held);
                        if let Some(namespace) = &visited.identity.namespace {
                            *by_namespace.entry(namespace).or_default() += 1;
                        }
                    }
                }
                Goes::InSome => {
                    plan.perhaps_deletes += usize::from(is_new);
                    plan.truncated |= self.has_owner(place, Met::Unfollowed);
                    plan.depends_on_unseen |= plan.truncated || self.has_owner(place, Met::Unseen);
                }
                Goes::InAll | Goes::Never => {}
            }
            order.push((self.rank(visited, place, effect), place));
        }
        let counts = by_namespace.into_iter().map(|(namespace, count)| (count, namespace));
        plan.most_in_namespace = counts.max().map(|(count, namespace)| (count, namespace.clone()));
        order.sort_unstable();
        let precious = order.partition_point(|&(rank, _)| rank == 0);
        let limit = limit.saturating_add(precious.min(MOST_PRECIOUS));
        plan.not_listed = order.len().saturating_sub(limit);
        for (resource, (effects, by_collector)) in by_type {
            plan.by_type.push(effects);
            if by_collector > 0 {
                plan.by_collector.push((resource.clone(), by_collector));
            }
        }
        let unfollowed = (0..)
            .zip(&self.walk.visited)
            .filter(|(place, visited)| self.may_go(*place) && !visited.is_open && visited.has_dependents);
        plan.unfollowed = unfollowed.map(|(place, _)| place).collect();
        order.truncate(limit);
        plan.objects = order.into_iter().filter_map(|(_, place)| self.object(asker, place)).collect();
        plan.verdict = self.verdict(asker).of(plan);
        for root in (0..self.walk.roots).filter(|root| self.visited(*root).keeps_contents).take(LISTED) {
            let why = "because nobody empties a namespace without finalizers in its spec";
            plan.verdict.push_str(&format!(" What is in {} stays, {why}.", self.name(root)));
        }
        plan.notes = notes(plan, asker.outside().source);
        let replaced = (0..self.walk.roots).filter_map(|root| {
            let (was, now) = (Cascade::begun(self.visited(root).deletion)?, self.visited(root).cascade?);
            let differs = was != now && !self.dependents[root as usize].is_empty();
            let changes = format!("began with {was:?}, and another one changes that to {now:?}");
            differs.then(|| format!("The deletion of {} {changes}.", self.name(root)))
        });
        plan.notes.splice(0..0, replaced.take(LISTED));
        for (place, message) in self.failed.iter().take(LISTED) {
            let name = self.name(*place);
            plan.notes.insert(0, format!("The collector has failed with {name}, which may stay: {message}."));
            plan.depends_on_unseen = true;
        }
    }

    /// What the verdict says, besides the numbers of the plan.
    fn verdict(&self, asker: &mut Asker<'_>) -> Verdict<'_> {
        let roots = 0..self.walk.roots;
        let (of_roots, others) = (self.tally(roots.clone()), self.tally(roots.end..Index::MAX));
        let is_one = roots.len() == 1;
        let braked = Self::braked(asker);
        let has_namespace = roots.clone().any(|root| self.is_namespace(root));
        Verdict {
            contents: (is_one && self.goes_last(0)).then(|| self.contents[0].len()),
            roots: of_roots,
            others,
            held_by: if is_one && of_roots.held == 1 { self.held_by(asker) } else { None },
            freed_by: if is_one && of_roots.unsure == 1 { self.freed_by(asker) } else { None },
            begun: if is_one { self.begun(asker) } else { None },
            volume: if is_one { self.volume(asker) } else { None },
            hangs: self.hangs.as_deref().filter(|_| has_namespace),
            is_braked: is_one && self.held_up_by(0).any(|place| braked(self.visited(place))),
            holders: roots.flat_map(|root| self.after(root).0).collect(),
        }
    }

    fn tally(&self, places: Range<Index>) -> Tally {
        let mut tally = Tally::default();
        for place in places.take_while(|place| (*place as usize) < self.goes.len()) {
            let is_held = self.effect(place) == Some(Effect::Held);
            let has_begun = self.visited(place).deletion.is_being_deleted();
            tally.held += usize::from(is_held);
            tally.unsure += usize::from(self.is_unsure(place));
            tally.begun += usize::from(has_begun && (is_held || self.walk.is_root(place)));
        }
        tally
    }

    /// Whether the brake is engaged where an object is.
    fn braked(asker: &Asker<'_>) -> impl Fn(&Visited) -> bool + use<> {
        let paused = asker.outside().paused.clone();
        move |visited| paused.iter().any(|of| of.is_none() || *of == visited.identity.namespace)
    }

    /// What has to happen before the root goes, if finalizers hold it.
    fn held_by(&self, asker: &mut Asker<'_>) -> Option<String> {
        let Some(finalizers) = foreign(asker, self.visited(0)) else {
            return Some("its finalizers are removed".to_owned());
        };
        let are = if finalizers.len() == 1 { "is" } else { "are" };
        (!finalizers.is_empty()).then(|| format!("{} {are} removed", FinalizerReport::names(&finalizers)))
    }

    /// What becomes of the volume of the root, if that is a claim, as far as it could be read.
    fn volume(&self, asker: &mut Asker<'_>) -> Option<String> {
        let root = &self.visited(0).identity;
        let Particulars::Claim { volume } = &asker.live(root)?.found()?.details.particulars else {
            return None;
        };
        let Some(volume) = volume else { return Some(String::new()) };
        let live = asker.named("persistentvolumes", volume)?.found()?;
        let Particulars::Volume { claim, reclaim: Some(reclaim) } = &live.details.particulars else {
            return None;
        };
        let own = (root.namespace.as_ref()?.to_string(), root.name.to_string());
        let (and, becomes) = match &**reclaim {
            _ if *claim != Some(own) => return None,
            "Delete" => ("but", "follows it when its CSI driver or plugin has deleted its data"),
            "Retain" => ("and", "stays with its data"),
            _ => return None,
        };
        Some(format!(", {and} PersistentVolume/{volume} {becomes} (reclaim policy {reclaim})"))
    }

    /// Who frees the root, and when, if nobody has to do anything for that.
    fn freed_by(&self, asker: &mut Asker<'_>) -> Option<String> {
        let finalizers = foreign(asker, self.visited(0)).unwrap_or_default();
        let each = finalizers.iter().filter_map(|of| of.removal(&format!(" removes finalizer {}", of.name)));
        Some(each.collect::<Vec<_>>().join(", and ")).filter(|each| !each.is_empty())
    }

    /// Whether it is deleted, and nobody can tell whether it then goes at once.
    fn is_unsure(&self, place: Index) -> bool {
        self.goes[place as usize] == Goes::InAll && self.held[place as usize] == Held::Perhaps
    }

    /// When the root was deleted, if it was.
    fn begun(&self, asker: &mut Asker<'_>) -> Option<String> {
        let live = asker.live(&self.visited(0).identity)?.found()?;
        let deleted = live.details.deleted.as_ref()?;
        let says = grace(asker, &live.details).map(|held| held.of_one());
        let says = says.or_else(|| Some(live.details.condition()?.words()));
        let says = says.map(|says| format!(" ({says})")).unwrap_or_default();
        Some(format!("was deleted at {deleted} and is still there{says}"))
    }

    /// The order in which objects are listed: those whose data or contents go first, then those
    /// that do not simply go.
    fn rank(&self, visited: &Visited, place: Index, effect: Effect) -> u32 {
        match effect {
            _ if is_precious(&visited.identity.resource.group_resource, effect) => 0,
            Effect::Blocks => 1,
            Effect::Unknown => 2,
            Effect::Held => 3,
            Effect::Orphaned => 4,
            Effect::Kept => 5,
            Effect::Deleted if !self.after[place as usize].is_empty() => 6,
            Effect::Deleted => 7,
        }
    }

    fn object(&self, asker: &mut Asker<'_>, place: Index) -> Option<PlannedObject> {
        let effect = self.effect(place)?;
        let visited = self.visited(place);
        let (after, perhaps_after) = self.after(place);
        let mut object = PlannedObject {
            name: (&visited.identity).into(),
            state: visited.deletion.into(),
            effect,
            within: visited.containers.first().map(|container| self.name(*container)),
            kept_by: Vec::new(),
            finalizers: match self.held[place as usize] {
                Held::No => Some(Vec::new()),
                Held::Perhaps | Held::Surely => foreign(asker, visited),
            },
            after: after.into_iter().collect(),
            perhaps_after: perhaps_after.into_iter().collect(),
            loses: Vec::new(),
            may_lose: Vec::new(),
            why: None,
        };
        let names = |places: &[Index]| places.iter().take(NAMED).map(|&place| self.name(place)).collect();
        if let Some(stay) = self.stays.get(&place) {
            object.loses = names(&stay.loses);
            object.may_lose = names(&stay.may_lose);
            let is_late = |&&owner: &&Index| {
                let waits = self.held[owner as usize] != Held::No || !self.after[owner as usize].is_empty();
                // Without one that blocks it, it waits for no dependents.
                let is_first = |&(_, blocking): &(Index, bool)| {
                    blocking && self.modes[owner as usize] == Mode::Foreground
                };
                let is_blocked = self.dependents[owner as usize].iter().any(is_first);
                waits && !is_blocked && !self.walk.orphans(owner)
            };
            object.after = names(&stay.loses.iter().filter(is_late).copied().collect::<Vec<_>>());
            object.why = stay.why.map(str::to_owned);
        } else if self.is_unsure(place) {
            let is_first = self.walk.is_root(place) && (place as usize) < LISTED;
            let users = if is_first { users(asker, visited) } else { None };
            let freed = || "is deleted, and goes when its finalizers do, perhaps at once".to_owned();
            object.why = Some(self.unconfirmed.get(&place).cloned().or(users).unwrap_or_else(freed));
        } else if effect == Effect::Unknown {
            let owners = visited.references.iter().filter_map(Reference::visited);
            object.may_lose = names(&owners.filter(|&owner| self.may_go(owner)).collect::<Vec<_>>());
            object.why = Some(self.why(place).to_owned());
        } else if effect == Effect::Held && self.is_namespace(place) {
            object.why.clone_from(&self.hangs);
        } else if effect == Effect::Held && object.finalizers.as_ref().is_some_and(Vec::is_empty) {
            let again = visited.keeps_contents.then(|| "goes when it is deleted again".to_owned());
            let live = asker.live(&visited.identity).and_then(Live::found);
            let held = live.and_then(|live| grace(asker, &live.details)).map(|held| held.of_one());
            object.why = again.or(held).or_else(|| Some("is being deleted already".to_owned()));
        }
        if self.goes[place as usize] != Goes::InAll {
            let keeps = |met: Met| match met {
                Met::Visited(owner) => !self.may_go(owner),
                Met::Known(class) => !matches!(
                    class,
                    ReferenceClass::Absent | ReferenceClass::Waiting | ReferenceClass::Orphaned
                ),
                Met::Leaving | Met::Orphaning | Met::Unseen | Met::Unfollowed => false,
            };
            object.kept_by = self.owners(place, keeps).take(NAMED).collect();
        }
        Some(object)
    }

    fn name(&self, place: Index) -> ObjectName {
        (&self.visited(place).identity).into()
    }

    /// What an object waits for before it goes, and what else it does in some orders of events.
    fn after(&self, place: Index) -> (BTreeSet<ObjectName>, BTreeSet<ObjectName>) {
        let (mut surely, mut perhaps) = (BTreeSet::new(), BTreeSet::new());
        for cause in &self.after[place as usize] {
            match *cause {
                Cause::Visited(of) => drop(surely.insert(self.name(of))),
                Cause::Perhaps(of) => drop(perhaps.insert(self.name(of))),
                Cause::OwnerOf(of) => surely.extend(self.owners(of, |met| met == Met::Leaving).take(NAMED)),
            }
        }
        perhaps.retain(|name| !surely.contains(name));
        (surely, perhaps)
    }

    /// The names of some owners of an object.
    fn owners(&self, place: Index, wanted: impl Fn(Met) -> bool) -> impl Iterator<Item = ObjectName> {
        let all = self.owners[place as usize].iter().zip(&self.visited(place).references);
        all.filter(move |(met, _)| wanted(**met)).map(|(_, reference)| match &reference.owner {
            Owner::Visited(owner) => self.name(*owner),
            Owner::Other(seen) => ObjectName::of_owner(seen),
        })
    }

    /// Why it is not known whether an object goes.
    fn why(&self, place: Index) -> &'static str {
        let mut owners = self.visited(place).references.iter().filter_map(Reference::visited);
        if self.failed.contains_key(&place) {
            "the collector has failed with it"
        } else if self.has_owner(place, Met::Unseen) {
            "whether one of its owners exists could not be looked up"
        } else if self.has_owner(place, Met::Unfollowed) {
            "one of its owners exists and is perhaps garbage: there are too many owners to look at each"
        } else if self.has_owner(place, Met::Orphaning) || owners.any(|owner| self.walk.orphans(owner)) {
            "one of its owners releases its dependents: the order in which its owners go decides"
        } else {
            "it is not known whether one of its owners goes"
        }
    }

    /// Whether it goes because a pod that uses it does, or its node.
    pub(super) fn is_freed(&self, place: Index) -> bool {
        self.visited(place).containers.iter().any(|container| !self.goes_last(*container))
    }

    /// Whether it is a namespace that somebody empties.
    pub(super) fn is_namespace(&self, place: Index) -> bool {
        let Visited { identity, keeps_contents, .. } = self.visited(place);
        !keeps_contents && matches!(Container::of(identity), Some(Container::Namespace(_)))
    }

    /// Whether it stays until nothing is in it.
    pub(super) fn goes_last(&self, place: Index) -> bool {
        let identity = &self.visited(place).identity;
        self.is_namespace(place) || matches!(Container::of(identity), Some(Container::Definition(_)))
    }
}

/// Whether it is a namespace that nobody empties, because its spec has no finalizer (kubernetes/kubernetes:
/// pkg/controller/namespace/deletion). The first DELETE only marks it; the second removes it.
pub(crate) fn keeps_contents(of: &Identity, details: &Details) -> bool {
    matches!(Container::of(of), Some(Container::Namespace(_)))
        && matches!(&details.particulars, Particulars::Container { finalizers, .. } if finalizers.is_empty())
}

/// Why a namespace never goes: its controller waits for every API.
pub(super) fn hangs(asker: &Asker<'_>) -> Option<String> {
    let silent = &asker.outside().silent_apis;
    let names = listed(" and ", silent.len(), silent.iter().map(|api| &api.what));
    let answer = if silent.len() == 1 { "answers" } else { "answer" };
    (!silent.is_empty()).then(|| format!("cannot go until {names} {answer}"))
}

/// The finalizers that others have to remove, those in the spec of a namespace included; `None` if they were not
/// read.
pub(super) fn foreign(asker: &mut Asker<'_>, visited: &Visited) -> Option<Vec<FinalizerReport>> {
    let live = asker.live(&visited.identity)?.found()?;
    let mut all = FinalizerReport::of(&visited.identity, &live.details, asker.catalog());
    let is_definition = matches!(Container::of(&visited.identity), Some(Container::Definition(_)));
    all.retain(|finalizer| match finalizer.name.as_str() {
        FOREGROUND_FINALIZER | ORPHAN_FINALIZER => false,
        OF_DEFINITIONS => !is_definition || live.details.condition().is_some(),
        _ => true,
    });
    all.extend(in_spec(&live.details.particulars, asker.catalog()));
    Some(all)
}

/// What uses an object that goes, if a finalizer protects it from that.
fn users(asker: &mut Asker<'_>, of: &Visited) -> Option<String> {
    let Some(Live::Found(live)) = asker.live(&of.identity) else { return None };
    let finalizers = foreign(asker, of)?;
    let used = protects(asker, &of.identity, &live.details, &finalizers)?;
    Some(format!("is deleted, and waits for {used}"))
}

/// The finalizers in the spec of a namespace that its controller does not remove.
pub(crate) fn in_spec(particulars: &Particulars, catalog: &Catalog) -> Vec<FinalizerReport> {
    let Particulars::Container { finalizers, .. } = particulars else { return Vec::new() };
    let others = finalizers.iter().filter(|name| **name != *OF_NAMESPACES);
    others
        .map(|name| FinalizerReport { in_spec: true, ..FinalizerReport::named(name, None, catalog) })
        .collect()
}
