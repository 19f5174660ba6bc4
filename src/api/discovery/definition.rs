//! Whether the object that defines a type exists.

use http::Method;

use crate::api::call::Call;
use crate::api::client::Api;
use crate::api::error::{ApiError, ErrorClass};
use crate::api::media_type::METADATA;
use crate::api::path;
use crate::api::settings::Verb;
use kube_gc_core::object::GroupResource;
use kube_gc_decode::Named;

/// The object that defines a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// The CustomResourceDefinition of this type.
    Crd(GroupResource),
    /// The APIService of a group version. Every version of a named group has one.
    ApiService {
        /// The group.
        group: Box<str>,
        /// The version.
        version: Box<str>,
    },
}

impl Api {
    /// Whether a definition exists, by a live read.
    ///
    /// # Errors
    ///
    /// The answer is neither the object nor its own 404.
    pub async fn is_defined(&self, definition: &Definition) -> Result<bool, ApiError> {
        let (resource, name) = match definition {
            Definition::Crd(of) => ("customresourcedefinitions.apiextensions.k8s.io", of.to_string()),
            Definition::ApiService { group, version } => {
                ("apiservices.apiregistration.k8s.io", format!("{version}.{group}"))
            }
        };
        let resource = GroupResource::parse(resource);
        let GroupResource { group, resource: plural } = &resource;
        let mut path = format!("/apis/{group}/v1/{plural}/");
        path::encode(&mut path, &name);
        let call = Call {
            verb: Verb::Get,
            method: Method::GET,
            action: "GET",
            path,
            accept: METADATA,
            body: None,
            resource: &resource,
            object: Some(Named { group_resource: &resource, namespace: None, name: &name }),
            target: String::new(),
        };
        match self.call(call).await {
            Ok(_) => Ok(true),
            Err(error) if error.class == ErrorClass::Absent => Ok(false),
            Err(error) => Err(error),
        }
    }
}
