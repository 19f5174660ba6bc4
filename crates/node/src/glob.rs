//! Patterns of the setting `keep`: `*` is any text, `?` is any character.

/// A pattern that a whole name has to match.
///
/// Unlike in a shell, `*` crosses slashes: `registry.example/*` names everything in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

/// The longest pattern.
pub const LONGEST: usize = 512;

impl Glob {
    /// A pattern, unless it is empty or longer than [`LONGEST`].
    #[must_use]
    pub fn parse(pattern: &str) -> Option<Self> {
        let fine = (1..=LONGEST).contains(&pattern.len()) && !pattern.chars().any(char::is_whitespace);
        fine.then(|| Self(pattern.to_owned()))
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches all of this text. Takes at most as many steps as the product of
    /// both lengths.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        // Where to go on if what follows the last star does not match here.
        let mut retry: Option<(usize, usize)> = None;
        while t < text.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    retry = Some((p, t));
                    p += 1;
                }
                Some(b'?') => (p, t) = (p + 1, t + 1),
                Some(&byte) if byte == text[t] => (p, t) = (p + 1, t + 1),
                _ => {
                    let Some((star, seen)) = retry else { return false };
                    retry = Some((star, seen + 1));
                    (p, t) = (star + 1, seen + 1);
                }
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::parse(pattern).unwrap().matches(text)
    }

    #[test]
    fn stars_match_any_text_and_question_marks_one_character() {
        assert!(matches("registry.example/*", "registry.example/team/app:1"));
        assert!(matches("*/pause:*", "registry.k8s.io/pause:3.9"));
        assert!(matches("app:?", "app:1"));
        assert!(matches("**", ""));
        assert!(!matches("app:?", "app:10"));
        assert!(!matches("registry.example/*", "other.example/registry.example/app"));
        assert!(!matches("app", "apple"));
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(&pattern, &"a".repeat(10_000)));
    }

    #[test]
    fn empty_long_and_spaced_patterns_are_no_patterns() {
        assert_eq!(Glob::parse(""), None);
        assert_eq!(Glob::parse("a b"), None);
        assert_eq!(Glob::parse(&"a".repeat(513)), None);
    }
}
