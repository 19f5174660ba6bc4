//! The names of images.
//!
//! A container may refer to its image by id, by digest, by a full name, or as people write it:
//! `nginx`. Two names are taken for the same image if they could be. An image that is thought to
//! be used stays, so a match too many does no harm.

use crate::view::Image;

/// Marks keys of names without a registry, which may be in any.
const ANY_REGISTRY: char = '~';

/// What a reference to an image may match: an image is meant if it has one of these keys.
#[must_use]
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

/// Whether an image is known by a key that is wanted. Keys of names without a registry are only looked at
/// if `short` asks for them: most nodes have no use for them.
pub(crate) fn has_key(image: &Image, short: bool, mut is_wanted: impl FnMut(&str) -> bool) -> bool {
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
        if !parsed.is_full() && is_wanted(&parsed.full()) {
            return true;
        }
        short && suffixes(parsed.path).any(|path| is_wanted(&format!("{ANY_REGISTRY}{path}:{}", parsed.tag)))
    })
}

/// Whether a key is that of a name without a registry.
pub(crate) fn is_short(key: &str) -> bool {
    key.starts_with(ANY_REGISTRY)
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
    has_tag: bool,
}

impl<'a> Name<'a> {
    fn parse(text: &'a str) -> Self {
        let (registry, rest) = match text.split_once('/') {
            // The first part is a registry if it cannot be a part of a path.
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
            _ => (None, text),
        };
        let tagged = rest.rsplit_once(':');
        let (path, tag) = tagged.unwrap_or((rest, "latest"));
        Self { registry, path, tag, has_tag: tagged.is_some() }
    }

    /// Whether the name is already as runtimes complete it, as most are.
    fn is_full(&self) -> bool {
        self.has_tag && self.registry.is_some_and(|registry| !is_default(registry))
    }

    /// The name as runtimes complete it.
    fn full(&self) -> String {
        let Self { registry, path, tag, .. } = self;
        match registry.filter(|registry| !is_default(registry)) {
            None if path.contains('/') => format!("docker.io/{path}:{tag}"),
            None => format!("docker.io/library/{path}:{tag}"),
            Some(registry) => format!("{registry}/{path}:{tag}"),
        }
    }
}

/// Whether this is the registry of names without one.
fn is_default(registry: &str) -> bool {
    matches!(registry, "docker.io" | "index.docker.io")
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
        has_key(&image, true, |key| keys.iter().any(|wanted| wanted == key))
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
        assert!(has_key(&bare, false, |key| key == id));
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
            let _ = has_key(&image, true, |_| false);
        }
    }
}
