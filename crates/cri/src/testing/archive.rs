//! Images as files, in the format of `docker save`, for `ctr images import`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

/// Where Debian's package busybox-static has the program that containers run.
pub(super) const BUSYBOX: &str = "/bin/busybox";

/// A layer of an image. The same layer in two images is stored once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Something to run, `/busybox`: about 2 MiB.
    Program,
    /// A file of a name and a number of bytes, to fill a disk with.
    Ballast {
        /// The file's name, which makes the layer another one.
        name: String,
        /// Its size.
        bytes: usize,
    },
}

/// An image to import.
#[derive(Clone, Debug)]
pub struct Archive {
    /// The image's name, with a tag.
    pub name: String,
    /// Its layers, the lowest first.
    pub layers: Vec<Layer>,
}

impl Archive {
    /// An image that can run, with a layer of its own.
    pub fn runnable(name: &str, bytes: usize) -> Self {
        let ballast = Layer::Ballast { name: name.replace(['/', ':'], "-"), bytes };
        Self { name: name.to_owned(), layers: vec![Layer::Program, ballast] }
    }

    /// Writes the image into a directory, and returns the file.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or there is no `sha256sum`.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        let mut layers = Vec::new();
        for layer in &self.layers {
            let mut files = Tar::default();
            match layer {
                Layer::Program => files.file("busybox", 0o755, &fs::read(BUSYBOX)?),
                Layer::Ballast { name, bytes } => files.file(name, 0o644, &vec![b'x'; *bytes]),
            }
            layers.push(files.finish());
        }
        let digests = layers.iter().map(|layer| digest(layer)).collect::<io::Result<Vec<_>>>()?;
        let names: Vec<String> = (0..layers.len()).map(|at| format!("layer{at}.tar")).collect();
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        // The name is in the configuration, because an image's id is the digest of that.
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": { "Cmd": ["/busybox", "sleep", "3600"], "Labels": { "name": self.name } },
            "rootfs": { "type": "layers", "diff_ids": digests },
        });
        let manifest = json!([{ "Config": "config.json", "RepoTags": [self.name], "Layers": names }]);
        let mut archive = Tar::default();
        for (name, layer) in names.iter().zip(&layers) {
            archive.file(name, 0o644, layer);
        }
        archive.file("config.json", 0o644, config.to_string().as_bytes());
        archive.file("manifest.json", 0o644, manifest.to_string().as_bytes());
        let path = directory.join(format!("{}.tar", self.name.replace(['/', ':'], "-")));
        fs::write(&path, archive.finish())?;
        Ok(path)
    }
}

/// The digest of a layer.
fn digest(bytes: &[u8]) -> io::Result<String> {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(bytes)?;
    }
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let sum = text.split_whitespace().next().filter(|sum| sum.len() == 64);
    Ok(format!("sha256:{}", sum.ok_or_else(|| io::Error::other("sha256sum failed"))?))
}

/// An archive of plain files.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    const BLOCK: usize = 512;

    fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        let mut header = [0; Self::BLOCK];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name.get(..100).unwrap_or(name));
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{:011o}", content.len()));
        put(136, "00000000000");
        // The sum counts itself as spaces.
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend(header);
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(Self::BLOCK), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        // Two empty blocks end it.
        self.0.resize(self.0.len() + 2 * Self::BLOCK, 0);
        self.0
    }
}
