#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kube_gc_decode::fuzzing::list_protobuf(bytes));
