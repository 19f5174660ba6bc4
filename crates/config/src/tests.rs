use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::settings::RULES;
use super::values::{is_log_filter, is_root};
use super::*;
use kube_gc_core::object::GroupResource;

fn load_file(text: &str) -> Result<Settings, ConfigError> {
    Loader::new().text(text).load()
}

fn load_variables(variables: &[(&str, &str)]) -> Result<Settings, ConfigError> {
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Loader::new().environment(variables).load()
}

fn message(result: Result<Settings, ConfigError>) -> String {
    result.unwrap_err().to_string()
}

/// Every key, the way that serde sees the settings.
fn keys(settings: &Settings) -> Vec<String> {
    fn below(prefix: &str, value: &serde_json::Value, keys: &mut Vec<String>) {
        match value.as_object() {
            Some(entries) => entries.iter().for_each(|(key, value)| {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                below(&path, value, keys);
            }),
            None => keys.push(prefix.to_owned()),
        }
    }
    let mut keys = Vec::new();
    below("", &serde_json::to_value(settings).unwrap(), &mut keys);
    keys
}

#[test]
fn the_default_file_sets_and_documents_every_key() {
    let mut section = String::new();
    let mut commented = false;
    let mut found = Vec::new();
    for line in super::load::DEFAULTS.lines() {
        if line.starts_with('#') {
            commented = true;
        } else if let Some(name) = line.strip_prefix('[') {
            section = format!("{}.", name.trim_end_matches(']'));
            commented = false;
        } else if let Some((key, _)) = line.split_once(" = ") {
            assert!(commented, "no comment above {section}{key}");
            found.push(format!("{section}{key}"));
            commented = false;
        }
    }
    let mut expected = keys(&Settings::default());
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn every_key_has_a_rule_and_every_rule_a_key() {
    let mut ruled: Vec<_> = RULES.iter().map(|rule| rule.key.to_owned()).collect();
    let mut expected = keys(&Settings::default());
    ruled.sort();
    expected.sort();
    assert_eq!(ruled, expected);
    assert!(RULES.iter().all(|rule| (rule.holds)(&Settings::default())));
}

#[test]
fn flags_win_over_variables_and_these_over_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[workers]\ndelete = 1\norphan = 1\n[watch]\npage_size = 1\n").unwrap();
    let settings = Loader::new()
        .file(Some(file.path()))
        .environment([
            ("KUBE_GC__WORKERS__DELETE".into(), "2".into()),
            ("KUBE_GC__WORKERS__ORPHAN".into(), "2".into()),
        ])
        .flag("--delete-workers", "workers.delete", Some(3))
        .flag("--orphan-workers", "workers.orphan", None::<u32>)
        .load()
        .unwrap();
    assert_eq!((settings.workers.delete, settings.workers.orphan, settings.watch.page_size), (3, 2, 1));
    assert_eq!(settings.retry, RetrySettings::default());
}

#[test]
fn variables_are_read_as_the_type_of_their_key() {
    let settings = load_variables(&[
        ("KUBE_GC__DRY_RUN", "true"),
        ("KUBE_GC__DISCOVERY__IGNORED", "events, jobs.batch"),
        ("KUBE_GC__DISCOVERY__INTERVAL", "1m 30s"),
        ("KUBE_GC__HTTP__LISTEN", "[::]:9090"),
        ("KUBE_GC__LOG__FORMAT", "json"),
        ("KUBE_GC__LOG__DECISIONS", "summaries"),
        ("KUBE_GC_CACHE", "/not/ours"),
        ("PATH", "/bin"),
    ])
    .unwrap();
    assert!(settings.dry_run);
    assert_eq!(
        settings.discovery.ignored,
        [GroupResource::new("", "events"), GroupResource::new("batch", "jobs")]
    );
    assert_eq!(settings.discovery.interval, Duration::from_secs(90));
    assert_eq!(settings.http.listen, "[::]:9090".parse().unwrap());
    assert_eq!(settings.log.format, LogFormat::Json);
    assert_eq!(settings.log.decisions, DecisionLines::Summaries);
}

#[test]
fn a_shorter_list_replaces_the_longer_one() {
    assert_eq!(load_file("[discovery]\nignored = []").unwrap().discovery.ignored, []);
    let one = load_variables(&[("KUBE_GC__DISCOVERY__IGNORED", "jobs.batch")]).unwrap();
    assert_eq!(one.discovery.ignored, [GroupResource::new("batch", "jobs")]);
    assert_eq!(load_variables(&[("KUBE_GC__DISCOVERY__IGNORED", "")]).unwrap().discovery.ignored, []);
}

#[test]
fn rust_log_is_the_filter_unless_our_own_variable_says_otherwise() {
    assert_eq!(load_variables(&[("RUST_LOG", "debug")]).unwrap().log.filter, "debug");
    assert_eq!(load_variables(&[("RUST_LOG", "")]).unwrap().log.filter, "info");
    let error = load_variables(&[("RUST_LOG", "verbose")]).unwrap_err().to_string();
    assert!(error.contains("variable RUST_LOG: \"verbose\"; it must be a level"), "{error}");
    for order in [[0, 1], [1, 0]] {
        let both = [("RUST_LOG", "debug"), ("KUBE_GC__LOG__FILTER", "warn")];
        assert_eq!(load_variables(&order.map(|i| both[i])).unwrap().log.filter, "warn");
    }
}

#[test]
fn unknown_keys_are_named_with_their_source() {
    let in_file = message(load_file("[workers]\ndelet = 3"));
    assert_eq!(in_file, "unknown key `workers.delet` in the file text; did you mean `workers.delete`?");
    let in_environment = message(load_variables(&[("KUBE_GC__WORKERZ__DELETE", "3")]));
    assert_eq!(
        in_environment,
        "unknown key `workerz.delete` in the environment variable KUBE_GC__WORKERZ__DELETE; did you mean \
         `workers.delete`?"
    );
    for text in [
        "[nonsense]",
        "nonsense = 1",
        "[nonsense]\na = 1",
        "[workers.delete]\nx = 1",
        "\"workers.delete\" = 1",
    ] {
        assert!(message(load_file(text)).contains("unknown key `"), "{text}");
    }
    assert!(message(load_variables(&[("KUBE_GC__", "1")])).contains("KUBE_GC__"));
    assert_eq!(message(load_file("workers = 3")), "`workers` in the file text is a section, not a value");
    load_file("[workers]\n[graph]").unwrap();
    for (text, meant) in [("page-size = 3", "watch.page_size"), ("[node]\nmaxage = 3", "node.images.max_age")]
    {
        let forgot_section = message(load_file(text));
        assert!(forgot_section.ends_with(&format!("did you mean `{meant}`?")), "{forgot_section}");
    }
}

#[test]
fn bad_values_are_named_with_source_and_what_is_allowed() {
    assert_eq!(
        message(load_variables(&[("KUBE_GC__WORKERS__DELETE", "many")])),
        "bad value for `workers.delete` in the environment variable KUBE_GC__WORKERS__DELETE: \"many\"; it must be a \
         whole number from 1 to 1000"
    );
    let flag = Loader::new().flag("--delete-workers", "workers.delete", Some(0)).load();
    assert!(message(flag).contains("in the flag --delete-workers: 0;"));
    for (text, key, value) in [
        ("[workers]\ndelete = 0", "workers.delete", ": 0;"),
        ("[workers]\ndelete = 2.7", "workers.delete", ": 2.7;"),
        ("[workers]\ndelete = true", "workers.delete", ": true;"),
        ("[workers]\ndelete = \"5\"", "workers.delete", ": \"5\";"),
        ("[graph]\npartitions = 100000", "graph.partitions", ": 100000;"),
        ("dry_run = \"yes\"", "dry_run", ": \"yes\";"),
        ("[discovery]\ninterval = 30", "discovery.interval", ": 30;"),
        ("[discovery]\ninterval = \"30\"", "discovery.interval", "\"30\""),
        ("[discovery]\nignored = [3]", "discovery.ignored", ": [3];"),
        ("[discovery]\nignored = \"events\"", "discovery.ignored", ": \"events\";"),
        (
            "[discovery]\nignored = [\"jobs/batch\"]",
            "discovery.ignored",
            "\"jobs/batch\" is not a resource type",
        ),
        ("[log]\nformat = \"xml\"", "log.format", "xml"),
        ("[log]\nfilter = \"loud\"", "log.filter", ": \"loud\";"),
        ("[debug]\ndecisions = 100001", "debug.decisions", ": 100001;"),
        ("[http]\nlisten = \"8080\"", "http.listen", ": \"8080\" ("),
        ("[http]\nhosts = [\"kube-gc:8080\"]", "http.hosts", "without ports"),
        ("[http]\ndebug_listen = \"127.0.0.1:8080\"", "http.debug_listen", ": \"127.0.0.1:8080\";"),
        ("[retry]\nmin = \"2s\"\nmax = \"1s\"", "retry.min", ": \"2s\";"),
        ("[watch]\nmin_backoff = \"0s\"", "watch.min_backoff", ": \"0s\";"),
        (
            "[leader]\nlease_duration = \"10s\"\nrenew_deadline = \"10s\"",
            "leader.renew_deadline",
            ": \"10s\";",
        ),
        ("[leader]\nlease_duration = \"15s 5ms\"", "leader.lease_duration", ": \"15s 5ms\";"),
        ("[leader]\nrenew_deadline = \"2400ms\"\nretry_period = \"2s\"", "leader.retry_period", ": \"2s\";"),
        ("[tls]\nlisteners = \"health\"", "tls.listeners", ": \"health\";"),
        ("[tls]\ncertificate = \"/c\"", "tls.certificate", ": \"/c\";"),
        ("[access]\nlisteners = \"metrics\"", "access.listeners", "metrics"),
        ("[leader]\nname = \"\"", "leader.name", ": \"\";"),
        ("[leader]\nnamespace = \"a.b\"", "leader.namespace", ": \"a.b\";"),
        ("[leader]\nidentity = \"a b\"", "leader.identity", ": \"a b\";"),
        ("[brake]\ndeletions_per_minute = 1000001", "brake.deletions_per_minute", ": 1000001;"),
        ("[brake]\npercent = 101", "brake.percent", ": 101;"),
        ("[brake]\nwindow = \"999ms\"", "brake.window", ": \"999ms\";"),
        ("[brake]\nwindow = \"25h\"", "brake.window", ": \"25h\";"),
    ] {
        let error = message(load_file(text));
        assert!(error.starts_with(&format!("bad value for `{key}` in the file text")), "{text}: {error}");
        assert!(error.contains(value), "{text}: {error}");
        assert!(error.contains("it must be "), "{text}: {error}");
    }
}

#[test]
fn the_graph_has_threads_of_its_own_where_there_are_cores_for_them() {
    let threads =
        |threads, cores| GraphSettings { threads, ..GraphSettings::default() }.has_own_threads(cores);
    for cores in [1, 2, 3, 64] {
        assert!(threads(GraphThreads::Own, cores) && !threads(GraphThreads::Shared, cores));
        assert_eq!(threads(GraphThreads::Auto, cores), cores > 2);
    }
}

/// 64 cores would mean 64 partitions and as many threads for lists.
#[test]
fn a_machine_of_many_cores_does_not_mean_many_threads() {
    let Settings { graph, watch, .. } = Settings::default();
    for (cores, partitions, list_threads) in
        [(0, 1, 1), (1, 1, 1), (2, 2, 2), (4, 4, 4), (6, 6, 4), (8, 8, 4), (64, 8, 4), (1024, 8, 4)]
    {
        let counts = (graph.partition_count(cores), watch.list_thread_count(cores));
        assert_eq!(counts, (partitions, list_threads), "{cores} cores");
    }
    let text = "[graph]\npartitions = 64\n[watch]\nlist_threads = 32\n";
    let Settings { graph, watch, .. } = Loader::new().text(text).load().unwrap();
    for cores in [1, 64] {
        assert_eq!((graph.partition_count(cores), watch.list_thread_count(cores)), (64, 32), "as it is set");
    }
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let missing = Loader::new().file(Some(Path::new("/nonexistent.toml"))).load();
    assert!(message(missing).starts_with("cannot read the configuration file /nonexistent.toml: "));
    let syntax = message(load_file("[workers\ndelete = 3"));
    assert!(syntax.contains("is not valid TOML") && syntax.contains("line 1"), "{syntax}");
}

#[test]
fn ignoring_anything_but_events_is_warned_about() {
    let mut settings = Settings::default();
    assert_eq!(settings.warnings(), [""; 0]);
    settings.discovery.ignored = vec![GroupResource::parse("jobs.batch"), GroupResource::parse("events")];
    let warnings = settings.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("jobs.batch is ignored: its foreground and orphan deletions will never end")
    );

    settings.discovery.ignored.clear();
    settings.client.burst = 5;
    settings.http.debug_listen = "0.0.0.0:8081".parse().unwrap();
    assert_eq!(settings.warnings().len(), 2);
}

#[test]
fn a_log_filter_names_levels_and_not_just_any_word() {
    let right = ["info", "WARN", "off", "info,kube_gc=debug", "info,kube_gc_client=trace", "kube_gc"];
    for filter in right.into_iter().chain(["kube_gc_client", "off,hyper=debug", "kube_gc=debug,hyper=warn"]) {
        assert!(is_log_filter(filter), "{filter}");
    }
    let silent = ["kube-gc=debug", "hyper=debug", "loud=info", "info,kube-gc=debug"];
    let wrong =
        ["", "loud", "verbose", "info,loud", "info,", "kube_gc=loud", "INFO DEBUG", "info,kube_gc[a]=debug"];
    for filter in silent.into_iter().chain(wrong) {
        assert!(!is_log_filter(filter), "{filter}");
    }
}

/// A wrong directory would make files of the host count as logs of pods.
#[test]
fn a_root_lies_at_least_two_directories_deep_and_leads_nowhere_else() {
    for root in ["/var/log", "/var/log/pods"] {
        assert!(is_root(root), "{root}");
    }
    for root in ["", "/", "/var", "var/log", "/var/", "/var//log", "/var/../etc", "/var/./log", "/var/\0"] {
        assert!(!is_root(root), "{root:?}");
    }
}

#[test]
fn what_a_network_can_read_is_warned_about() {
    use Listeners::{Both, Debug, Health, None};
    let warned = |listen: &str, tls, access| {
        let mut settings = Settings::default();
        (settings.tls.listeners, settings.access.listeners) = (tls, access);
        settings.http.listen = listen.parse().unwrap();
        settings.http.debug_listen = listen.replace(":1", ":2").parse().unwrap();
        settings.warnings()
    };
    let tokens = "tokens are sent to 0.0.0.0:1 without encryption";
    let pages = "everyone who can reach 0.0.0.0:2 can read the debug pages";
    for (tls, access, expected) in [
        (None, Both, &[tokens, "tokens are sent to 0.0.0.0:2 "][..]),
        (Debug, Health, &[pages, tokens]),
        (Health, Both, &["tokens are sent to 0.0.0.0:2 "]),
        (Both, Both, &[]),
        (Both, None, &[pages]),
        (None, None, &[pages]),
    ] {
        let warnings = warned("0.0.0.0:1", tls, access);
        assert_eq!(warnings.len(), expected.len(), "{tls:?} {access:?}: {warnings:?}");
        assert!(warnings.iter().zip(expected).all(|(text, begin)| text.starts_with(begin)), "{warnings:?}");
        assert_eq!(warned("127.0.0.1:1", tls, access), [""; 0]);
    }
    let mut settings = Settings::default();
    settings.tls.certificate = "/tls.crt".into();
    let unused = "`tls.certificate` has no effect, because `tls.listeners` is \"none\"";
    assert_eq!(settings.warnings(), [unused]);
}
