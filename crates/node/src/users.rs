//! What uses images, and by which names.
//!
//! A container may refer to its image by id, by digest, by a full name, or as people write it:
//! `nginx`. Two names are taken for the same image if they could be. An image that is thought to
//! be used stays, so a match too many does no harm.

use std::collections::{HashMap, HashSet};

use crate::mutation::{self, Mutation};
use crate::rule::escaped;
use crate::view::{ContainerState, Image, Listed};
use crate::{PodView, Rule, RuntimeView};

/// What uses images (I1, B2): `detectImages` and `handleImageVolumes` in `image_gc_manager.go`.
#[derive(Debug)]
pub struct Users {
    /// Keys of used images, with what uses them.
    used: HashMap<String, User>,
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
    pub(crate) const fn rule(&self) -> Rule {
        match self {
            Self::Container(_) | Self::Volume => Rule::I1,
            Self::Spec(_) => Rule::B2,
        }
    }

    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Container(id) => format!("container {} uses it", escaped(id)),
            Self::Volume => "a container mounts it as a volume".to_owned(),
            Self::Spec(pod) => format!("the spec of pod {} names it", escaped(pod)),
        }
    }
}

impl Users {
    /// Everything that uses images.
    pub fn of(runtime: &RuntimeView, pods: &PodView) -> Self {
        Self::without(runtime, pods, |_| false, true)
    }

    /// Everything that will use images when some containers, by their index, have gone.
    pub(crate) fn without(
        runtime: &RuntimeView,
        pods: &PodView,
        goes: impl Fn(usize) -> bool,
        spec_images: bool,
    ) -> Self {
        let mut users = Self { used: HashMap::new(), unclear: None };
        for (index, container) in runtime.containers.iter().enumerate() {
            let only_running = mutation::is(Mutation::OnlyRunningUsesImages);
            if goes(index) || (only_running && container.state != ContainerState::Running) {
                continue;
            }
            if container.image_refs.iter().all(String::is_empty) {
                users.unclear = Some(container.id.clone());
            }
            for reference in &container.image_refs {
                users.add(reference, || User::Container(container.id.clone()));
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
            self.used.entry(key).or_insert_with(&user);
        }
    }

    /// Whether something uses this image.
    pub fn uses(&self, image: &Image) -> bool {
        self.user(image).is_some()
    }

    /// What uses this image.
    pub fn user(&self, image: &Image) -> Option<&User> {
        let mut user = None;
        has_key(image, |key| {
            user = self.used.get(key);
            user.is_some()
        });
        user
    }

    /// A container that does not say which image it uses.
    pub fn unclear(&self) -> Option<&str> {
        self.unclear.as_deref()
    }
}

/// The containers that may mount images as volumes, by their indexes: those whose pod has image volumes
/// in its spec, or whose spec is not known. Whoever looks asks them which images these are.
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

/// Marks keys of names without a registry, which may be in any.
const ANY_REGISTRY: char = '~';

/// What a reference to an image may match: an image is meant if it has one of these keys.
pub fn keys_of_reference(reference: &str) -> Vec<String> {
    let mut keys = Vec::new();
    if reference.is_empty() {
        return keys;
    }
    keys.push(reference.to_owned());
    let (name, digest) = match reference.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (reference, None),
    };
    if let Some(digest) = digest {
        keys.push(digest.to_owned());
    }
    if is_hex(reference) {
        keys.push(format!("sha256:{reference}"));
    }
    if !name.is_empty() && digest_of(name).is_none() {
        let name = Name::parse(name);
        keys.push(name.full());
        if name.registry.is_none() {
            keys.push(format!("{ANY_REGISTRY}{}:{}", name.path, name.tag));
        }
    }
    keys
}

/// Whether an image is known by a key that is wanted.
pub(crate) fn has_key(image: &Image, mut is_wanted: impl FnMut(&str) -> bool) -> bool {
    let id = image.id.as_str();
    if !id.is_empty() && (is_wanted(id) || (is_hex(id) && is_wanted(&format!("sha256:{id}")))) {
        return true;
    }
    image.names().any(|name| {
        if is_wanted(name) {
            return true;
        }
        // A name with a digest has no tag, and nobody means it by one.
        if let Some((_, digest)) = name.split_once('@') {
            return is_wanted(digest);
        }
        let parsed = Name::parse(name);
        is_wanted(&parsed.full())
            || suffixes(parsed.path).any(|path| is_wanted(&format!("{ANY_REGISTRY}{path}:{}", parsed.tag)))
    })
}

/// `library/nginx` and `nginx` for `library/nginx`.
fn suffixes(path: &str) -> impl Iterator<Item = &str> {
    let starts = path.match_indices('/').map(|(at, _)| at + 1);
    std::iter::once(0).chain(starts).map(|start| &path[start..])
}

/// A name in its parts.
struct Name<'a> {
    registry: Option<&'a str>,
    path: &'a str,
    tag: &'a str,
}

impl<'a> Name<'a> {
    fn parse(text: &'a str) -> Self {
        let (registry, rest) = match text.split_once('/') {
            // The first part is a registry if it cannot be a part of a path.
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
            _ => (None, text),
        };
        let (path, tag) = rest.rsplit_once(':').unwrap_or((rest, "latest"));
        Self { registry, path, tag }
    }

    /// The name as runtimes complete it.
    fn full(&self) -> String {
        let Self { registry, path, tag, .. } = self;
        match registry.filter(|registry| !matches!(*registry, "docker.io" | "index.docker.io")) {
            None if path.contains('/') => format!("docker.io/{path}:{tag}"),
            None => format!("docker.io/library/{path}:{tag}"),
            Some(registry) => format!("{registry}/{path}:{tag}"),
        }
    }
}

/// Whether this is a digest without a name.
fn digest_of(text: &str) -> Option<&str> {
    let (algorithm, hex) = text.split_once(':')?;
    (matches!(algorithm, "sha256" | "sha512") && is_hex(hex)).then_some(hex)
}

/// Whether this is a digest's hexadecimal part.
fn is_hex(text: &str) -> bool {
    text.len() >= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn means(reference: &str, tags: &[&str], digests: &[&str]) -> bool {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let image = Image {
            id: DIGEST.replace("0123", "aaaa"),
            repo_tags: owned(tags),
            repo_digests: owned(digests),
            ..Image::default()
        };
        let keys = keys_of_reference(reference);
        has_key(&image, |key| keys.iter().any(|wanted| wanted == key))
    }

    #[test]
    fn short_names_are_completed() {
        let nginx = &["docker.io/library/nginx:latest"];
        assert!(means("nginx", nginx, &[]));
        assert!(means("nginx:latest", nginx, &[]));
        assert!(means("library/nginx", nginx, &[]));
        assert!(means("docker.io/nginx", nginx, &[]));
        assert!(means("index.docker.io/library/nginx", nginx, &[]));
        assert!(!means("nginx:1.25", nginx, &[]));
        assert!(!means("quay.io/nginx", nginx, &[]));
        assert!(!means("inx", nginx, &[]));
    }

    #[test]
    fn a_short_name_may_be_from_any_registry() {
        assert!(means("team/app:1", &["registry.example:5000/team/app:1"], &[]));
        assert!(means("app:1", &["registry.example:5000/team/app:1"], &[]));
        assert!(!means("registry.example/team/app:1", &["registry.example:5000/team/app:1"], &[]));
    }

    #[test]
    fn a_port_is_not_a_tag() {
        assert!(means("localhost:5000/app", &["localhost:5000/app:latest"], &[]));
        assert!(means("localhost/app", &["localhost/app:latest"], &[]));
    }

    #[test]
    fn digests_mean_an_image_by_any_name() {
        let digests = &[&*format!("registry.example/app@{DIGEST}")];
        assert!(means(&format!("registry.example/app@{DIGEST}"), &[], digests));
        assert!(means(&format!("registry.example/app:1@{DIGEST}"), &[], digests));
        assert!(means(DIGEST, &[], digests));
        assert!(!means(&DIGEST.replace('f', "e"), &[], digests));
    }

    #[test]
    fn an_id_means_its_image_with_and_without_its_algorithm() {
        let id = DIGEST.replace("0123", "aaaa");
        assert!(means(&id, &[], &[]));
        assert!(means(id.trim_start_matches("sha256:"), &[], &[]));
        let bare = Image { id: id.trim_start_matches("sha256:").to_owned(), ..Image::default() };
        assert!(has_key(&bare, |key| key == id));
    }

    #[test]
    fn placeholders_and_nothing_mean_nothing() {
        assert!(!means("", &["<none>:<none>"], &["<none>@<none>"]));
        assert!(!means("<none>:<none>", &["<none>:<none>"], &[]));
    }

    #[test]
    fn odd_names_make_no_trouble() {
        for reference in ["/", ":", "@", "a@", "@b", "a/:", "::::", "\u{0}", "ä/ö:ü"] {
            let _ = keys_of_reference(reference);
            let image = Image { repo_tags: vec![reference.to_owned()], ..Image::default() };
            let _ = has_key(&image, |_| false);
        }
    }
}
