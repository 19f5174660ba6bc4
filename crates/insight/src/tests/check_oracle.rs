//! `check` against an oracle that is written from the rules of docs/semantics.md, and looks at
//! every pair of objects.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::checks::check;
use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::{OwnerReference, Scope, Uid, split_api_version};

/// Type and namespace of the objects. Those of the last one are in no list.
const PLACES: [(&str, &str); 7] = [
    ("configmaps", "a"),
    ("configmaps", "b"),
    ("pods", "a"),
    ("widgets.example.com", "a"),
    ("nodes", ""),
    ("things.example.com", ""),
    ("ingresses.networking.k8s.io", "a"),
];
/// What the references name.
const KINDS: [(&str, &str); 11] = [
    ("v1", "ConfigMap"),
    ("v1", "configmap"),
    ("v1", "configMap"),
    ("v1", "Pod"),
    ("example.com/v1", "Widget"),
    ("example.com/v2", "Widget"),
    ("example.com/v3", "Widget"),
    ("v1", "Node"),
    ("example.com/v1", "Thing"),
    ("networking.k8s.io/v1", "Ingress"),
    ("gone.example.com/v1", "Widget"),
];
const NAMES: [&str; 3] = ["x", "y", "z"];

/// Group, resource, kind and versions of what the server serves.
const SERVED: [(&str, &str, &str, &[&str], Scope); 7] = [
    ("", "configmaps", "ConfigMap", &["v1"], Scope::Namespaced),
    ("", "pods", "Pod", &["v1"], Scope::Namespaced),
    ("", "nodes", "Node", &["v1"], Scope::Cluster),
    ("example.com", "widgets", "Widget", &["v1", "v2"], Scope::Namespaced),
    ("example.com", "things", "Thing", &["v1"], Scope::Cluster),
    ("networking.k8s.io", "ingresses", "Ingress", &["v1"], Scope::Namespaced),
    ("extensions", "ingresses", "Ingress", &["v1beta1"], Scope::Namespaced),
];

/// What the rules say of one reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Exists,
    Waits,
    Absent,
    Unserved,
    WrongScope,
    Unreadable,
}

struct Oracle<'a> {
    objects: &'a [Obj],
    /// The names whose objects nobody may read.
    secret: &'a str,
}

/// Resource (with its group) and namespace in which a reference looks for its owner.
enum Place {
    At(String, String),
    NotServed,
    WrongScope,
}

fn full(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn namespace(object: &Obj) -> String {
    object.facts.namespace.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn type_of(object: &Obj) -> String {
    object.resource.group_resource.to_string()
}

fn waits(owner: &Obj) -> bool {
    let both = owner.facts.finalizers;
    owner.facts.being_deleted && both.foreground && !both.orphan
}

fn place(object: &Obj, reference: &OwnerReference) -> Place {
    let (group, version) = split_api_version(&reference.api_version);
    // Rules 1.4 and 1.5.
    let served = SERVED.iter().find(|(of, _, kind, versions, _)| {
        *of == group
            && versions.contains(&version)
            && (*kind == &*reference.kind || kind.to_lowercase() == *reference.kind)
    });
    match served {
        None => Place::NotServed,
        Some((.., Scope::Namespaced)) if namespace(object).is_empty() => Place::WrongScope,
        Some((group, resource, _, _, Scope::Cluster)) => Place::At(full(group, resource), String::new()),
        Some((group, resource, ..)) => Place::At(full(group, resource), namespace(object)),
    }
}

impl Oracle<'_> {
    fn is_listed(object: &Obj) -> bool {
        LISTED.contains(&&*type_of(object))
    }

    fn at(&self, resource: &str, namespace_: &str, name: &str) -> impl Iterator<Item = &Obj> {
        let is = move |object: &&Obj| type_of(object) == resource && namespace(object) == namespace_;
        self.objects.iter().filter(is).filter(move |object| *object.facts.name == *name)
    }

    /// Rules 1.1 and 1.2.
    fn owner(&self, object: &Obj, reference: &OwnerReference) -> Option<&Obj> {
        let Place::At(resource, namespace) = place(object, reference) else { return None };
        self.at(&resource, &namespace, &reference.name).find(|owner| owner.facts.uid == reference.uid)
    }

    /// A list shows that an owner exists. That it waits for its dependents takes a live read.
    fn shows_state(&self, owner: &Obj) -> bool {
        *owner.facts.name != *self.secret || (Self::is_listed(owner) && !waits(owner))
    }

    fn rule(&self, object: &Obj, reference: &OwnerReference) -> Rule {
        match (place(object, reference), self.owner(object, reference)) {
            (Place::NotServed, _) => Rule::Unserved,
            (Place::WrongScope, _) => Rule::WrongScope,
            (Place::At(..), Some(owner)) if self.shows_state(owner) => {
                if waits(owner) {
                    Rule::Waits
                } else {
                    Rule::Exists
                }
            }
            (Place::At(..), _) if *reference.name == *self.secret => Rule::Unreadable,
            (Place::At(..), _) => Rule::Absent,
        }
    }

    fn effect(&self, object: &Obj) -> CheckEffect {
        let rules: Vec<Rule> =
            object.facts.owners.iter().map(|reference| self.rule(object, reference)).collect();
        let has = |rule| rules.contains(&rule);
        // An object stays as long as one owner exists, or may exist.
        if has(Rule::Unserved) || has(Rule::WrongScope) {
            CheckEffect::Leaks
        } else if has(Rule::Unreadable) {
            CheckEffect::Unknown
        } else if has(Rule::Exists) || !has(Rule::Absent) {
            CheckEffect::Odd
        } else {
            CheckEffect::Deletes
        }
    }

    fn main_class(&self, object: &Obj, reference: &OwnerReference) -> Option<Class> {
        let listed = || self.objects.iter().filter(|other| Self::is_listed(other));
        match self.rule(object, reference) {
            Rule::Exists | Rule::Waits | Rule::Unreadable => None,
            Rule::WrongScope => Some(Class::InvalidScope),
            Rule::Unserved => {
                let (group, _) = split_api_version(&reference.api_version);
                let is = |kind: &str| *kind == *reference.kind || kind.to_lowercase() == *reference.kind;
                let known = SERVED.iter().any(|(of, _, kind, versions, _)| {
                    *of == group
                        && is(kind)
                        && !versions.contains(&split_api_version(&reference.api_version).1)
                });
                Some(if known { Class::UnservedVersion } else { Class::Unresolved })
            }
            Rule::Absent => {
                let Place::At(resource, home) = place(object, reference) else { return None };
                let mut holders: Vec<&Obj> =
                    listed().filter(|other| other.facts.uid == reference.uid).collect();
                holders.retain(|other| {
                    (type_of(other), namespace(other), &*other.facts.name)
                        != (resource.clone(), home.clone(), &*reference.name)
                });
                let any = |is: &dyn Fn(&Obj) -> bool| holders.iter().any(|holder| is(holder));
                let taken = self.at(&resource, &home, &reference.name).next().is_some();
                Some(if any(&|other| type_of(other) == resource && namespace(other) == home) {
                    Class::OtherName
                } else if any(&|other| type_of(other) == resource) {
                    Class::OtherNamespace
                } else if !holders.is_empty() {
                    Class::OtherKind
                } else if taken {
                    Class::Recreated
                } else {
                    Class::Absent
                })
            }
        }
    }

    /// What a reference names, whether that exists or not.
    fn named(object: &Obj, reference: &OwnerReference) -> (String, String, String, Uid) {
        let (first, second) = match place(object, reference) {
            Place::At(resource, namespace) => (resource, namespace),
            _ => (reference.api_version.to_string(), reference.kind.to_string()),
        };
        (first, second, reference.name.to_string(), reference.uid.clone())
    }

    fn reaches(&self, from: &Obj, to: &Obj) -> bool {
        let mut reached: Vec<&Obj> = vec![from];
        loop {
            let before = reached.len();
            for object in reached.clone() {
                for owner in object.facts.owners.iter().filter_map(|reference| self.owner(object, reference))
                {
                    let is_there = |other: &&Obj| other.identity() == owner.identity();
                    if Self::is_listed(owner) && !owner.facts.being_deleted && !reached.iter().any(is_there) {
                        reached.push(owner);
                    }
                }
            }
            if reached.len() == before {
                return reached.iter().any(|object| object.identity() == to.identity());
            }
        }
    }

    fn odd_classes(&self, object: &Obj, index: usize) -> Vec<Class> {
        let references = &object.facts.owners;
        let reference = &references[index];
        let named = |reference| Self::named(object, reference);
        let mut classes = Vec::new();
        let same_uid = references.iter().filter(|other| other.uid == reference.uid);
        let holders: BTreeSet<_> = self
            .objects
            .iter()
            .filter(|other| Self::is_listed(other) && other.facts.uid == reference.uid)
            .map(|other| (type_of(other), namespace(other), other.facts.name.clone()))
            .collect();
        if same_uid.clone().any(|other| named(other) != named(reference)) || holders.len() > 1 {
            classes.push(Class::Collision);
        }
        if references[..index].iter().any(|other| named(other) == named(reference)) {
            classes.push(Class::Duplicate);
        }
        if let Some(owner) = self.owner(object, reference) {
            if owner.identity() == object.identity() {
                classes.push(Class::Itself);
            } else if Self::is_listed(owner) && !owner.facts.being_deleted && self.reaches(owner, object) {
                classes.push(Class::Ring);
            }
        }
        classes
    }

    fn findings(&self) -> BTreeSet<(String, usize, Class, CheckEffect)> {
        let mut found = BTreeSet::new();
        let live = |object: &&Obj| Self::is_listed(object) && !object.facts.being_deleted;
        for object in self.objects.iter().filter(live) {
            let effect = self.effect(object);
            for (index, reference) in object.facts.owners.iter().enumerate() {
                let classes = self.main_class(object, reference).into_iter();
                for class in classes.chain(self.odd_classes(object, index)) {
                    found.insert((object.identity().to_string(), index, class, effect));
                }
            }
        }
        found
    }

    /// What the server answers to a live read.
    fn read(&self, object: &Obj, reference: &OwnerReference) -> Option<Live> {
        let Place::At(resource, namespace) = place(object, reference) else { return None };
        if *reference.name == *self.secret {
            return Some(Live::Failed("403 Forbidden".into()));
        }
        let there = self.at(&resource, &namespace, &reference.name).next();
        Some(match there {
            None => Live::Absent(AbsenceEvidence::NotFound),
            Some(there) if there.facts.uid != reference.uid => {
                Live::Absent(AbsenceEvidence::OtherUid(there.facts.uid.clone()))
            }
            Some(there) => {
                let details = Details::default();
                Live::Found(Box::new(LiveObject { facts: there.facts.clone(), details }))
            }
        })
    }
}

fn uid(number: u8) -> String {
    format!("u{number}")
}

prop_compose! {
    fn random_object()(
        place in 0..PLACES.len(),
        name in 0..NAMES.len(),
        number in 0..6_u8,
        state in 0..6_u8,
        owners in prop::collection::vec((0..KINDS.len(), 0..NAMES.len(), 0..6_u8, any::<bool>()), 0..4),
    ) -> Obj {
        let (resource, namespace) = PLACES[place];
        let mut object = obj(resource, namespace, NAMES[name]).uid(&uid(number));
        for (kind, name, number, block_owner_deletion) in owners {
            let (api_version, kind) = KINDS[kind];
            object = object.with(OwnerReference {
                api_version: api_version.into(),
                kind: kind.into(),
                name: NAMES[name].into(),
                uid: Uid::parse(&uid(number)).unwrap(),
                controller: false,
                block_owner_deletion,
            });
        }
        match state {
            0 => object.foreground(),
            1 => object.terminating(),
            _ => object,
        }
    }
}

/// References to objects of the set, so that enough of them are right.
fn random_objects() -> impl Strategy<Value = Vec<Obj>> {
    let links = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8);
    (prop::collection::vec(random_object(), 1..9), links).prop_map(|(mut objects, links)| {
        // The server gives one name to one object, and within a type it gives no uid twice.
        let (mut names, mut uids) = (BTreeSet::new(), BTreeSet::new());
        objects.retain(|object| {
            let place = (type_of(object), namespace(object));
            names.insert((place.clone(), object.facts.name.clone()))
                && uids.insert((place.0, object.facts.uid.clone()))
        });
        for (dependent, owner) in links {
            let owner = objects[owner.index(objects.len())].reference();
            let dependent = dependent.index(objects.len());
            objects[dependent].facts.owners.push(owner);
        }
        objects
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn check_finds_what_the_oracle_finds(objects in random_objects(), secret in prop::option::of(0..NAMES.len())) {
        let oracle = Oracle { objects: &objects, secret: secret.map_or("", |place| NAMES[place]) };
        let mut cluster = Cluster::of(&objects.iter().collect::<Vec<_>>());
        cluster.live.clear();
        for object in &objects {
            for reference in &object.facts.owners {
                let seen = judge::resolve(catalog(), object.facts.namespace.as_ref(), reference);
                if let (Some(identity), Some(live)) = (seen.owner.identity(), oracle.read(object, reference)) {
                    cluster.live.insert(identity.clone(), live);
                }
            }
        }
        let report = check(&mut cluster);
        let identity = |finding: &Finding| {
            let is = |object: &&Obj| ObjectName::from(&object.identity()) == finding.object;
            objects.iter().find(is).unwrap().identity().to_string()
        };
        let found: BTreeSet<_> = report
            .findings
            .iter()
            .map(|finding| (identity(finding), finding.place, finding.class, finding.effect))
            .collect();
        prop_assert_eq!(found.len(), report.finding_count);
        prop_assert_eq!(found, oracle.findings());
    }
}
