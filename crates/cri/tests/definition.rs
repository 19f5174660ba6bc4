//! Holds the hand-written messages and calls against the definition of the interface.
//!
//! Each field of the definition is encoded by the definition, decoded by our message, and encoded
//! again. What our message shows by its field's name, and what comes back, must be what was sent:
//! this finds a wrong number, type, label or name, in messages, enums and calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use kube_gc_cri::messages::*;
use kube_gc_cri::{ApiVersion, Rpc};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver};

/// What is newer than Debian's definition, and since when Kubernetes has it. A definition that is new
/// enough is compared with these, too.
const NEWER: &[(&str, &str, &str)] = &[
    ("ImageSpec", "string user_specified_image = 18", "1.28"),
    ("ImageSpec", "string runtime_handler = 19", "1.29"),
    ("ImageFsInfoResponse", "repeated FilesystemUsage container_filesystems = 2", "1.29"),
    ("Container", "string image_id = 10", "1.30"),
    ("StatusResponse", "repeated RuntimeHandler runtime_handlers = 3", "1.30"),
    ("RuntimeHandler", "string name = 1", "1.30"),
    ("Mount", "ImageSpec image = 9", "1.31"),
    ("ImageSpec", "string image_ref = 20", "1.36"),
    ("StreamContainersRequest", "ContainerFilter filter = 1", "1.36"),
    ("StreamContainersResponse", "repeated Container containers = 1", "1.36"),
    ("StreamPodSandboxesRequest", "PodSandboxFilter filter = 1", "1.36"),
    ("StreamPodSandboxesResponse", "repeated PodSandbox pod_sandboxes = 1", "1.36"),
    ("StreamImagesRequest", "ImageFilter filter = 1", "1.36"),
    ("StreamImagesResponse", "repeated Image images = 1", "1.36"),
];

/// The calls that are newer than Debian's definition; all since Kubernetes 1.36.
const NEWER_CALLS: &[Rpc] = &[Rpc::StreamContainers, Rpc::StreamPodSandboxes, Rpc::StreamImages];

/// Decodes a message of ours; returns what it shows and how it encodes itself.
type Ours = fn(&[u8]) -> Result<(String, Vec<u8>)>;

fn ours<M: Message + Default + Debug>(bytes: &[u8]) -> Result<(String, Vec<u8>)> {
    let message = M::decode(bytes)?;
    Ok((format!("{message:#?}"), message.encode_to_vec()))
}

macro_rules! messages {
    ($($name:ident)*) => { &[$((stringify!($name), ours::<$name> as Ours)),*] };
}

const MESSAGES: &[(&str, Ours)] = messages![
    Container ContainerAttributes ContainerConfig ContainerFilter ContainerMetadata ContainerStateValue
    ContainerStats ContainerStatus
    ContainerStatusRequest ContainerStatusResponse CreateContainerRequest CreateContainerResponse
    FilesystemIdentifier FilesystemUsage Image ImageFilter ImageFsInfoRequest ImageFsInfoResponse
    ImageSpec ImageStatusRequest ImageStatusResponse LinuxPodSandboxConfig LinuxSandboxSecurityContext
    ListContainerStatsRequest ListContainerStatsResponse ListContainersRequest ListContainersResponse
    ListImagesRequest ListImagesResponse
    ListPodSandboxRequest ListPodSandboxResponse Mount NamespaceOption PodSandbox PodSandboxConfig
    PodSandboxFilter PodSandboxMetadata PodSandboxStateValue PodSandboxStatus PodSandboxStatusRequest
    PodSandboxStatusResponse RemoveContainerRequest RemoveContainerResponse RemoveImageRequest
    RemoveImageResponse RemovePodSandboxRequest RemovePodSandboxResponse RunPodSandboxRequest
    RunPodSandboxResponse RuntimeCondition RuntimeHandler RuntimeStatus StartContainerRequest
    StartContainerResponse StatusRequest StatusResponse StopContainerRequest StopContainerResponse
    StopPodSandboxRequest StopPodSandboxResponse StreamContainersRequest StreamContainersResponse
    StreamImagesRequest StreamImagesResponse StreamPodSandboxesRequest StreamPodSandboxesResponse
    UInt64Value VersionRequest VersionResponse
];

#[test]
fn every_message_is_compared() -> Result<()> {
    let mut declared = BTreeSet::new();
    for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/messages"))? {
        for line in std::fs::read_to_string(file?.path())?.lines() {
            if let Some(rest) = line.strip_prefix("pub struct ") {
                declared.insert(rest.split([' ', '{']).next().unwrap_or_default().to_owned());
            }
        }
    }
    let compared: BTreeSet<String> = MESSAGES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(declared, compared);
    Ok(())
}

#[test]
fn messages_and_calls_are_those_of_the_definition() -> Result<()> {
    let directory = definition()?;
    let newer = newer()?;
    for api in [ApiVersion::V1, ApiVersion::V1Alpha2] {
        let file = format!("{}/api.proto", if api == ApiVersion::V1 { "v1" } else { "v1alpha2" });
        if !directory.join(&file).exists() && api == ApiVersion::V1Alpha2 {
            continue;
        }
        let pool = parse(&directory, &file)?;
        let package = api.package();
        for (name, ours) in MESSAGES {
            let mut covered = BTreeSet::new();
            let mut found = false;
            for full_name in [format!("{package}.{name}"), format!("newer.{name}")] {
                let pool = if full_name.starts_with("newer.") { &newer } else { &pool };
                let Some(message) = pool.get_message_by_name(&full_name) else { continue };
                // Those in the table of newer ones with no field of theirs are only named there.
                found |= !full_name.starts_with("newer.") || is_newer(name);
                for field in message.fields() {
                    if compare(*ours, &field).with_context(|| format!("{package}.{name}.{}", field.name()))? {
                        covered.insert(field.name().to_owned());
                    }
                }
            }
            ensure!(found, "{package} has no message {name}");
            let (shown, _) = ours(&[])?;
            let fields: BTreeSet<String> = fields(&shown).into_keys().collect();
            ensure!(
                fields == covered,
                "{package}.{name} has fields that the definition does not have: {:?}",
                fields.difference(&covered)
            );
        }
        for rpc in Rpc::ALL {
            let service = format!("{package}.{}", rpc.service().name());
            let service = pool.get_service_by_name(&service).with_context(|| service.clone())?;
            let Some(method) = service.methods().find(|method| method.name() == rpc.name()) else {
                ensure!(NEWER_CALLS.contains(rpc), "{package} has no call {rpc}");
                continue;
            };
            let (request, response) = rpc.messages();
            ensure!(method.input().name() == request && method.output().name() == response, "{rpc}");
            ensure!(
                method.is_server_streaming() == rpc.is_streamed() && !method.is_client_streaming(),
                "{rpc}"
            );
        }
    }
    Ok(())
}

/// Compares one field. Returns whether our message has it.
fn compare(ours: Ours, field: &FieldDescriptor) -> Result<bool> {
    let (empty, _) = ours(&[])?;
    let empty = fields(&empty);
    let mut has_it = false;
    for (value, expected) in samples(field) {
        let mut sent = DynamicMessage::new(field.parent_message().clone());
        sent.set_field(field, value);
        let (shown, back) = ours(&sent.encode_to_vec())?;
        let shown = fields(&shown);
        let changed: Vec<&String> = shown.keys().filter(|name| shown[*name] != empty[*name]).collect();
        // Also for a field that is not ours: then nothing may change, and nothing comes back.
        if changed.is_empty() && back.is_empty() {
            ensure!(!has_it, "the field does not keep every value");
            continue;
        }
        has_it = true;
        ensure!(changed == [field.name()], "the number {} is that of {changed:?}", field.number());
        let shown = &shown[field.name()];
        ensure!(
            shown.starts_with(&expected),
            "is sent as {expected} and shown as {shown}: another type or label"
        );
        let back = DynamicMessage::decode(field.parent_message().clone(), back.as_slice())?;
        ensure!(back == sent, "comes back as {back:?}");
    }
    if has_it && matches!(field.kind(), Kind::Int32 | Kind::Uint32) {
        // 2^40 + 5: a decoder of 32 bits drops the upper half.
        let tag = u8::try_from(field.number() << 3)?;
        let (shown, _) = ours(&[tag, 0x85, 0x80, 0x80, 0x80, 0x80, 0x20])?;
        let shown = &fields(&shown)[field.name()];
        ensure!(shown == "5,", "is shown as {shown}: has more than 32 bits");
    }
    Ok(has_it)
}

/// Values for a field, and how our message shows them. The first value differs from the default.
fn samples(field: &FieldDescriptor) -> Vec<(Value, String)> {
    let squeeze = |text: String| text.split_whitespace().collect::<String>();
    if field.is_map() {
        let entry = ("key".to_owned(), "value".to_owned());
        let shown = squeeze(format!("{:#?}", BTreeMap::from([entry.clone()])));
        let entry = (prost_reflect::MapKey::String(entry.0), Value::String(entry.1));
        return vec![(Value::Map([entry].into()), shown)];
    }
    let one: Vec<(Value, String)> = match field.kind() {
        Kind::String => vec![(Value::String("text".into()), "\"text\"".into())],
        Kind::Bytes => vec![(Value::Bytes("text".into()), "[116".into())],
        Kind::Bool => vec![(Value::Bool(true), "true".into())],
        // The extremes tell the types apart that are the same on the wire for small numbers.
        Kind::Int32 => vec![(Value::I32(-7), "-7,".into())],
        Kind::Int64 => vec![(Value::I64(-7), "-7,".into()), (Value::I64(i64::MAX), format!("{},", i64::MAX))],
        Kind::Uint32 => vec![(Value::U32(u32::MAX), format!("{},", u32::MAX))],
        Kind::Uint64 => vec![(Value::U64(u64::MAX), format!("{},", u64::MAX))],
        Kind::Double => vec![(Value::F64(1.5), "1.5,".into())],
        Kind::Enum(kind) => {
            let mut values: Vec<_> =
                kind.values().map(|value| (value.number(), camel(value.name()))).collect();
            // 0 is the default and cannot be seen to arrive.
            values.retain(|(number, _)| *number != 0);
            values.into_iter().map(|(number, name)| (Value::EnumNumber(number), format!("{name},"))).collect()
        }
        Kind::Message(message) => {
            let shown =
                if field.is_list() { message.name().to_owned() } else { format!("Some({}", message.name()) };
            vec![(Value::Message(DynamicMessage::new(message.clone())), shown)]
        }
        other => panic!("{other:?} is not expected in the definition"),
    };
    if !field.is_list() {
        return one;
    }
    let value = one[0].0.clone();
    vec![(Value::List(vec![value.clone(), value]), format!("[{}", one[0].1.trim_end_matches(',')))]
}

/// `CONTAINER_RUNNING` as `ContainerRunning`.
fn camel(name: &str) -> String {
    let word = |word: &str| word[..1].to_owned() + &word[1..].to_lowercase();
    name.split('_').map(word).collect()
}

/// The fields of a message as it is shown, by name, without spaces.
fn fields(shown: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut current = None;
    for line in shown.lines().skip(1) {
        if let Some(line) = line.strip_prefix("    ").filter(|line| !line.starts_with([' ', ']', '}', ')'])) {
            let Some((name, value)) = line.split_once(": ") else { continue };
            let name = name.trim_start_matches("r#").to_owned();
            fields.insert(name.clone(), value.to_owned());
            current = Some(name);
        } else if !line.starts_with(' ') {
            break;
        } else if let Some(field) = current.as_ref().and_then(|name| fields.get_mut(name)) {
            field.extend(line.split_whitespace());
        }
    }
    fields
}

/// The directory of the definition.
fn definition() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cri/definition.sh");
    let output = Command::new(&script).stderr(std::process::Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{} failed", script.display());
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

/// Parses a definition. Its options for another code generator are irrelevant and only declared.
fn parse(directory: &Path, file: &str) -> Result<DescriptorPool> {
    struct Options;
    impl FileResolver for Options {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            if name != "github.com/gogo/protobuf/gogoproto/gogo.proto" {
                return Err(protox::Error::file_not_found(name));
            }
            let names = [
                "goproto_stringer",
                "stringer",
                "goproto_getters",
                "marshaler",
                "sizer",
                "unmarshaler",
                "goproto_unrecognized",
            ];
            let options: String = names
                .iter()
                .zip(63001..)
                .map(|(name, number)| format!("optional bool {name}_all = {number};\n"))
                .collect();
            let source = format!(
                "syntax = \"proto2\"; package gogoproto; import \"google/protobuf/descriptor.proto\";\n\
                 extend google.protobuf.FileOptions {{ {options} }}"
            );
            File::from_source(name, &source)
        }
    }
    let mut resolver = ChainFileResolver::new();
    resolver.add(IncludeFileResolver::new(directory.to_owned()));
    resolver.add(Options);
    resolver.add(GoogleFileResolver::new());
    pool(resolver, file)
}

/// What is newer, as a definition of its own.
fn newer() -> Result<DescriptorPool> {
    struct Newer(String);
    impl FileResolver for Newer {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            File::from_source(name, &self.0)
        }
    }
    let mut messages: BTreeMap<&str, String> = BTreeMap::new();
    for (message, field, _) in NEWER {
        let fields = messages.entry(*message).or_default();
        fields.push_str(field);
        fields.push_str("; ");
    }
    // Only named by fields above.
    for named in
        ["ContainerFilter", "PodSandboxFilter", "PodSandbox", "ImageFilter", "Image", "FilesystemUsage"]
    {
        messages.entry(named).or_default();
    }
    let messages: String =
        messages.iter().map(|(name, fields)| format!("message {name} {{ {fields} }}\n")).collect();
    pool(Newer(format!("syntax = \"proto3\"; package newer;\n{messages}")), "newer.proto")
}

fn pool(resolver: impl FileResolver + 'static, file: &str) -> Result<DescriptorPool> {
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).open_file(file)?;
    Ok(compiler.descriptor_pool())
}

/// Whether a whole message is newer than Debian's definition.
fn is_newer(message: &str) -> bool {
    NEWER.iter().any(|(newer, ..)| *newer == message)
}

#[test]
fn a_mistake_in_a_message_is_found() -> Result<()> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct WrongNumber {
        #[prost(string, tag = "2")]
        name: String,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct WrongType {
        #[prost(int64, tag = "2")]
        attempt: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct WrongLabel {
        #[prost(string, repeated, tag = "1")]
        name: Vec<String>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct WrongName {
        #[prost(string, tag = "1")]
        names: String,
    }
    let pool = parse(&definition()?, "v1/api.proto")?;
    let message = pool.get_message_by_name("runtime.v1.ContainerMetadata").context("the message")?;
    let field =
        |message: &MessageDescriptor, name: &str| message.get_field_by_name(name).context("the field");
    assert!(compare(ours::<ContainerMetadata>, &field(&message, "name")?)?);
    assert!(compare(ours::<ContainerMetadata>, &field(&message, "attempt")?)?);
    for (mistake, name) in [
        (ours::<WrongNumber> as Ours, "attempt"),
        (ours::<WrongType>, "attempt"),
        (ours::<WrongLabel>, "name"),
        (ours::<WrongName>, "name"),
    ] {
        assert!(compare(mistake, &field(&message, name)?).is_err(), "{name}");
    }
    Ok(())
}
