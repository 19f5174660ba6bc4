//! Connections to a port of a pod through the API server, as `kubectl port-forward` makes them.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use tokio::io::DuplexStream;

use super::client::Api;
use super::connection_error::error_chain;
use super::error::{ApiError, ErrorClass};

impl Api {
    /// Connects to a port of a pod. It needs the right to `get` and `create` `pods/portforward`. Returns
    /// the bytes that the pod reads and writes, and why the connection failed, in the words of the
    /// kubelet; `None` after a connection without an error.
    ///
    /// # Errors
    ///
    /// The API server does not forward the port.
    pub async fn forward_port(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> Result<(DuplexStream, BoxFuture<'static, Option<String>>), ApiError> {
        let failed = |class, message: String, code| ApiError {
            class,
            action: "FORWARD",
            target: format!("port {port} of pod {namespace}/{pod}"),
            message,
            code,
        };
        // Its connections can become something else than HTTP/1.1.
        let pods = kube::Api::<Pod>::namespaced(self.0.clients.lists.0.clone(), namespace);
        // Boxed, because it is large.
        let forwarded = Box::pin(pods.portforward(pod, &[port])).await;
        let mut forwarder = forwarded.map_err(|error| match error {
            kube::Error::Api(status) => {
                let is_denied = matches!(status.code, 401 | 403);
                let class = if is_denied { ErrorClass::Denied } else { ErrorClass::Refused };
                failed(class, status.message.clone(), Some(status.code))
            }
            error => failed(ErrorClass::Unusable, error_chain(&error), None),
        })?;
        let stream = forwarder.take_stream(port);
        let failure = forwarder.take_error(port);
        let (Some(stream), Some(failure)) = (stream, failure) else {
            return Err(failed(ErrorClass::Unusable, "the port was not forwarded".to_owned(), None));
        };
        // The task of the forwarder goes on until one end closes the stream.
        Ok((stream, failure.boxed()))
    }
}
