//! One page of a list, read while it arrives.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body::{Body as _, Frame};
use kube::client::Body;
use tokio::time::{Instant, timeout_at};

use super::Api;
use super::failure::{too_long, too_slow};
use super::unary::LONGEST_ANSWER;
use crate::api::call::Call;
use crate::api::error::{ApiError, ErrorClass};
use kube_gc_decode::{Encoding, Envelope, ListError, ListReader, ObjectView, Status};

/// The longest `Status` that a server may answer with in place of a list.
const LONGEST_STATUS: usize = 1 << 20;

/// A page that has begun to arrive.
pub(in crate::api) struct Page<'a> {
    api: &'a Api,
    call: Call<'a>,
    code: u16,
    encoding: Encoding,
    body: Body,
    /// How long the server took to begin the response.
    took: Duration,
}

/// A page that was read to its end.
pub(in crate::api) struct ReadPage {
    pub envelope: Envelope,
    /// How many objects it has.
    pub objects: usize,
    /// The code of the response.
    pub code: u16,
}

/// Why there is no page.
pub(in crate::api) enum PageError {
    /// It was refused, or did not arrive whole.
    Failed(ApiError),
    /// It cannot be read.
    Unreadable {
        /// The encoding of the response.
        encoding: Encoding,
        error: ApiError,
    },
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl PageError {
    /// Whether the page may exist in JSON.
    pub fn is_about_encoding(&self) -> bool {
        match self {
            Self::Failed(error) => error.says_not_acceptable(),
            Self::Unreadable { encoding, .. } => *encoding != Encoding::Json,
        }
    }
}

/// A page that was requested before the one in front of it had arrived whole. Only its head is
/// waited for until then, so that no more than one page is in memory.
pub(in crate::api) struct NextPage<'a> {
    /// The continue token with which it was requested.
    pub token: String,
    opening: Opening<'a>,
}

enum Opening<'a> {
    Waiting(BoxFuture<'a, Result<Page<'a>, ApiError>>),
    Done(Box<Result<Page<'a>, ApiError>>),
}

impl<'a> NextPage<'a> {
    /// A page that is requested with this token. The request is sent while the page in front of it
    /// is read.
    pub fn new(token: String, opening: impl Future<Output = Result<Page<'a>, ApiError>> + Send + 'a) -> Self {
        Self { token, opening: Opening::Waiting(opening.boxed()) }
    }

    /// The page, when it begins to arrive.
    pub async fn opened(self) -> Result<Page<'a>, ApiError> {
        match self.opening {
            Opening::Waiting(opening) => opening.await,
            Opening::Done(page) => *page,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        if let Opening::Waiting(opening) = &mut self.opening
            && let Poll::Ready(page) = opening.poll_unpin(context)
        {
            self.opening = Opening::Done(Box::new(page));
        }
    }
}

impl Api {
    /// Requests a page, and waits until it begins to arrive.
    pub(in crate::api) async fn open_page<'a>(&'a self, call: Call<'a>) -> Result<Page<'a>, ApiError> {
        self.pass(&call).await?;
        let start = Instant::now();
        let request = call.request(self.0.settings.compressed_lists)?;
        let response = self.head(&call, self.1.limit, self.response(&call, request)).await?;
        let (parts, body) = response.into_parts();
        let (code, encoding) = (parts.status.as_u16(), Encoding::of(&parts.headers));
        Ok(Page { api: self, call, code, encoding, body, took: start.elapsed() })
    }
}

impl<'a> Page<'a> {
    /// Reads the page to its end, and calls `visit` for every object. As soon as the head of the page
    /// has arrived, the next page is what `request` makes of the continue token.
    ///
    /// # Errors
    ///
    /// The page does not arrive whole or in time, or cannot be read.
    pub async fn read(
        mut self,
        next: &mut Option<NextPage<'a>>,
        request: &(dyn Fn(String) -> Option<NextPage<'a>> + Sync),
        visit: &mut (dyn FnMut(ObjectView<'_>) + Send),
    ) -> Result<ReadPage, PageError> {
        let now = Instant::now();
        // As if it had begun to arrive just now: it may have waited for its turn.
        let start = now.checked_sub(self.took).unwrap_or(now);
        let deadline = start + self.api.1.limit;
        let arrived = timeout_at(deadline, self.arrive(next, request, visit));
        let result =
            arrived.await.unwrap_or_else(|_| Err(PageError::Failed(too_slow(&self.call, self.api.1.limit))));
        let code = match &result {
            Err(PageError::Failed(error)) => {
                self.api.note_reachable(&self.call, start, Err(error));
                error.code
            }
            Ok(_) | Err(PageError::Unreadable { .. }) => Some(self.code),
        };
        self.api.observe(self.call.verb, self.call.resource, code, start);
        result
    }

    async fn arrive(
        &mut self,
        next: &mut Option<NextPage<'a>>,
        request: &(dyn Fn(String) -> Option<NextPage<'a>> + Sync),
        visit: &mut (dyn FnMut(ObjectView<'_>) + Send),
    ) -> Result<ReadPage, PageError> {
        let mut items = ListReader::new(self.encoding);
        let (mut length, mut objects) = (0, 0_usize);
        let mut has_head = false;
        // The whole body, while it may be a `Status`.
        let mut start = Vec::new();
        while let Some(frame) = self.frame(next).await {
            let frame = frame.map_err(|error| self.api.broken(&self.call, &error))?;
            let Ok(data) = frame.into_data() else { continue };
            length += data.len();
            if length > LONGEST_ANSWER {
                return Err(too_long(&self.call, LONGEST_ANSWER).into());
            }
            if objects == 0 && length <= LONGEST_STATUS {
                start.extend_from_slice(&data);
            }
            let visit = &mut |view: ObjectView<'_>| {
                objects += 1;
                visit(view);
            };
            items.feed(&data, visit).map_err(|error| self.unreadable(&error, &start))?;
            if !has_head && let Some(head) = items.preview() {
                has_head = true;
                *next = request(head.next);
            }
        }
        let envelope = items.finish().map_err(|error| self.unreadable(&error, &start))?;
        Ok(ReadPage { envelope, objects, code: self.code })
    }

    /// The next frame. The next page goes on being requested while it is waited for.
    async fn frame(
        &mut self,
        next: &mut Option<NextPage<'a>>,
    ) -> Option<Result<Frame<bytes::Bytes>, kube::Error>> {
        poll_fn(|context| {
            if let Some(next) = next {
                next.poll(context);
            }
            Pin::new(&mut self.body).poll_frame(context)
        })
        .await
    }

    /// The error of a body that is no list.
    fn unreadable(&self, error: &ListError, start: &[u8]) -> PageError {
        if let Some(status) = Status::of_failure(start) {
            return self.call.contradiction(self.code, &status).into();
        }
        let message = error.0.clone();
        let error = self.call.error(ErrorClass::Unusable, message, Some(self.code));
        PageError::Unreadable { encoding: self.encoding, error }
    }
}
