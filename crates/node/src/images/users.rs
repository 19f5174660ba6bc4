//! What uses images.

use std::collections::HashSet;

use crate::Rule;
use crate::identity::escaped;
use crate::ids::{Id, IdBuf, IdMap, ending, hasher, is_same};
use crate::mutation::{self, Mutation};
use crate::reference::{has_key, is_short, keys_of_reference};
use crate::view::{ContainerState, Image, Listed};
use crate::{PodView, RuntimeView};

/// The number of words of the hints. The thousands of keys of a node set few of so many bits.
const HINTS: usize = 256;

/// What uses images (I1, B2): `detectImages` and `handleImageVolumes` in `image_gc_manager.go`.
#[derive(Debug)]
pub struct Users {
    /// Keys of used images, with what uses them.
    used: IdMap<User>,
    /// Whether some of them are names without a registry.
    short: bool,
    /// The hints of these keys, as bits. Most keys of images are not among them, and a look here takes
    /// less time than a hash that nobody can predict.
    hints: [u64; HINTS],
    /// A container that does not say which image it uses: it could be any.
    unclear: Option<String>,
}

/// What uses an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// A container.
    Container(String),
    /// A container mounts it as a volume.
    Volume,
    /// The spec of a pod that is bound to this node (B2).
    Spec(String),
}

impl User {
    pub(super) const fn rule(&self) -> Rule {
        match self {
            Self::Container(_) | Self::Volume => Rule::I1,
            Self::Spec(_) => Rule::B2,
        }
    }

    pub(super) fn reason(&self) -> String {
        match self {
            Self::Container(id) => format!("container {} uses it", escaped(id)),
            Self::Volume => "a container mounts it as a volume".to_owned(),
            Self::Spec(pod) => format!("the spec of pod {} names it", escaped(pod)),
        }
    }
}

impl Users {
    /// Everything that uses images.
    #[must_use]
    pub fn of(runtime: &RuntimeView, pods: &PodView) -> Self {
        Self::without(runtime, pods, |_| false, true)
    }

    /// Everything that will use images when some containers, by their index, have gone.
    pub(super) fn without(
        runtime: &RuntimeView,
        pods: &PodView,
        goes: impl Fn(usize) -> bool,
        spec_images: bool,
    ) -> Self {
        let used = IdMap::with_hasher(hasher());
        let mut users = Self { used, short: false, hints: [0; HINTS], unclear: None };
        // Most containers share few images, so most references were just added. To add one again
        // changes nothing.
        let mut recent = [""; 256];
        for (index, container) in runtime.containers.iter().enumerate() {
            let only_running = mutation::is(Mutation::OnlyRunningUsesImages);
            if goes(index) || (only_running && container.state != ContainerState::Running) {
                continue;
            }
            if container.image_refs.iter().all(String::is_empty) {
                users.unclear = Some(container.id.clone());
            }
            for reference in &container.image_refs {
                let recent = &mut recent[ending(reference) % 256];
                if !is_same(recent, reference) {
                    users.add(reference, || User::Container(container.id.clone()));
                    *recent = reference;
                }
            }
        }
        if !mutation::is(Mutation::ForgetImageVolumes) {
            for reference in &runtime.image_volumes {
                users.add(reference, || User::Volume);
            }
        }
        if let (PodView::Listed(Listed { pods, .. }), true) = (pods, spec_images)
            && !mutation::is(Mutation::ForgetSpecs)
        {
            for pod in pods {
                for reference in &pod.images {
                    users.add(reference, || User::Spec(format!("{}/{}", pod.pod.namespace, pod.pod.name)));
                }
            }
        }
        users
    }

    fn add(&mut self, reference: &str, user: impl Fn() -> User) {
        for key in keys_of_reference(reference) {
            self.short |= is_short(&key);
            let (word, bit) = hint(&key);
            self.hints[word] |= bit;
            self.used.entry(IdBuf::new(key)).or_insert_with(&user);
        }
    }

    /// Whether something uses this image.
    #[must_use]
    pub fn uses(&self, image: &Image) -> bool {
        self.user(image).is_some()
    }

    /// What uses this image.
    #[must_use]
    pub fn user(&self, image: &Image) -> Option<&User> {
        let mut user = None;
        has_key(image, self.short, |key| {
            let (word, bit) = hint(key);
            if self.hints[word] & bit != 0 {
                user = self.used.get(&Id(key));
            }
            user.is_some()
        });
        user
    }

    /// A container that does not say which image it uses.
    #[must_use]
    pub fn unclear(&self) -> Option<&str> {
        self.unclear.as_deref()
    }
}

/// The bit of a key among the hints.
fn hint(key: &str) -> (usize, u64) {
    let ending = ending(key);
    (ending / 64 % HINTS, 1 << (ending % 64))
}

/// The containers that may mount images as volumes, by their indexes: those whose pod has image volumes
/// in its spec, or whose spec is not known. Whoever looks asks them which images these are.
#[must_use]
pub fn i1_may_mount(runtime: &RuntimeView, pods: &PodView) -> Vec<usize> {
    let mut without: HashSet<&str> = HashSet::new();
    if let PodView::Listed(Listed { pods, .. }) = pods {
        for pod in pods.iter().filter(|pod| pod.without_image_volumes) {
            without.insert(&pod.pod.uid);
            without.extend(pod.mirror_of.as_deref());
        }
    }
    without.remove("");
    let containers = runtime.containers.iter().enumerate();
    containers
        .filter(|(_, container)| !without.contains(container.pod_uid.as_str()))
        .map(|(index, _)| index)
        .collect()
}
