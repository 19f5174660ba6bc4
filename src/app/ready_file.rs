//! The file that tells other programs that the collector is ready, and where its pages are.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::{Error, ErrorKind};

/// What the file contains. Its fields are a public interface.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    api_version: &'static str,
    kind: &'static str,
    pid: u32,
    version: &'static str,
    /// The address of `/livez`, `/readyz` and `/metrics`.
    health: SocketAddr,
    /// The address of the debug pages.
    debug: SocketAddr,
}

/// The file, from the start of the process to its end.
#[derive(Debug)]
pub struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Removes a file that an earlier process has left: nobody must take it for that of this one.
    ///
    /// # Errors
    /// The file is there and cannot be removed.
    pub fn at(path: &Path) -> Result<Self, Error> {
        let file = Self(path.to_owned());
        file.remove().map_err(|error| file.unusable("remove", &error))?;
        Ok(file)
    }

    /// Writes it. Readers see nothing or everything.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, health: SocketAddr, debug: SocketAddr) -> Result<(), Error> {
        let (pid, version) = (std::process::id(), env!("CARGO_PKG_VERSION"));
        let content = Content { api_version: "kube-gc.io/v1", kind: "Ready", pid, version, health, debug };
        self.replace(&content).map_err(|error| self.unusable("write", &error))
    }

    fn replace(&self, content: &Content) -> io::Result<()> {
        let mut name = self.0.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", content.pid));
        let new = self.0.with_file_name(name);
        let mut file = File::create_new(&new)?;
        let written = serde_json::to_writer(&mut file, content)
            .map_err(io::Error::from)
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| fs::rename(&new, &self.0));
        if written.is_err() {
            // The first error says what is wrong.
            let _ = fs::remove_file(&new);
        }
        written
    }

    fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn unusable(&self, what: &str, error: &io::Error) -> Error {
        let path = self.0.display();
        Error::new(
            ErrorKind::Settings,
            format!(
                "cannot {what} the file of --ready-file, {path}: {error}; name a file in a directory that kube-gc may write to"
            ),
        )
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(path = %self.0.display(), %error, "cannot remove the file of --ready-file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_there_between_ready_and_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ready.json");
        fs::write(&path, "left over").unwrap();
        let file = ReadyFile::at(&path).unwrap();
        assert!(!path.exists(), "it would tell of another process");
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        file.write(address(1), address(2)).unwrap();
        let content: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!((&content["kind"], &content["pid"]), (&"Ready".into(), &std::process::id().into()));
        assert_eq!((&content["health"], &content["debug"]), (&"127.0.0.1:1".into(), &"127.0.0.1:2".into()));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no other file is left");
        drop(file);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_path_that_cannot_be_written_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = ReadyFile::at(directory.path()).unwrap_err().to_string();
        assert!(
            error.contains("--ready-file") && error.contains(directory.path().to_str().unwrap()),
            "{error}"
        );
        let file = ReadyFile::at(&directory.path().join("none/ready.json")).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        assert!(file.write(address, address).unwrap_err().to_string().contains("none/ready.json"));
    }
}
