//! Generates the messages from the definition of CRI, without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/api.proto");
    let definition = protox::compile(["api.proto"], ["proto"])?;
    let mut config = prost_build::Config::new();
    config.btree_map(["."]).disable_comments(["."]);
    // Nobody reads these. Boxed, they take little memory in a list of which a message has millions.
    for unread in ["cpu", "memory", "swap", "io"] {
        config.boxed(format!(".runtime.v1.ContainerStats.{unread}"));
    }
    config.compile_fds(definition)?;
    Ok(())
}
