//! What the end-to-end benchmark computes from its measurements, and whether the one of small
//! collectors works.

// The benchmark's own files, of which only these can be tested without a server.
#![allow(dead_code)]

#[path = "../benches/end_to_end/figure.rs"]
mod figure;
#[path = "../benches/end_to_end/contestants/kube_gc.rs"]
mod kube_gc;
#[path = "../benches/end_to_end/pace.rs"]
mod pace;
#[path = "../benches/end_to_end/pages.rs"]
mod pages;
#[path = "../benches/end_to_end/contestants/peer.rs"]
mod peer;
#[path = "../benches/end_to_end/proc.rs"]
mod proc;
#[path = "../benches/end_to_end/report/mod.rs"]
mod report;
#[path = "../benches/end_to_end/rest.rs"]
mod rest;
#[path = "../benches/end_to_end/statistics.rs"]
mod statistics;

use std::cell::Cell;
use std::process::Command;
use std::time::Duration;

use kube_gc_testkit::target;

use figure::{Contestant, Figure, Samples, Target};
use statistics::{Spread, bucket_of_percentile, percentile};

#[test]
fn the_median_is_the_middle_value_or_the_mean_of_the_two_middle_values() {
    assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { min: 1.0, median: 2.0, max: 3.0 }));
    assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 8.0]), Some(Spread { min: 1.0, median: 3.0, max: 8.0 }));
    assert_eq!(Spread::of(&[]), None);
}

#[test]
fn percentiles_are_measured_values() {
    let hundred: Vec<_> = (1..=100).rev().map(f64::from).collect();
    assert_eq!(percentile(&hundred, 50), Some(50.0));
    assert_eq!(percentile(&hundred, 99), Some(99.0));
    assert_eq!(percentile(&[7.0], 99), Some(7.0));
    assert_eq!(percentile(&[], 50), None);
}

#[test]
fn a_percentile_of_a_histogram_is_the_upper_bound_of_its_bucket() {
    let buckets = [(0.001, 50.0), (0.005, 99.0), (f64::INFINITY, 100.0)];
    assert_eq!(bucket_of_percentile(&buckets, 50.0), Some(0.001));
    assert_eq!(bucket_of_percentile(&buckets, 51.0), Some(0.005));
    assert_eq!(bucket_of_percentile(&buckets, 99.0), Some(0.005));
    assert_eq!(bucket_of_percentile(&buckets, 100.0), Some(f64::INFINITY));
    assert_eq!(bucket_of_percentile(&[(0.001, 0.0)], 50.0), None, "nothing was measured");
}

/// Rounds of (limit, peer, kube-gc).
fn samples(rounds: &[(f64, f64, f64)]) -> Samples {
    let mut samples = Samples::default();
    for (round, (limit, peer, kube_gc)) in rounds.iter().enumerate() {
        samples.add(round, Contestant::KubeGc, *kube_gc);
        samples.add(round, Contestant::Limit, *limit);
        samples.add(round, Contestant::Peer, *peer);
    }
    samples
}

#[test]
fn ratios_compare_values_of_the_same_round() {
    let mut samples = samples(&[(1000.0, 500.0, 900.0), (500.0, 250.0, 500.0)]);
    // An incomplete round has no ratio.
    samples.add(2, Contestant::KubeGc, 700.0);
    assert_eq!(samples.ratios(Contestant::Limit), [0.9, 1.0]);
    assert_eq!(samples.ratios(Contestant::Peer), [1.8, 2.0]);
    assert_eq!(samples.of(Contestant::KubeGc), [900.0, 500.0, 700.0]);
}

#[test]
fn the_value_of_a_round_is_the_median_of_its_turns() {
    let mut samples = Samples::default();
    for (peer, kube_gc) in [(50.0, 90.0), (40.0, 100.0), (60.0, 20.0)] {
        samples.add(0, Contestant::Peer, peer);
        samples.add(0, Contestant::KubeGc, kube_gc);
    }
    samples.add(1, Contestant::KubeGc, 70.0);
    assert_eq!(samples.of(Contestant::KubeGc), [90.0, 70.0]);
    assert_eq!(samples.ratios(Contestant::Peer), [1.8], "one a round, whatever the turns");
    assert_eq!(samples.turns(Contestant::Peer), [&[50.0, 40.0, 60.0][..], &[]]);
}

#[test]
fn a_limit_holds_for_the_median_and_a_comparison_for_every_round() {
    let samples = samples(&[(100.0, 50.0, 90.0), (100.0, 50.0, 96.0), (100.0, 60.0, 97.0)]);
    assert_eq!(samples.meets(Target::OfLimit(0.95)), Some(true));
    assert_eq!(samples.meets(Target::OfLimit(0.97)), Some(false));
    assert_eq!(samples.meets(Target::TimesPeer(1.6)), Some(true));
    assert_eq!(samples.meets(Target::TimesPeer(1.7)), Some(false), "the third round is 1.62");
    assert_eq!(samples.meets(Target::OfPeerAtMost(1.92)), Some(true));
    assert_eq!(samples.meets(Target::OfPeerAtMost(1.9)), Some(false), "the second round is 1.92");
    assert_eq!(samples.meets(Target::AtMost(96.0)), Some(true));
    assert_eq!(samples.meets(Target::AtMost(95.9)), Some(false));
    assert_eq!(Samples::default().meets(Target::OfLimit(0.9)), None);
}

static FIGURE: Figure = Figure {
    key: "rate",
    title: "objects per second",
    unit: "1/s",
    digits: 0,
    targets: &[Target::OfLimit(0.9), Target::TimesPeer(1.6)],
};

fn result(samples: Samples) -> report::Result {
    report::Result { name: "row", about: "a row".to_owned(), figures: vec![(&FIGURE, samples)] }
}

fn circumstances() -> report::Circumstances {
    report::Circumstances {
        date: "2030-01-02T03:04:05Z".to_owned(),
        processors: "2 × Some".to_owned(),
        memory_mib: 1024,
        others: 0.02,
        contestants: "somebody",
        api_server: "v1.20.2".to_owned(),
        peer: Some("1.20.2".to_owned()),
        kube_gc: "0.1.0".to_owned(),
        objects: 4000,
        rounds: 2,
        turns: 1,
    }
}

#[test]
fn the_table_has_a_line_for_each_figure_with_all_its_values() {
    let result = result(samples(&[(1000.0, 500.0, 900.0), (500.0, 250.0, 500.0)]));
    let page = report::markdown::page(&circumstances(), &[result]);
    assert!(page.contains("as somebody; 2 rounds of 4000 objects. Each cell"), "{page}");
    let line = page.lines().last().unwrap_or_default();
    assert_eq!(
        line,
        "| a row: objects per second (1/s) | ≥ 0.9 × limit; ≥ 1.6 × peer in every round \
         | 750 (500–1000) | 375 (250–500) | 700 (500–900) | 0.95 (0.90–1.00) | 1.90 (1.80–2.00) | yes |"
    );
    let several = report::Circumstances { turns: 3, ..circumstances() };
    let head = report::markdown::page(&several, &[]);
    assert!(
        head.contains("4000 objects, in each of which a number is the median of 3 turns. Each"),
        "{head}"
    );
    let columns = |line: &str| line.matches('|').count();
    let lines: Vec<_> = page.lines().filter(|line| line.starts_with('|')).collect();
    assert!(lines.iter().all(|other| columns(other) == columns(line)), "{page}");
}

#[test]
fn a_target_without_a_measurement_is_neither_met_nor_missed() {
    let mut samples = Samples::default();
    samples.add(0, Contestant::Limit, 100.0);
    samples.add(0, Contestant::KubeGc, 95.0);
    assert_eq!(report::markdown::met(FIGURE.targets, &samples), "open");
    samples.add(0, Contestant::Limit, 200.0);
    assert_eq!(report::markdown::met(FIGURE.targets, &samples), "**no**");
    assert_eq!(report::markdown::met(&[], &samples), "–");
}

#[test]
fn the_json_has_every_value() {
    let result = result(samples(&[(1000.0, 500.0, 900.0), (500.0, 250.0, 500.0)]));
    let document = report::json::document(&circumstances(), &[result]);
    assert_eq!(document["circumstances"]["rounds"], 2);
    let figure = &document["rows"][0]["figures"][0];
    assert_eq!(figure["contestants"]["kube-gc"]["samples"], serde_json::json!([900.0, 500.0]));
    assert_eq!(figure["turns"]["peer"], serde_json::json!([[500.0], [250.0]]));
    assert_eq!(figure["kube-gc over"]["peer"]["spread"]["min"], 1.8);
    assert_eq!(figure["targets"][0]["met"], true);
}

#[test]
fn polling_becomes_more_frequent_near_the_end() {
    use pace::next_look;
    let second = Duration::from_secs(1);
    assert_eq!(next_look(second, 4000, 4000), Duration::from_millis(20), "nothing is known yet");
    assert_eq!(next_look(2 * second, 4000, 3000), Duration::from_millis(500), "six seconds are left");
    assert_eq!(next_look(second, 11, 10), Duration::from_millis(250), "it may have begun just now");
    let soon = next_look(second, 1100, 100);
    assert!(soon > Duration::from_millis(69) && soon < Duration::from_millis(71), "{soon:?}");
    assert_eq!(next_look(second, 4000, 1), Duration::from_millis(5));
}

#[test]
fn cpu_time_is_read_after_a_process_name_with_any_characters() {
    let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 123 45 7 8 20 0 3 0 100 1000 10";
    assert_eq!(proc::cpu_of(stat), Some(Duration::from_millis(1680)));
    let milliseconds = [1230, 450, 70, 80].map(Duration::from_millis);
    assert_eq!(proc::times_of(stat), Some(milliseconds), "with those of children");
    assert_eq!(proc::cpu_of("42 (a) S 1"), None);
}

#[test]
fn idle_and_iowait_time_is_not_busy_time() {
    let stat = "cpu  100 1 20 5000 300 2 3 4 50 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
    assert_eq!(proc::busy_of(stat), Some(Duration::from_millis(1300)));
    assert_eq!(proc::busy_of("cpu  100 1 20\n"), None);
}

#[test]
fn targets_are_not_judged_on_a_busy_machine() {
    let page = |others| {
        let circumstances = report::Circumstances { others, ..circumstances() };
        report::markdown::page(&circumstances, &[])
    };
    assert!(!page(0.04).contains("not quiet"));
    assert!(page(0.31).contains("31 % of the processors") && page(0.31).contains("not quiet"));
}

#[test]
fn memory_is_read_in_mib() {
    let status = "Name:\tx\nVmHWM:\t    4096 kB\nVmRSS:\t    1536 kB\n";
    assert_eq!(proc::memory_of(status), Some(proc::Memory { resident: 1.5, peak: 4.0 }));
    assert_eq!(proc::memory_of("Name:\tx\n"), None, "a process that has ended has none");
}

#[test]
fn the_benchmark_can_measure_its_own_process() -> anyhow::Result<()> {
    let pid = std::process::id();
    proc::cpu(pid)?;
    let memory = proc::memory(pid)?;
    assert!(memory.resident > 0.0 && memory.peak >= memory.resident, "{memory:?}");
    Ok(())
}

/// A reading for each check. The last one is repeated.
async fn at_rest_after(readings: &[u64]) -> anyhow::Result<usize> {
    let looks = Cell::new(0);
    let cpu = || {
        let reading = readings[looks.get().min(readings.len() - 1)];
        looks.set(looks.get() + 1);
        Ok(Duration::from_millis(reading))
    };
    rest::at_rest(cpu, Duration::from_millis(10), Duration::from_secs(300)).await?;
    Ok(looks.get())
}

#[tokio::test(start_paused = true)]
async fn a_process_is_at_rest_after_three_idle_samples_in_a_row() -> anyhow::Result<()> {
    assert_eq!(at_rest_after(&[50]).await?, 4, "one look, and three intervals");
    assert_eq!(at_rest_after(&[0, 10, 20, 30]).await?, 4);
    assert_eq!(at_rest_after(&[0, 10, 20, 31, 31]).await?, 7, "counted again after the third");
    Ok(())
}

#[test]
fn all_requests_for_configmaps_except_watches_are_counted() {
    let page = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",resource="configmaps",scope="resource",verb="DELETE",version="v1"} 4000
apiserver_request_total{code="409",component="apiserver",resource="configmaps",scope="resource",verb="DELETE",version="v1"} 2
apiserver_request_total{code="200",component="apiserver",resource="configmaps",scope="resource",verb="GET",version="v1"} 3
apiserver_request_total{code="0",component="apiserver",resource="configmaps",scope="cluster",verb="WATCH",version="v1"} 9
apiserver_request_total{code="200",component="apiserver",resource="secrets",scope="resource",verb="DELETE",version="v1"} 7
apiserver_request_total_other{resource="configmaps",verb="DELETE"} 11
apiserver_request_terminations_total{code="429",component="apiserver",resource="configmaps",scope="resource",verb="PATCH",version="v1"} 40
apiserver_request_terminations_total{code="504",component="apiserver",resource="configmaps",scope="resource",verb="PATCH",version="v1"} 13
"#;
    let counts = pages::requests(page);
    assert_eq!(counts.get("DELETE"), Some(&4002));
    assert_eq!(counts.get("PATCH"), Some(&40), "what was refused, not what took too long");
    assert_eq!(counts.values().sum::<u64>(), 4045);
}

#[test]
fn a_histogram_is_read_including_its_last_bucket() {
    let page = "lag_bucket{le=\"0.001\"} 5\nlag_bucket{le=\"+Inf\"} 6\nlag_sum 0.01\nlag_count 6\n";
    assert_eq!(pages::buckets(page, "lag"), [(0.001, 5.0), (f64::INFINITY, 6.0)]);
}

#[test]
fn the_program_is_found_where_cargo_built_it() {
    let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"kube_gc"},"executable":null}
not JSON
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"kube-gc"},"executable":"/target/release/kube-gc"}
{"reason":"build-finished","success":true}"#;
    assert_eq!(kube_gc::executable(messages), Some("/target/release/kube-gc".into()));
    assert_eq!(kube_gc::executable(r#"{"reason":"build-finished","success":true}"#), None);
}

#[test]
fn a_collector_counts_as_synced_only_when_it_knows_all_objects() {
    assert!(peer::is_synced(
        "I0102 garbagecollector.go:151] Garbage collector: all resource monitors have synced. Proceeding"
    ));
    assert!(peer::is_synced(
        "I0102 garbagecollector.go:184] \"All resource monitors have synced. Proceeding\""
    ));
    assert!(!peer::is_synced("Garbage collector: not all resource monitors could be synced, proceeding"));
    assert!(kube_gc::is_synced(r#"{"level":"INFO","message":"collecting","reason":"synced","monitors":57}"#));
    assert!(!kube_gc::is_synced(
        r#"{"level":"INFO","message":"collecting","reason":"timeout","unsynced":["pods"]}"#
    ));
    assert!(!kube_gc::is_synced("collecting synced"));
}

/// With as little as it can measure, and a program that is not optimized, so only whether it works.
#[test]
fn the_benchmark_of_small_collectors_runs_to_its_end() {
    let script = target::repository().join("benches/small.sh");
    let output = Command::new(script)
        .args(["--starts", "1", "--collectors", "2", "--rest", "1", "--frozen", "1"])
        .env("KUBE_GC_BINARY", target::binary())
        .output()
        .unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {table}{}", output.status, String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Vec<&str>> =
        table.lines().skip(2).map(|row| row.trim_matches(['|', ' ']).split(" | ").collect()).collect();
    assert_eq!(rows.len(), 7, "{table}");
    for row in rows {
        let [_, _, measured] = row[..] else { panic!("{row:?}") };
        let figure: f64 = measured.split([' ', ',']).next().unwrap().parse().expect("a figure");
        assert!(figure > 0.0, "{row:?}");
    }
}
