//! DELETE with preconditions.

use serde_json::{Map, json};

use super::call::{Call, JSON};
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::order::DeleteOrder;
use super::read::{AbsenceProof, read_object};
use super::settings::Verb;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{ObjectFacts, ResourceVersion};
use kube_gc_decode::Status;

/// The result of a DELETE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    Removed,
    /// The object is being deleted, and kept by finalizers or its grace period.
    Pending(ObjectFacts),
    AlreadyGone(AbsenceProof),
}

impl Api {
    /// Deletes an object if it still has the uid of the order and, when one is given, this resource version,
    /// so that only the version that was decided on is deleted (rule 4.21).
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorClass::Conflict) when a precondition does not hold; the refusal of the
    /// write gate; any other error of a request.
    pub async fn delete(
        &self,
        order: &DeleteOrder,
        resource_version: Option<&ResourceVersion>,
    ) -> Result<Deleted, ApiError> {
        let identity = order.object();
        let mut preconditions = Map::new();
        if !mutation::is(Mutation::DeleteWithoutUid) {
            preconditions.insert("uid".to_owned(), json!(identity.uid));
        }
        if let Some(version) = resource_version.filter(|_| !mutation::is(Mutation::DeleteWithoutVersion)) {
            preconditions.insert("resourceVersion".to_owned(), json!(version));
        }
        let options = json!({
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": order.policy(),
            "preconditions": preconditions,
        });
        let call = Call::object(Verb::Delete, identity)?.writing(JSON, options.to_string().into_bytes());
        let answer = match self.call(call).await {
            Ok(answer) => answer,
            Err(error) if error.class == ErrorClass::SaysGone => {
                return self.confirm_gone(identity, error).await.map(Deleted::AlreadyGone);
            }
            Err(error) => return Err(error),
        };
        // When the object is removed, some types answer with a `Status`, others with the
        // object's last state. When it still exists, all answer with the object.
        match Status::outcome(&answer.body).as_deref() {
            Some("Success") => return Ok(Deleted::Removed),
            Some(_) => return Err(answer.unusable("the response is a Status, but not Success")),
            None => {}
        }
        let facts = read_object(identity.namespace.as_ref(), &identity.name, &answer)?;
        Ok(if facts.is_held() { Deleted::Pending(facts) } else { Deleted::Removed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Reply, Server, order, widget, widget_json};
    use kube_gc_core::object::PropagationPolicy;

    async fn delete(reply: Reply) -> Result<Deleted, ApiError> {
        let server = Server::replying([reply]);
        server.api().delete(&order(&widget()), None).await
    }

    #[tokio::test]
    async fn a_delete_has_preconditions_and_a_policy() {
        let server =
            Server::replying([Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#)]);
        let version = ResourceVersion::number(7);
        let deleted = server
            .api()
            .delete(&DeleteOrder::of_test(&widget(), PropagationPolicy::Orphan), Some(&version))
            .await;
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
    async fn an_answered_object_is_pending_only_while_a_finalizer_keeps_it() {
        let held =
            delete(Reply::ok(widget_json(r#","deletionTimestamp":"t","finalizers":["foregroundDeletion"]"#)))
                .await;
        assert!(matches!(held, Ok(Deleted::Pending(facts)) if facts.finalizers.foreground));
        assert_eq!(delete(Reply::ok(widget_json(""))).await, Ok(Deleted::Removed));
    }

    /// Rules 1.26, 1.27 and 4.29. Fails if the answer to a DELETE counts as proof: the dependents of a
    /// living object would be deleted.
    #[tokio::test]
    async fn only_a_get_says_that_an_object_is_gone() {
        let own = || Reply::not_found();
        let uid = || Reply::status(422, "no", r#"{"causes":[{"field":"metadata.uid"}]}"#);
        let other = || Reply::ok(widget_json("").replace(r#""uid":"u""#, r#""uid":"v""#));
        for answer in [own, uid] {
            for gone in [own, other] {
                let server = Server::replying([answer(), gone()]);
                let deleted = server.api().delete(&order(&widget()), None).await;
                assert!(matches!(deleted, Ok(Deleted::AlreadyGone(_))), "{deleted:?}");
                assert_eq!(server.seen()[1].line(), "GET /apis/example.com/v1/namespaces/ns/widgets/w");
            }
            for (read, class, words) in [
                (Reply::ok(widget_json("")), ErrorClass::Denied, "; but a GET shows the object"),
                (Reply::status(500, "etcd", "{}"), ErrorClass::Transient, "etcd"),
                (Reply::code(404, "404 page not found"), ErrorClass::NotServed, "page not found"),
            ] {
                let server = Server::replying([answer(), read]);
                let deleted = server.api().delete(&order(&widget()), None).await;
                let error = deleted.unwrap_err();
                assert!(error.class == class && error.message.contains(words), "{error}");
            }
        }
    }

    /// Some aggregated APIs and proxies answer 200 to everything (rule 6.12).
    #[tokio::test]
    async fn a_status_is_a_success_only_if_it_says_so() {
        for status in [
            r#""status":"Failure","message":"no","code":500"#,
            r#""status":"Failure","message":"gone","code":404,"details":{"name":"w","group":"example.com","kind":"widgets"}"#,
            r#""status":"Fail\u0075re","message":"no","code":409"#,
            r#""status":null"#,
            r#""status":{}"#,
            r#""code":200"#,
        ] {
            let reply = Reply::ok(format!(r#"{{"kind":"Status","apiVersion":"v1",{status}}}"#));
            let error = delete(reply).await.unwrap_err();
            assert_eq!(error.class, ErrorClass::Unusable, "{status}: {error}");
            assert!(error.may_have_taken_effect());
        }
        let words = delete(Reply::status(503, "not at home", "{}").with_code(200)).await.unwrap_err();
        assert!(words.message.ends_with("not at home"), "{words}");
    }
}
