//! The binary: everything is in the library.

use std::process::ExitCode;

/// `Cargo.toml` says why jemalloc is used, `.cargo/config.toml` how it is configured.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    kube_gc::main()
}
