//! DELETE, with its preconditions.

use http::Method;
use serde::Serialize;

use super::accept::JSON;
use super::client::{Api, Call};
use super::error::{ApiError, ErrorClass};
use super::read::read_object;
use super::settings::Verb;
use crate::mutation::{self, Mutation};
use crate::object::{Identity, ObjectFacts, PropagationPolicy, ResourceVersion};

/// What a DELETE did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone.
    Removed,
    /// It is being deleted, held by finalizers or by its grace period.
    Pending(ObjectFacts),
    /// It was gone before.
    AlreadyGone,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions<'a> {
    kind: &'static str,
    api_version: &'static str,
    propagation_policy: PropagationPolicy,
    preconditions: Preconditions<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a crate::object::Uid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a ResourceVersion>,
}

impl Api {
    /// Deletes an object if it still has this uid and, when one is given, this
    /// resource version (semantics, section 4: what was decided on is what is
    /// deleted).
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorClass::Conflict) when a precondition does not hold;
    /// the gate's refusal; anything else that a request can meet.
    pub async fn delete(
        &self,
        identity: &Identity,
        policy: PropagationPolicy,
        resource_version: Option<&ResourceVersion>,
    ) -> Result<Deleted, ApiError> {
        #[derive(serde::Deserialize)]
        struct Kind<'a> {
            #[serde(borrow, default)]
            kind: super::decode::Text<'a>,
            #[serde(borrow, default, rename = "apiVersion")]
            api_version: super::decode::Text<'a>,
        }
        let mut call = Call::object(Verb::Delete, Method::DELETE, "DELETE", identity)?;
        let options = DeleteOptions {
            kind: "DeleteOptions",
            api_version: "v1",
            propagation_policy: policy,
            preconditions: Preconditions {
                uid: Some(&identity.uid).filter(|_| !mutation::is(Mutation::DeleteWithoutUid)),
                resource_version: resource_version.filter(|_| !mutation::is(Mutation::DeleteWithoutVersion)),
            },
        };
        let body = serde_json::to_vec(&options)
            .map_err(|error| call.error(ErrorClass::Refused, error.to_string(), None))?;
        call.body = Some((JSON, body));
        let answer = match self.call(call).await {
            Ok(answer) => answer,
            Err(error) if error.class == ErrorClass::Absent => return Ok(Deleted::AlreadyGone),
            Err(error) => return Err(error),
        };
        // Some types answer a removal with a `Status`, some with the object as it
        // was; one that is still there is always answered with the object.
        let is_status = serde_json::from_slice::<Kind<'_>>(&answer.body)
            .is_ok_and(|answer| &*answer.kind == "Status" && &*answer.api_version == "v1");
        if is_status {
            return Ok(Deleted::Removed);
        }
        let object = read_object("DELETE", identity, &answer)?;
        Ok(if object.is_held { Deleted::Pending(object.facts) } else { Deleted::Removed })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::scripted::{Reply, Server, widget, widget_json};

    async fn delete(reply: Reply) -> Result<Deleted, ApiError> {
        let server = Server::replying([reply]);
        server.api().delete(&widget(), PropagationPolicy::Background, None).await
    }

    #[tokio::test]
    async fn preconditions_and_policy_go_with_it() {
        let server =
            Server::replying([Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#)]);
        let version = ResourceVersion::number(7);
        let deleted = server.api().delete(&widget(), PropagationPolicy::Orphan, Some(&version)).await;
        assert_eq!(deleted, Ok(Deleted::Removed));
        let request = &server.seen()[0];
        assert_eq!(request.line(), "DELETE /apis/example.com/v1/namespaces/ns/widgets/w");
        assert_eq!(
            request.json(),
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan",
                   "preconditions": {"uid": "u", "resourceVersion": "7"}})
        );
        assert!(request.header("accept").contains("as=PartialObjectMetadata;"));
    }

    #[tokio::test]
    async fn an_answered_object_is_pending_only_while_something_holds_it() {
        let held =
            delete(Reply::ok(widget_json(r#","deletionTimestamp":"t","finalizers":["foregroundDeletion"]"#)))
                .await;
        assert!(matches!(held, Ok(Deleted::Pending(facts)) if facts.finalizers.foreground));
        assert_eq!(delete(Reply::ok(widget_json(""))).await, Ok(Deleted::Removed));
        assert_eq!(delete(Reply::not_found()).await, Ok(Deleted::AlreadyGone));
    }

    #[tokio::test]
    async fn what_says_nothing_is_an_error() {
        for (reply, class) in [
            (Reply::code(404, "404 page not found"), ErrorClass::NotServed),
            (Reply::status(409, "the UID in the precondition", "{}"), ErrorClass::Conflict),
            (
                Reply::ok(r#"{"kind":"Widget","metadata":{"name":"w","namespace":"ns"}}"#),
                ErrorClass::Unusable,
            ),
            (Reply::ok("<html>"), ErrorClass::Unusable),
        ] {
            assert_eq!(delete(reply).await.unwrap_err().class, class);
        }
    }
}
