//! Creates objects: POST to a collection.

use serde_json::Value;

use crate::guards::Operation;
use crate::object::{Object, timestamp};
use crate::resources::ResourceName;
use crate::server::{Release, Reply, Server};
use crate::status::{FieldError, Status};
use crate::writes::strategy::Strategy;
use crate::writes::{Write, admit, body, metadata, namespace_of, options, save, validation};

/// The number of further attempts when a generated name is taken.
const ATTEMPTS: usize = 8;

/// Creates an object: POST to a collection.
pub fn create(server: &mut Server, write: &Write<'_>) -> Result<Reply, Status> {
    write.check_accept()?;
    let dry_run = options::dry_run(write.call, "CreateOptions")?;
    let object = body::read(write)?;
    let created = insert(server, write, object, dry_run)?;
    write.reply(201, &created)
}

/// Creates this object, if it is valid.
pub(super) fn insert(
    server: &mut Server,
    write: &Write<'_>,
    object: Value,
    dry_run: bool,
) -> Result<Object, Status> {
    let strategy = Strategy::of(write.resource, server.settings.release);
    let born = match &write.begun.born {
        Some(born) => born.clone(),
        None => born(server, write, &strategy, object)?,
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
    if let Some(taken) = server.store.get(&write.resource.stored_as, &key) {
        let generated = !metadata::text(metadata::of(&object), "generateName").is_empty();
        return Err(already_exists(write, taken, generated, server.settings.release));
    }
    Ok(if dry_run { Object::new(object) } else { save(server, write, &key, object) })
}

/// The new object with its uid, before admission.
fn born(
    server: &Server,
    write: &Write<'_>,
    strategy: &Strategy,
    mut object: Value,
) -> Result<Object, Status> {
    check_namespace(server, write, &object)?;
    prepare(write, strategy, &mut object)?;
    let mut random = Random::new(server.settings.seed, server.store.head(), write.begun.number);
    let fields = metadata::of_mut(&mut object);
    fields.insert("uid".to_owned(), random.uid().into());
    fields.insert("creationTimestamp".to_owned(), timestamp(write.now).into());
    name_it(server, write, fields, &mut random);
    check(write, strategy, &object)?;
    let version = metadata::text(metadata::of(&object), "resourceVersion");
    // An update that creates an object has a name in its path, and may have any version.
    if write.path.name.is_none() && version.parse::<u64>().is_ok_and(|version| version > 0) {
        return Err(Status::unnamed("resourceVersion should not be set on objects to be created"));
    }
    Ok(Object::new(object))
}

/// Rejects a new object that is not valid.
fn check(write: &Write<'_>, strategy: &Strategy, object: &Value) -> Result<(), Status> {
    let mut errors = check_kind(write, object);
    errors.extend(validation::of_new(object, strategy));
    if errors.is_empty() {
        return Ok(());
    }
    let name = metadata::text(metadata::of(object), "name");
    Err(Status::invalid(&write.kind(object), name, &errors))
}

/// The error for a taken name. A retry may help if the name was generated.
fn already_exists(write: &Write<'_>, taken: &Object, generated: bool, release: Release) -> Status {
    let name = taken.name();
    if generated && release == Release::V1_20 {
        let kind = ResourceName::new(&write.resource.stored_as.group, &write.resource.kind);
        let message = format!(
            "The POST operation against {kind} could not be completed at this time, please try again."
        );
        return Status::about(500, "ServerTimeout", &kind, "POST", message);
    }
    let mut status = Status::already_exists(&write.asked(), name);
    if generated {
        status.message.push_str(", the server was not able to generate a unique name for the object");
    }
    if taken.deletion_timestamp().is_some() {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Checks that the namespace exists and is not terminating.
fn check_namespace(server: &Server, write: &Write<'_>, object: &Value) -> Result<(), Status> {
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

fn prepare(write: &Write<'_>, strategy: &Strategy, object: &mut Value) -> Result<(), Status> {
    write.check_namespace(object)?;
    let fields = metadata::of_mut(object);
    fields.remove("deletionTimestamp");
    fields.remove("deletionGracePeriodSeconds");
    strategy.prepare_new(write.resource, object);
    Ok(())
}

/// Generates a name if the object has only a prefix.
fn name_it(
    server: &Server,
    write: &Write<'_>,
    fields: &mut serde_json::Map<String, Value>,
    random: &mut Random,
) {
    let base = metadata::text(fields, "generateName").to_owned();
    if base.is_empty() || !metadata::text(fields, "name").is_empty() {
        return;
    }
    let mut name = random.name(&base);
    for _ in 1..ATTEMPTS {
        if server.store.get(&write.resource.stored_as, &write.key(&name)).is_none() {
            break;
        }
        name = random.name(&base);
    }
    fields.insert("name".to_owned(), name.into());
}

/// Checks the kind that a custom resource states.
pub(super) fn check_kind(write: &Write<'_>, object: &Value) -> Vec<FieldError> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let wanted = &*write.resource.kind;
    if kind == wanted {
        return Vec::new();
    }
    vec![FieldError::invalid("kind", &format!("must be {wanted}"))]
}

/// The characters of generated names. Without vowels, they do not form words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The maximum length of the prefix of a generated name.
const LONGEST_BASE: usize = 58;

/// Random numbers for one request. They are derived from the seed, the state and the request, so
/// there is no state to keep, restore or compare.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The numbers of a request at this version of the store.
    pub(super) const fn new(seed: u64, head: u64, request: u64) -> Self {
        Self(mixed(mixed(mixed(seed) ^ head) ^ request))
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A new uid.
    pub(super) fn uid(&mut self) -> String {
        let bytes = (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// A name with this prefix.
    pub(super) fn name(&mut self, base: &str) -> String {
        let mut name: String = base.chars().take(LONGEST_BASE).collect();
        let mut number = self.next();
        for _ in 0..5 {
            let index = usize::try_from(number % ALPHABET.len() as u64).unwrap_or_default();
            name.push(char::from(ALPHABET[index]));
            number /= ALPHABET.len() as u64;
        }
        name
    }
}

/// The finalizer of `SplitMix64`.
const fn mixed(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_requests_get_equal_names_and_others_get_others() {
        let uid = |seed, head, request| Random::new(seed, head, request).uid();
        assert_eq!(uid(1, 2, 3), uid(1, 2, 3));
        let all = [uid(1, 2, 3), uid(2, 2, 3), uid(1, 3, 3), uid(1, 2, 4), uid(0, 0, 0)];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(all[0].len(), 36);
        assert_eq!(all[0].as_bytes()[14], b'4');
    }

    #[test]
    fn a_generated_name_fits_into_a_label() {
        let mut random = Random::new(0, 0, 0);
        let name = random.name("x-");
        assert!(name.starts_with("x-") && name.len() == 7, "{name}");
        assert_ne!(random.name("x-"), name);
        assert_eq!(random.name(&"y".repeat(100)).len(), 63);
    }
}
