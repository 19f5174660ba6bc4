//! Images as files, in the format of `docker save`, for `ctr images import`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// The file cannot be written, or there is no `tar` or `sha256sum`.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        let name = self.name.replace(['/', ':'], "-");
        let content = directory.join(&name);
        fs::create_dir(&content)?;
        let (mut names, mut digests) = (Vec::new(), Vec::new());
        for (at, layer) in self.layers.iter().enumerate() {
            let file = match layer {
                Layer::Program => "busybox",
                Layer::Ballast { name, bytes } => {
                    fs::write(content.join(name), vec![b'x'; *bytes])?;
                    name
                }
            };
            let from = if *layer == Layer::Program { Path::new("/bin") } else { &content };
            let archive = format!("layer{at}.tar");
            tar(&content.join(&archive), from, &[file])?;
            digests.push(format!("sha256:{}", digest(&content.join(&archive))?));
            names.push(archive);
        }
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
        fs::write(content.join("config.json"), config.to_string())?;
        fs::write(content.join("manifest.json"), manifest.to_string())?;
        let mut files: Vec<&str> = names.iter().map(String::as_str).collect();
        files.extend(["config.json", "manifest.json"]);
        let path = directory.join(format!("{name}.tar"));
        tar(&path, &content, &files)?;
        fs::remove_dir_all(content)?;
        Ok(path)
    }
}

/// Makes an archive of files in a directory: the same for the same files, whenever it is made.
fn tar(archive: &Path, from: &Path, files: &[&str]) -> io::Result<()> {
    let mut command = Command::new("tar");
    command.arg("--create").arg("--file").arg(archive).arg("--directory").arg(from).args(files);
    command.args(["--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--dereference"]);
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("tar: {status}"))) }
}

fn digest(file: &Path) -> io::Result<String> {
    let output = Command::new("sha256sum").arg(file).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let sum = text.split_whitespace().next().filter(|sum| sum.len() == 64);
    sum.map(str::to_owned).ok_or_else(|| io::Error::other("sha256sum failed"))
}
