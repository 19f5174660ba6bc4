//! What uses images, and by which names.
//!
//! A container may refer to its image by id, by digest, by a full name, or as people write it:
//! `nginx`. Two names are taken for the same image if they could be. An image that is thought to
//! be used stays, so a match too many does no harm.

use std::collections::{HashMap, HashSet};

use crate::mutation::{self, Mutation};
use crate::pods::has_ended;
use crate::rule::escaped;
use crate::view::{ContainerState, Image, Pod};
use crate::{PodRef, PodView, Rule, RuntimeView};

/// What uses images (I1, B2): `detectImages` and `handleImageVolumes` in `image_gc_manager.go`.
#[derive(Debug)]
pub struct Users {
    /// Keys of used images, with the rule that keeps them, and the reason.
    used: HashMap<String, (Rule, String)>,
    /// The name of a container that does not say which image it uses: it could be any.
    unclear: Option<String>,
}

impl Users {
    /// Everything that uses images.
    pub fn of(runtime: &RuntimeView, pods: &PodView) -> Self {
        Self::without(runtime, pods, |_| false)
    }

    /// Everything that will use images when some containers, by their index, have gone.
    pub(crate) fn without(runtime: &RuntimeView, pods: &PodView, goes: impl Fn(usize) -> bool) -> Self {
        let mut users = Self { used: HashMap::new(), unclear: None };
        for (index, container) in runtime.containers.iter().enumerate() {
            let only_running = mutation::is(Mutation::OnlyRunningUsesImages);
            if goes(index) || (only_running && container.state != ContainerState::Running) {
                continue;
            }
            if container.image_refs.iter().all(String::is_empty) {
                users.unclear = Some(container.label());
            }
            for reference in &container.image_refs {
                users.add(reference, Rule::I1, || format!("container {} uses it", container.label()));
            }
        }
        for reference in &runtime.image_volumes {
            users.add(reference, Rule::I1, || "a container mounts it as a volume".to_owned());
        }
        let only_cri = mutation::is(Mutation::OnlyCriUsesImages);
        for reference in runtime.foreign_images.iter().filter(|_| !only_cri) {
            users.add(reference, Rule::I1, || {
                "a sandbox, or a container that CRI does not list, uses it".to_owned()
            });
        }
        // What has ended starts no more.
        let may_start = |pod: &&Pod| !has_ended(pod) || mutation::is(Mutation::EndedPodsUseImages);
        for Pod { pod: PodRef { namespace, name, .. }, images, .. } in pods.pods().iter().filter(may_start) {
            let reason = || format!("the spec of pod {} names it", escaped(&format!("{namespace}/{name}")));
            images.iter().for_each(|reference| users.add(reference, Rule::B2, reason));
        }
        users
    }

    fn add(&mut self, reference: &str, rule: Rule, reason: impl Fn() -> String) {
        for key in keys_of_reference(reference) {
            self.used.entry(key).or_insert_with(|| (rule, reason()));
        }
    }

    /// The rule that keeps this image because something uses it, and the reason.
    pub(crate) fn user(&self, image: &Image) -> Option<&(Rule, String)> {
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
    for pod in pods.pods().iter().filter(|pod| pod.without_image_volumes) {
        without.insert(&pod.pod.uid);
        without.extend(pod.mirror_of.as_deref());
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
            let longest = suffixes(name.path).last().unwrap_or_default();
            keys.push(format!("{ANY_REGISTRY}{longest}:{}", name.tag));
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

/// `nginx` and `library/nginx` for `library/nginx`. Of a path with very many parts only the last ones, so that it
/// takes linear time: two that have these in common could be the same.
fn suffixes(path: &str) -> impl Iterator<Item = &str> {
    const MOST_PARTS: usize = 16;
    let starts = path.rmatch_indices('/').map(|(at, _)| at + 1).chain([0]);
    starts.take(MOST_PARTS).map(|start| &path[start..])
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

    fn means(reference: &str, tag: &str, digest: &str) -> bool {
        let image = Image {
            id: DIGEST.replace("0123", "aaaa"),
            repo_tags: vec![tag.to_owned()],
            repo_digests: vec![digest.to_owned()],
            ..Image::default()
        };
        let keys = keys_of_reference(reference);
        has_key(&image, |key| keys.iter().any(|wanted| wanted == key))
    }

    #[test]
    fn two_names_mean_the_same_image_if_they_could() {
        let nginx = "docker.io/library/nginx:latest";
        let team = "registry.example:5000/team/app:1";
        for (reference, tag, expected) in [
            ("nginx", nginx, true),
            ("nginx:latest", nginx, true),
            ("library/nginx", nginx, true),
            ("docker.io/nginx", nginx, true),
            ("index.docker.io/library/nginx", nginx, true),
            ("nginx:1.25", nginx, false),
            ("quay.io/nginx", nginx, false),
            ("inx", nginx, false),
            // A short name may be from any registry.
            ("team/app:1", team, true),
            ("app:1", team, true),
            ("registry.example/team/app:1", team, false),
            // A port is not a tag.
            ("localhost:5000/app", "localhost:5000/app:latest", true),
            ("localhost/app", "localhost/app:latest", true),
            ("", "<none>:<none>", false),
            ("<none>:<none>", "<none>:<none>", false),
        ] {
            assert_eq!(means(reference, tag, "<none>@<none>"), expected, "{reference} {tag}");
        }
        let digest = format!("registry.example/app@{DIGEST}");
        assert!(means(&digest, "", &digest) && means(DIGEST, "", &digest));
        assert!(means(&format!("registry.example/app:1@{DIGEST}"), "", &digest));
        assert!(!means(&DIGEST.replace('f', "e"), "", &digest));
    }

    #[test]
    fn a_path_of_very_many_parts_takes_linear_time_and_still_matches() {
        let path = "b/".repeat(1_000_000) + "c:1";
        assert!(means(&path, &format!("registry.example/{path}"), ""));
        assert!(!means("b:1", &format!("registry.example/{path}"), ""));
        assert!(means("b/c:1", &format!("registry.example/{path}"), ""));
    }

    #[test]
    fn an_id_means_its_image_with_and_without_its_algorithm() {
        let id = DIGEST.replace("0123", "aaaa");
        assert!(means(&id, "", ""));
        assert!(means(id.trim_start_matches("sha256:"), "", ""));
        let bare = Image { id: id.trim_start_matches("sha256:").to_owned(), ..Image::default() };
        assert!(has_key(&bare, |key| key == id));
    }
}
