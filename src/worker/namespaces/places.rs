//! Where the deletion of a type goes on in the next turn (rule 11.3).

use std::collections::HashMap;

use tokio::sync::Mutex;

use kube_gc_core::object::{GroupResource, Uid};

/// How many tokens are kept, of at most 16 KiB each. A deletion without one begins at the first page.
const MOST: usize = 256;

/// The continue tokens of the types of a namespace.
pub(super) type Places = HashMap<GroupResource, String>;

/// The places in all namespaces that wait for their next turn.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<HashMap<Box<str>, (Uid, Places)>>);

impl Kept {
    /// Takes the places of a namespace. Those of an earlier namespace of this name are void.
    pub(super) async fn take(&self, name: &str, uid: &Uid) -> Places {
        let kept = self.0.lock().await.remove(name);
        kept.filter(|(of, _)| of == uid).map(|(_, places)| places).unwrap_or_default()
    }

    /// Keeps the places of a namespace that has another turn.
    pub(super) async fn keep(&self, name: &str, uid: &Uid, places: Places) {
        let mut kept = self.0.lock().await;
        let others: usize = kept.values().map(|(_, places)| places.len()).sum();
        if !places.is_empty() && others + places.len() <= MOST {
            kept.insert(name.into(), (uid.clone(), places));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: usize) -> Places {
        (0..count).map(|number| (GroupResource::new("", &format!("t{number}")), "token".to_owned())).collect()
    }

    #[tokio::test]
    async fn a_namespace_that_was_created_again_begins_at_the_first_page() {
        let kept = Kept::default();
        let (one, other) = (Uid::parse("one").unwrap(), Uid::parse("other").unwrap());
        kept.keep("ns", &one, places(2)).await;
        assert_eq!(kept.take("ns", &other).await, Places::default());
        assert_eq!(kept.take("ns", &one).await, Places::default(), "they are void for ever");
        kept.keep("ns", &one, places(2)).await;
        assert_eq!(kept.take("ns", &one).await, places(2));
    }

    #[tokio::test]
    async fn the_kept_places_are_bounded() {
        let (kept, uid) = (Kept::default(), Uid::parse("u").unwrap());
        for number in 0..=MOST {
            kept.keep(&number.to_string(), &uid, places(1)).await;
        }
        assert_eq!(kept.take(&MOST.to_string(), &uid).await, Places::default());
        assert_eq!(kept.take("0", &uid).await, places(1));
    }
}
