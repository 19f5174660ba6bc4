//! Names and uids, and which of them can be real.
//!
//! Labels of containers are text that anybody may have written. A pod whose identity the API
//! server could not have given is never asked about, and nothing of it goes because it is gone.

use serde::Serialize;

use kube_gc_core::text;

/// A pod, as the runtime and the log directories name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PodRef {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
    /// The uid of the pod; that of a static pod is a hash.
    pub uid: String,
}

impl PodRef {
    /// A pod by its three parts.
    #[must_use]
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() }
    }

    /// Whether the API server could have such a pod.
    #[must_use]
    pub fn is_plausible(&self) -> bool {
        is_label(&self.namespace) && is_subdomain(&self.name) && is_uid(&self.uid)
    }
}

/// Whether this can be a pod's uid: short, and of letters, digits, hyphens and dots.
#[must_use]
pub fn is_uid(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (1..=128).contains(&text.len())
        && text.bytes().all(fine)
        && text.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

/// Whether this has the form of the uids that the API server gives: 8-4-4-4-12 hexadecimal digits.
/// Uids of static pods are hashes without hyphens.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether this is a valid name of a namespace.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether this is a valid name of a pod.
fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|part| part.len() <= 253 && is_part(part))
}

fn is_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Text from the runtime, for people: short, and without control characters.
pub(crate) fn escaped(text: &str) -> String {
    // As nearly all names are.
    if text.len() <= text::LONGEST_WORD && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let cut = text::word(text).to_string();
    if cut.chars().any(char::is_control) { cut.escape_debug().to_string() } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_api_server_accepts_is_plausible() {
        let uid = "0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f10";
        assert!(PodRef::new("default", "web-0", uid).is_plausible());
        assert!(PodRef::new("kube-system", "kube-apiserver-a.example", "0123456789abcdef").is_plausible());
        for (namespace, name, uid) in [
            ("", "web-0", uid),
            ("default", "", uid),
            ("default", "web-0", ""),
            ("Default", "web-0", uid),
            ("default", "../../x", uid),
            ("default", "web_0", uid),
            ("default", "web-0", "a/b"),
            ("default", "web-0", ".."),
            ("default", "a..b", uid),
            (&"a".repeat(64), "web-0", uid),
        ] {
            assert!(!PodRef::new(namespace, name, uid).is_plausible(), "{namespace}/{name}/{uid}");
        }
        assert!(!is_uid(&"a".repeat(129)));
    }

    #[test]
    fn uids_of_the_api_server_have_hyphens() {
        assert!(is_uuid("0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f10"));
        assert!(!is_uuid("0123456789abcdef0123456789abcdef"));
        assert!(!is_uuid("0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f1z"));
    }

    #[test]
    fn escaped_text_is_short_and_harmless() {
        assert_eq!(escaped("web"), "web");
        assert_eq!(escaped("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert!(escaped(&"x".repeat(100_000)).len() < 300);
    }
}
