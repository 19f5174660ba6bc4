//! The syntax of names, labels and finalizers.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The syntax of a type's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// Nearly all types.
    Subdomain,
    /// Namespaces.
    Label,
    /// Services.
    Label1035,
    /// Any path segment: RBAC.
    Segment,
}

impl Naming {
    /// The errors of a name.
    pub(super) fn faults(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => subdomain(name),
            Self::Label => one_of(name, 63, is_label(name), LABEL),
            Self::Label1035 => {
                let letter = name.starts_with(|first: char| first.is_ascii_lowercase());
                one_of(name, 63, letter && is_label(name), LABEL_1035)
            }
            Self::Segment => segment(name),
        }
    }

    /// The errors of a name prefix, which may end with a dash.
    pub(super) fn faults_of_prefix(self, prefix: &str) -> Vec<String> {
        match prefix.strip_suffix('-') {
            Some(rest) if !rest.is_empty() && self != Self::Segment => {
                self.faults(&format!("{}a", &rest[..rest.len() - last(rest)]))
            }
            _ => self.faults(prefix),
        }
    }
}

fn last(text: &str) -> usize {
    text.chars().next_back().map_or(0, char::len_utf8)
}

fn one_of(text: &str, longest: usize, well_formed: bool, form: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > longest {
        faults.push(format!("must be no more than {longest} characters"));
    }
    if !well_formed {
        faults.push(form.to_owned());
    }
    faults
}

fn subdomain(name: &str) -> Vec<String> {
    one_of(name, 253, name.split('.').all(is_label), SUBDOMAIN)
}

fn segment(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => ["/", "%"]
            .iter()
            .filter(|part| name.contains(**part))
            .map(|part| format!("may not contain '{part}'"))
            .collect(),
    }
}

fn is_label(text: &str) -> bool {
    between(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| c == '-')
}

/// Whether a text consists of `plain` characters and, except at its ends, `inner` ones.
fn between(text: &str, plain: impl Fn(char) -> bool, inner: impl Fn(char) -> bool) -> bool {
    text.chars().all(|c| plain(c) || inner(c)) && text.starts_with(&plain) && text.ends_with(&plain)
}

fn is_word(text: &str) -> bool {
    between(text, |c| c.is_ascii_alphanumeric(), |c| matches!(c, '-' | '_' | '.'))
}

/// The errors of a qualified name: of a label, an annotation, a finalizer.
pub(super) fn qualified_name_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let parts: Vec<&str> = name.split('/').collect();
    let word = match parts.as_slice() {
        [word] => *word,
        [prefix, word] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                faults.extend(subdomain(prefix).into_iter().map(|fault| format!("prefix part {fault}")));
            }
            *word
        }
        _ => {
            let prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a qualified name {QUALIFIED} {prefix}")];
        }
    };
    if word.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if word.len() > 63 {
        faults.push("name part must be no more than 63 characters".to_owned());
    }
    if !is_word(word) {
        faults.push(format!("name part {QUALIFIED}"));
    }
    faults
}

/// The errors of a label's value.
pub(super) fn label_value_faults(value: &str) -> Vec<String> {
    one_of(value, 63, value.is_empty() || is_word(value), LABEL_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        use Naming::{Label, Label1035, Segment, Subdomain};
        for (naming, name, good) in [
            (Subdomain, "a", true),
            (Subdomain, "a-1.b", true),
            (Subdomain, "0", true),
            (Subdomain, "", false),
            (Subdomain, "UP", false),
            (Subdomain, "a_b", false),
            (Subdomain, "-a", false),
            (Subdomain, "a-", false),
            (Subdomain, "a..b", false),
            (Subdomain, "ä", false),
            (Label, "a-1", true),
            (Label, "n.2", false),
            (Label1035, "a1", true),
            (Label1035, "1a", false),
            (Segment, "system:node", true),
            (Segment, "a/b", false),
            (Segment, "..", false),
        ] {
            assert_eq!(naming.faults(name).is_empty(), good, "{naming:?} {name:?}");
        }
        assert_eq!(Subdomain.faults(&"a".repeat(254)), ["must be no more than 253 characters"]);
        assert_eq!(Label.faults(&"a".repeat(64)), ["must be no more than 63 characters"]);
    }

    #[test]
    fn beginnings_of_names() {
        for (prefix, good) in [("x-", true), ("x", true), ("G_x", false), ("-", false), ("x--", true)] {
            assert_eq!(Naming::Subdomain.faults_of_prefix(prefix).is_empty(), good, "{prefix}");
        }
    }

    #[test]
    fn qualified_names() {
        for (name, faults) in [
            ("foo", 0),
            ("a.b/c_D", 0),
            ("a/b/c", 1),
            ("x y/z", 1),
            ("/z", 1),
            ("z/", 2),
            ("", 2),
            ("a b", 1),
            ("$patch", 1),
        ] {
            assert_eq!(qualified_name_faults(name).len(), faults, "{name:?}");
        }
        assert_eq!(qualified_name_faults(&"a".repeat(64)).len(), 1);
    }

    #[test]
    fn values_of_labels() {
        assert!(label_value_faults("").is_empty());
        assert!(label_value_faults("a_B.c-1").is_empty());
        assert_eq!(label_value_faults("v v").len(), 1);
        assert_eq!(label_value_faults(&"a".repeat(64)).len(), 1);
    }
}
