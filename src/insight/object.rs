//! The object of a question, as people name it.

use kube_gc_core::object::Uid;

/// The object of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectArgument {
    /// A type, in any form that kubectl knows, and a name.
    Named {
        /// `TYPE`, `TYPE.GROUP` or `TYPE.VERSION.GROUP`.
        of_type: String,
        /// The object's name.
        name: String,
    },
    /// A uid.
    Uid(Uid),
}

/// Why arguments name no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; an object is TYPE/NAME, TYPE NAME or uid:UID")]
pub struct ObjectArgumentError(String);

impl ObjectArgument {
    /// Reads one or two arguments.
    ///
    /// # Errors
    ///
    /// They name no object, or more than one.
    pub fn read(arguments: &[String]) -> Result<Self, ObjectArgumentError> {
        let (of_type, name) = match arguments {
            [one] => {
                if let Some(uid) = one.strip_prefix("uid:") {
                    let uid =
                        Uid::parse(uid).ok_or_else(|| ObjectArgumentError("the uid is empty".into()))?;
                    return Ok(Self::Uid(uid));
                }
                one.split_once('/').ok_or_else(|| ObjectArgumentError(format!("{one:?} has no name")))?
            }
            [of_type, name] if !of_type.contains('/') && !name.contains('/') => {
                (of_type.as_str(), name.as_str())
            }
            _ => return Err(ObjectArgumentError("more than one object is named".into())),
        };
        if of_type.is_empty() || name.is_empty() || name.contains('/') {
            return Err(ObjectArgumentError(format!("{of_type}/{name} is not a type and a name")));
        }
        Ok(Self::Named { of_type: of_type.to_owned(), name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<ObjectArgument, ObjectArgumentError> {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        ObjectArgument::read(&arguments)
    }

    #[test]
    fn an_object_has_three_forms() {
        let named = ObjectArgument::Named { of_type: "deployments.v1.apps".into(), name: "web".into() };
        assert_eq!(read(&["deployments.v1.apps/web"]), Ok(named.clone()));
        assert_eq!(read(&["deployments.v1.apps", "web"]), Ok(named));
        assert_eq!(read(&["uid:a-b"]), Ok(ObjectArgument::Uid(Uid::parse("a-b").unwrap())));
    }

    #[test]
    fn anything_else_is_an_error() {
        for wrong in [
            &["web"][..],
            &["uid:"],
            &["/web"],
            &["deploy/"],
            &["a/b/c"],
            &["deploy/a", "deploy/b"],
            &["a", "b", "c"],
            &[],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
