#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kube_gc_config::testing::config(bytes));
