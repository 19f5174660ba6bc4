//! Which types are listed.

use kube_gc_core::object::GroupResource;

/// Patterns of types as kubectl writes them, such as `pods`, `*.example.com` or `*`.
#[derive(Clone, Debug, Default)]
pub struct TypeFilter {
    /// Only these; empty for all.
    pub only: Vec<String>,
    /// None of these.
    pub without: Vec<String>,
}

impl TypeFilter {
    /// Whether it leaves nothing out.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.only.is_empty() && self.without.is_empty()
    }

    /// Whether objects of a type are looked at.
    #[must_use]
    pub fn admits(&self, resource: &GroupResource) -> bool {
        let name = resource.to_string();
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, &name));
        (self.only.is_empty() || any(&self.only)) && !any(&self.without)
    }
}

/// Whether a text matches a pattern, in which `*` stands for any text and `?` for one character.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last `*` was, and up to where it has matched so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                // Let the last `*` match one more.
                let Some((at, matched)) = star else { return false };
                star = Some((at, matched + 1));
                (p, t) = (at + 1, matched + 1);
            }
        }
    }
    pattern[p..].iter().all(|&rest| rest == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By trying everything.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match (pattern.first(), text.first()) {
            (None, None) => true,
            (Some('*'), _) => naive(&pattern[1..], text) || (!text.is_empty() && naive(pattern, &text[1..])),
            (Some('?'), Some(_)) => naive(&pattern[1..], &text[1..]),
            (Some(a), Some(b)) => a == b && naive(&pattern[1..], &text[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_match_what_they_say(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &text), naive(&chars(&pattern), &chars(&text)));
        }
    }

    #[test]
    fn a_type_is_left_out_or_the_only_one() {
        let filter = TypeFilter { only: vec!["*.example.com".into()], without: vec!["b.*".into()] };
        let admits = |name: &str| filter.admits(&GroupResource::parse(name));
        assert!(admits("a.example.com") && !admits("b.example.com") && !admits("pods"));
        assert!(TypeFilter::default().admits(&GroupResource::parse("pods")));
    }
}
