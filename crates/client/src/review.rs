//! TokenReview and SubjectAccessReview: who a user is, and what the user may do.
//!
//! Both requests create an object that is not stored. Nothing in the cluster changes, so they
//! need no write permit: a dry run and a standby send them, too.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Request;
use http::header::{CONTENT_TYPE, USER_AGENT as USER_AGENT_HEADER};
use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::api::authorization::v1::SubjectAccessReviewStatus;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::connection_error::error_chain;
use super::{ConnectError, Connection, USER_AGENT};
use kube_gc_observe::access::{ReviewError, Reviewer, Token, User};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// How many reviews may be in flight. A client that sends many invalid tokens must not cause
/// as many concurrent requests to the API server.
const CONCURRENT: usize = 8;

/// The longest answer, far more than any review needs.
const LONGEST_ANSWER: usize = 1 << 20;

/// Sends reviews, with its own client, so that reviews and deletions do not delay each
/// other.
#[derive(Clone)]
pub struct Reviews {
    client: kube::Client,
    permits: Arc<Semaphore>,
    limit: Duration,
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviews").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The status of a review. There is no field for the spec, because that contains a token.
#[derive(Deserialize)]
struct Answer<S> {
    status: S,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: User,
    error: String,
}

#[derive(Deserialize)]
struct ErrorBody {
    message: String,
}

impl Reviewer for Reviews {
    fn identify<'a>(&'a self, token: &'a Token) -> BoxFuture<'a, Result<Arc<User>, ReviewError>> {
        async move {
            let review = json!({
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": { "token": token.reveal() },
            });
            let status: TokenStatus = self.create(TOKEN_REVIEWS, &review).await?;
            if status.authenticated {
                Ok(Arc::new(status.user))
            } else {
                Err(ReviewError::Denied(status.error))
            }
        }
        .boxed()
    }

    fn may_get<'a>(&'a self, user: &'a User, path: &'a str) -> BoxFuture<'a, Result<(), ReviewError>> {
        async move {
            let User { username, uid, groups, extra } = user;
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": username,
                    "uid": uid,
                    "groups": groups,
                    "extra": extra,
                    "nonResourceAttributes": { "path": path, "verb": "get" },
                },
            });
            let status: SubjectAccessReviewStatus = self.create(ACCESS_REVIEWS, &review).await?;
            if status.allowed && !status.denied.unwrap_or_default() {
                return Ok(());
            }
            let reason = status.reason.filter(|reason| !reason.is_empty());
            Err(ReviewError::Denied(reason.or(status.evaluation_error).unwrap_or_default()))
        }
        .boxed()
    }
}

impl Reviews {
    /// Sets up the client; sends nothing yet. `limit` is the time limit of a review, including
    /// the wait for other reviews.
    ///
    /// # Errors
    /// Certificates or credentials that cannot be used.
    pub fn connect(connection: &Connection, limit: Duration) -> Result<Self, ConnectError> {
        Ok(Self::from_client(connection.client()?, limit))
    }

    /// Sends reviews through an existing client.
    pub fn from_client(client: kube::Client, limit: Duration) -> Self {
        Self { client, permits: Arc::new(Semaphore::new(CONCURRENT)), limit }
    }

    async fn create<S: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        review: &Value,
    ) -> Result<S, ReviewError> {
        let exchange = async {
            // The semaphore is never closed, so this is never an error.
            let _permit = self.permits.acquire().await;
            self.exchange(path, review).await
        };
        timeout(self.limit, exchange)
            .await
            .unwrap_or_else(|_| Err(ReviewError::Unanswered(format!("no answer within {:?}", self.limit))))
    }

    async fn exchange<S: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        review: &Value,
    ) -> Result<S, ReviewError> {
        let request = Request::post(path)
            .header(USER_AGENT_HEADER, USER_AGENT)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(review.to_string().into_bytes()))
            .map_err(|error| ReviewError::Unanswered(error.to_string()))?;
        let answer =
            self.client.send(request).await.map_err(|error| ReviewError::Unanswered(error_chain(&error)))?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| ReviewError::Unanswered(error_chain(&*error)))?.to_bytes();
        if !parts.status.is_success() {
            let message = serde_json::from_slice(&body).map(|refusal: ErrorBody| refusal.message);
            return Err(ReviewError::Unanswered(format!(
                "{}: {}",
                parts.status,
                message.unwrap_or_default()
            )));
        }
        // serde's message could quote the answer.
        let answer = serde_json::from_slice(&body);
        answer
            .map(|Answer { status }| status)
            .map_err(|_| ReviewError::Unanswered("the response is not a review".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Reply, Server};

    const LIMIT: Duration = Duration::from_secs(10);

    fn token(text: &str) -> Token {
        Token::new(text).unwrap()
    }

    fn reviews(server: &Server) -> Reviews {
        Reviews::from_client(server.client(), LIMIT)
    }

    #[tokio::test]
    async fn the_servers_answer_about_a_token_is_returned_unchanged() {
        let user = r#"{"username":"u","uid":"1","groups":["a","b"],"extra":{"k":["v","w"]}}"#;
        let server = Server::replying([
            Reply::code(201, format!(r#"{{"status":{{"authenticated":true,"user":{user}}}}}"#)),
            Reply::code(201, r#"{"status":{"error":"token has expired","user":{}}}"#),
            Reply::code(201, r#"{"status":{"allowed":true,"reason":"RBAC: a binding"}}"#),
            Reply::code(201, r#"{"status":{"allowed":false,"reason":"no role"}}"#),
            Reply::code(201, r#"{"status":{"allowed":true,"denied":true}}"#),
        ]);
        let reviews = reviews(&server);
        let known = reviews.identify(&token("t0")).await.unwrap();
        let denied = |reason: &str| Err(ReviewError::Denied(reason.to_owned()));
        assert_eq!(*known, serde_json::from_str(user).unwrap());
        assert_eq!(
            reviews.identify(&token("t1")).await,
            Err(ReviewError::Denied("token has expired".to_owned()))
        );
        for answer in [Ok(()), denied("no role"), denied("")] {
            assert_eq!(reviews.may_get(&known, "/metrics").await, answer);
        }

        let seen = server.seen();
        assert_eq!(seen[0].line(), format!("POST {TOKEN_REVIEWS}"));
        assert_eq!(seen[0].json()["spec"], json!({"token": "t0"}));
        assert_eq!(seen[0].header("user-agent"), USER_AGENT);
        assert_eq!(seen[2].line(), format!("POST {ACCESS_REVIEWS}"));
        let spec = json!({
            "user": "u", "uid": "1", "groups": ["a", "b"], "extra": {"k": ["v", "w"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!(seen[2].json()["spec"], spec);
    }

    #[tokio::test]
    async fn an_unanswered_review_is_no_approval() {
        tokio::time::pause();
        let server = Server::replying([
            Reply::status(403, "tokenreviews is forbidden", "{}"),
            Reply::code(200, r#"{"status":{"authenticated":"true","user":{"username":"secret"}}}"#),
            Reply::code(200, "{}"),
            Reply::never(),
        ]);
        let reviews = reviews(&server);
        for reason in [
            "403 Forbidden: tokenreviews is forbidden",
            "the response is not a review",
            "the response is not a review",
            "no answer within 10s",
        ] {
            assert_eq!(reviews.identify(&token("t")).await, Err(ReviewError::Unanswered(reason.to_owned())));
        }
    }

    #[tokio::test]
    async fn few_reviews_are_in_flight_at_a_time() {
        tokio::time::pause();
        let server = Server::replying([]);
        let reviews = reviews(&server);
        let tokens: Vec<Token> = (0..3 * CONCURRENT).map(|number| token(&number.to_string())).collect();
        let answers = futures::future::join_all(tokens.iter().map(|token| reviews.identify(token))).await;
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        assert_eq!(server.seen().len(), CONCURRENT);
    }
}
