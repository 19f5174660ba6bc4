//! Lists, also those that are too long for one message.
//!
//! A runtime does not send a message of more than 16 MiB: it answers a request for a longer list with
//! `ResourceExhausted`, always. The same list can then be had in parts, if the runtime serves that
//! (Kubernetes 1.36), or by many requests with filters.

use std::collections::{BTreeMap, HashMap};

use prost::Message;

use super::Client;
use crate::Error;
use crate::messages::*;
use crate::rpc::Call;

/// The maximum size in bytes of a list that comes in parts. A list beyond it is an error.
const LIST_LIMIT: usize = 256 * 1024 * 1024;

/// A pod that may have containers, for example because it has a directory of logs. Lists that are too
/// long are asked for by namespace and by uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's uid.
    pub uid: String,
}

/// A list, and whether it has everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing<T> {
    /// What the runtime has; each item once, unless one message has it several times.
    pub items: Vec<T>,
    /// Whether nothing is missing. If so, the list may still be of several moments: what has changed its state
    /// in the meantime is there as it was later.
    pub is_whole: bool,
}

impl Client {
    /// The containers that a filter selects, in one message.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if it does not fit; otherwise the runtime failed or did not answer.
    pub async fn containers(&self, filter: Option<ContainerFilter>) -> Result<Vec<Container>, Error> {
        Ok(self.call(ListContainersRequest { filter }).await?.containers)
    }

    /// All images. There are no filters that runtimes obey, so this is the whole list or an error.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the list fits into no message and the runtime cannot send it in parts;
    /// otherwise the runtime failed or did not answer.
    pub async fn all_images(&self) -> Result<Vec<Image>, Error> {
        let answer = self.call(ListImagesRequest::default()).await.map(|answer| answer.images);
        self.or_in_parts(answer, StreamImagesRequest::default(), |part| part.images, |image| &image.id).await
    }

    /// A list, or if it is too large for one message the same in parts, where the runtime serves that.
    pub(super) async fn or_in_parts<T: Message, C: Call>(
        &self,
        list: Result<Vec<T>, Error>,
        parts: C,
        items: fn(C::Response) -> Vec<T>,
        id: fn(&T) -> &str,
    ) -> Result<Vec<T>, Error> {
        let Err(too_large @ Error::TooLarge { .. }) = list else { return list };
        let mut kept = Kept::new(LIST_LIMIT, id);
        match self.stream(parts, |part| kept.keep(items(part))).await {
            Ok(()) => Ok(kept.items),
            Err(Error::Unimplemented { .. }) => Err(too_large),
            Err(error) => Err(error),
        }
    }

    /// All containers or sandboxes: in one message, in parts, or by filters. `pods` are asked for where nothing else
    /// helps.
    ///
    /// # Errors
    ///
    /// The runtime failed or did not answer. That a list is too long is none.
    pub async fn all<T: Listed>(&self, pods: &[PodKey]) -> Result<Listing<T>, Error> {
        let mut kept = Kept::new(LIST_LIMIT, T::id);
        if self.fits(&mut kept, T::Request::default()).await? {
            return Ok(Listing { items: kept.items, is_whole: true });
        }
        match self.stream(T::Parts::default(), |part| kept.keep(T::part(part))).await {
            Ok(()) => return Ok(Listing { items: kept.items, is_whole: true }),
            Err(Error::Unimplemented { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut is_whole = true;
        for state in T::STATES {
            if !self.fits(&mut kept, T::filter(*state, None)).await? {
                // There may be more than the pods that the caller knows have.
                is_whole = false;
                self.by_pods(&mut kept, *state, pods).await?;
            }
        }
        Ok(Listing { items: kept.items, is_whole })
    }

    /// What is in one state, by the namespaces of the pods or by the pods themselves. What is too long even so
    /// is left out.
    async fn by_pods<T: Listed>(&self, kept: &mut Kept<T>, state: i32, pods: &[PodKey]) -> Result<(), Error> {
        let mut by_namespace: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for PodKey { namespace, uid } in pods {
            by_namespace.entry(namespace).or_default().push(uid);
        }
        for (namespace, uids) in by_namespace {
            if self.fits(kept, T::filter(state, Some((POD_NAMESPACE, namespace)))).await? {
                continue;
            }
            for uid in uids {
                self.fits(kept, T::filter(state, Some((POD_UID, uid)))).await?;
            }
        }
        Ok(())
    }

    /// Makes one list, and says whether it was short enough.
    async fn fits<T: Listed>(&self, kept: &mut Kept<T>, request: T::Request) -> Result<bool, Error> {
        match self.call(request).await {
            Ok(answer) => {
                let detail = |detail| Error::TooLarge { rpc: T::Request::RPC, detail };
                kept.keep(T::items(answer)).map_err(detail)?;
                Ok(true)
            }
            Err(Error::TooLarge { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Items by their ids: an item that appears again in a later message replaces the earlier one, because it
/// is newer. More than a limit is refused, because a runtime could send without end.
struct Kept<T> {
    items: Vec<T>,
    places: HashMap<String, usize>,
    bytes: usize,
    limit: usize,
    id: fn(&T) -> &str,
}

impl<T: Message> Kept<T> {
    fn new(limit: usize, id: fn(&T) -> &str) -> Self {
        Self { items: Vec::new(), places: HashMap::new(), bytes: 0, limit, id }
    }

    fn keep(&mut self, items: Vec<T>) -> Result<(), String> {
        // The usual case: the whole list in one message, whose length has a limit of its own.
        if self.items.is_empty() {
            self.items = items;
            return Ok(());
        }
        let id = self.id;
        if self.places.is_empty() {
            self.bytes = self.items.iter().map(Message::encoded_len).sum();
            self.places = self.items.iter().enumerate().map(|(at, item)| (id(item).to_owned(), at)).collect();
        }
        for item in items {
            self.bytes = self.bytes.saturating_add(item.encoded_len());
            if self.bytes > self.limit {
                return Err(format!("more than {} bytes in all", self.limit));
            }
            match self.places.get(id(&item)) {
                Some(at) => self.items[*at] = item,
                None => {
                    self.places.insert(id(&item).to_owned(), self.items.len());
                    self.items.push(item);
                }
            }
        }
        Ok(())
    }
}

/// What can be listed by state and label.
pub trait Listed: Message + Sized {
    type Request: Call;
    type Parts: Call;
    /// All states, in the order in which an item can pass through them: lists of one state after the other
    /// miss no item that moves on in the meantime.
    const STATES: &[i32];

    fn id(&self) -> &str;
    fn filter(state: i32, label: Option<(&str, &str)>) -> Self::Request;
    fn items(answer: <Self::Request as Call>::Response) -> Vec<Self>;
    fn part(part: <Self::Parts as Call>::Response) -> Vec<Self>;
}

/// The labels of a filter.
fn selector(label: Option<(&str, &str)>) -> BTreeMap<String, String> {
    label.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect()
}

impl Listed for Container {
    type Request = ListContainersRequest;
    type Parts = StreamContainersRequest;
    const STATES: &[i32] = &[
        ContainerState::ContainerCreated as i32,
        ContainerState::ContainerRunning as i32,
        ContainerState::ContainerUnknown as i32,
        ContainerState::ContainerExited as i32,
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn filter(state: i32, label: Option<(&str, &str)>) -> Self::Request {
        let state = Some(ContainerStateValue { state });
        let filter = ContainerFilter { state, label_selector: selector(label), ..ContainerFilter::default() };
        ListContainersRequest { filter: Some(filter) }
    }

    fn items(answer: ListContainersResponse) -> Vec<Self> {
        answer.containers
    }

    fn part(part: StreamContainersResponse) -> Vec<Self> {
        part.containers
    }
}

impl Listed for PodSandbox {
    type Request = ListPodSandboxRequest;
    type Parts = StreamPodSandboxesRequest;
    const STATES: &[i32] = &[PodSandboxState::SandboxReady as i32, PodSandboxState::SandboxNotready as i32];

    fn id(&self) -> &str {
        &self.id
    }

    fn filter(state: i32, label: Option<(&str, &str)>) -> Self::Request {
        let state = Some(PodSandboxStateValue { state });
        let filter =
            PodSandboxFilter { state, label_selector: selector(label), ..PodSandboxFilter::default() };
        ListPodSandboxRequest { filter: Some(filter) }
    }

    fn items(answer: ListPodSandboxResponse) -> Vec<Self> {
        answer.items
    }

    fn part(part: StreamPodSandboxesResponse) -> Vec<Self> {
        part.pod_sandboxes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, size: u64) -> Image {
        Image { id: id.to_owned(), size, ..Image::default() }
    }

    #[test]
    fn an_item_that_appears_again_is_kept_once_and_as_it_was_last() {
        let mut kept = Kept::new(usize::MAX, |image: &Image| &image.id);
        kept.keep(vec![image("a", 1), image("b", 1)]).expect("room");
        kept.keep(vec![image("b", 2), image("c", 2)]).expect("room");
        assert_eq!(kept.items, [image("a", 1), image("b", 2), image("c", 2)]);
        // In one message, both are of the same moment, and nobody knows which one is meant.
        let mut kept = Kept::new(usize::MAX, |image: &Image| &image.id);
        kept.keep(vec![image("a", 1), image("a", 2)]).expect("room");
        assert_eq!(kept.items, [image("a", 1), image("a", 2)]);
    }

    #[test]
    fn a_list_without_end_is_refused() {
        let mut kept = Kept::new(1000, |image: &Image| &image.id);
        let refused = (0..1000).find_map(|at| kept.keep(vec![image(&format!("{at}"), 0)]).err());
        assert!(refused.expect("a limit").contains("1000 bytes"));
    }
}
