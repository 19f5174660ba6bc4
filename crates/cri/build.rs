//! Generates the messages from the definition of CRI, without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/api.proto");
    let definition = protox::compile(["api.proto"], ["proto"])?;
    prost_build::Config::new().btree_map(["."]).disable_comments(["."]).compile_fds(definition)?;
    Ok(())
}
