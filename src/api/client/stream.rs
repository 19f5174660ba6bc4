//! Opening a list or a watch, whose body is read while it arrives.

use std::time::Duration;

use http::Response;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};

use super::Api;
use super::failure::{too_slow, transport};
use crate::api::call::Call;
use crate::api::error::ApiError;
use crate::api::settings::Verb;
use kube_gc_decode::{Encoding, Status};

impl Api {
    /// Sends the request of a list or a watch and waits for the response's head. An error
    /// response is read to its end, within the same time limit.
    pub(in crate::api) async fn open(&self, call: Call<'_>) -> Result<Response<Body>, ApiError> {
        let clients = &self.0.clients;
        let client = if call.verb == Verb::Watch { &clients.watches } else { &clients.lists };
        let request = call.request(self.0.settings.compressed_lists)?;
        let sending = async { client.send(request).await.map_err(|error| transport(&call, &error)) };
        let response = self.head(&call, self.0.settings.request_timeout, sending).await?;
        self.write_encodings().answered(call.resource, Encoding::of(response.headers()));
        Ok(response)
    }

    /// Waits for the head of a response. An error response is read to its end, within the same time
    /// limit. A list that begins is not observed: the caller does that at its end.
    pub(super) async fn head(
        &self,
        call: &Call<'_>,
        limit: Duration,
        sending: impl Future<Output = Result<Response<Body>, ApiError>>,
    ) -> Result<Response<Body>, ApiError> {
        let start = Instant::now();
        let deadline = start + limit;
        let response = timeout_at(deadline, sending).await.unwrap_or_else(|_| Err(too_slow(call, limit)));
        self.note_reachable(call, start, response.as_ref().map(|response| response.status().as_u16()));
        let code = response.as_ref().ok().map(|response| response.status().as_u16());
        let is_ok = response.as_ref().is_ok_and(|response| response.status().is_success());
        if !is_ok || call.verb == Verb::Watch {
            self.observe(call.verb, call.resource, code, start);
        }
        let response = response?;
        if is_ok {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let body = timeout_at(deadline, self.read_body(call, body))
            .await
            .unwrap_or_else(|_| Err(too_slow(call, limit)))?;
        let status = Status::read(Encoding::of(&parts.headers), &body);
        Err(call.refusal(parts.status.as_u16(), &parts.headers, &status, &body))
    }
}
