//! Creates objects: POST to a collection.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use crate::call::Request;
use crate::guards::Operation;
use crate::object::{Object, timestamp};
use crate::server::{Reply, Server};
use crate::status::Status;
use crate::writes::strategy::Strategy;
use crate::writes::{admit, body, metadata, namespace_of, options, save, validation};

/// Creates an object: POST to a collection.
pub fn create(server: &mut Server, write: &Request<'_>) -> Result<Reply, Status> {
    write.check_accept()?;
    let dry_run = options::dry_run(write.call, "CreateOptions")?;
    let strategy = Strategy::of(write.resource, server.settings.release);
    let born = match write.begun.awaited() {
        Some(born) => born.clone(),
        None => born(server, write, &strategy, body::read(write)?)?,
    };
    let wanted = admit(server, write, Operation::Create, &born, Some(born.value()))?;
    let object = match wanted {
        None => born.to_value(),
        Some(mut wanted) => {
            body::settle(write.resource, &mut wanted).map_err(Status::unnamed)?;
            metadata::of_mut(&mut wanted).insert("uid".to_owned(), born.uid().into());
            check(write, &strategy, &wanted)?;
            wanted
        }
    };
    let key = write.key(born.name());
    if server.store.get(&write.resource.stored_as, &key).is_some() {
        return Err(Status::already_exists(&write.asked(), born.name()));
    }
    let created = if dry_run { Object::new(object) } else { save(server, write, &key, object) };
    write.reply(201, &created)
}

/// The new object with its uid, before admission.
fn born(
    server: &Server,
    write: &Request<'_>,
    strategy: &Strategy,
    mut object: Value,
) -> Result<Object, Status> {
    check_namespace(server, write, &object)?;
    prepare(write, strategy, &mut object)?;
    let mut random = Random::new(server.settings.seed, server.store.head(), write.begun.number);
    let fields = metadata::of_mut(&mut object);
    fields.insert("uid".to_owned(), random.uid().into());
    fields.insert("creationTimestamp".to_owned(), timestamp(write.now).into());
    let prefix = metadata::text(fields, "generateName").to_owned();
    if !prefix.is_empty() && metadata::text(fields, "name").is_empty() {
        fields.insert("name".to_owned(), random.name(&prefix).into());
    }
    check(write, strategy, &object)?;
    let version = metadata::text(metadata::of(&object), "resourceVersion");
    if version.parse::<u64>().is_ok_and(|version| version > 0) {
        return Err(Status::unnamed("resourceVersion should not be set on objects to be created"));
    }
    Ok(Object::new(object))
}

/// Rejects a new object that is not valid.
fn check(write: &Request<'_>, strategy: &Strategy, object: &Value) -> Result<(), Status> {
    let errors = validation::of_new(object, strategy);
    if errors.is_empty() {
        return Ok(());
    }
    let name = metadata::text(metadata::of(object), "name");
    Err(Status::invalid(&write.kind(object), name, &errors))
}

/// Checks that the namespace exists and is not terminating.
fn check_namespace(server: &Server, write: &Request<'_>, object: &Value) -> Result<(), Status> {
    let Some(found) = namespace_of(server, write)? else { return Ok(()) };
    let namespace = found.name();
    if found.value().pointer("/status/phase").and_then(Value::as_str) != Some("Terminating") {
        return Ok(());
    }
    let fields = metadata::of(object);
    let names = [metadata::text(fields, "name"), metadata::text(fields, "generateName"), "Unknown"];
    let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let cause = format!("namespace {namespace} is being terminated");
    Err(Status::forbidden(&write.asked(), name, &why).because(
        "NamespaceTerminating",
        &cause,
        "metadata.namespace",
    ))
}

fn prepare(write: &Request<'_>, strategy: &Strategy, object: &mut Value) -> Result<(), Status> {
    write.check_namespace(object)?;
    let fields = metadata::of_mut(object);
    fields.remove("deletionTimestamp");
    fields.remove("deletionGracePeriodSeconds");
    strategy.prepare_new(write.resource, object);
    Ok(())
}

/// The characters of generated names. Without vowels, they do not form words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The maximum length of the prefix of a generated name.
const LONGEST_PREFIX: usize = 58;

/// Random numbers for one request. They are derived from the seed, the state and the request, so
/// there is no state to keep, restore or compare.
struct Random(fastrand::Rng);

impl Random {
    /// The numbers of a request at this version of the store.
    fn new(seed: u64, head: u64, request: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, head, request).hash(&mut hasher);
        Self(fastrand::Rng::with_seed(hasher.finish()))
    }

    /// A new uid.
    fn uid(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.0.u128(..).to_be_bytes()).into_uuid().to_string()
    }

    /// A name with this prefix.
    fn name(&mut self, prefix: &str) -> String {
        let ending = (0..5).map(|_| char::from(ALPHABET[self.0.usize(..ALPHABET.len())]));
        prefix.chars().take(LONGEST_PREFIX).chain(ending).collect()
    }
}
