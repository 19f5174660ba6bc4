//! How full the file system of the images is.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube_gc_cri::Client;
use kube_gc_node::pressure::Usage;
use tokio::time::{Instant, sleep};

/// Something that says how full the file system of the images is.
pub trait Disk: fmt::Debug + Send + Sync {
    /// How full it is now.
    ///
    /// # Errors
    /// It cannot be measured, with what to do about it.
    fn usage(&self) -> Result<Usage, String>;
}

/// The file system of a directory, measured by `statvfs`; or why the directory is not known.
#[derive(Clone, Debug)]
struct Measured(Result<PathBuf, String>);

impl Disk for Measured {
    fn usage(&self) -> Result<Usage, String> {
        let directory = self.0.as_ref().map_err(Clone::clone)?;
        let found = rustix::fs::statvfs(directory).map_err(|error| {
            format!(
                "cannot measure the file system of the images at {}: {}; in a pod, mount this directory at \
                 the same path",
                directory.display(),
                io::Error::from(error)
            )
        })?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Usage {
            capacity: bytes(found.f_blocks),
            available: bytes(found.f_bavail),
            inodes: found.f_files,
            inodes_free: found.f_ffree,
        })
    }
}

/// The disk of a container runtime inside this process.
#[cfg(any(test, feature = "demo"))]
impl Disk for kube_gc_cri::server::CriServer {
    fn usage(&self) -> Result<Usage, String> {
        let (capacity, available) = self.world(|world| (world.capacity, world.available()));
        Ok(Usage { capacity, available, ..Usage::default() })
    }
}

/// The file system that the runtime says its images are on.
pub async fn of_runtime(client: &Client) -> Arc<dyn Disk> {
    let directory = match client.image_filesystems().await {
        Err(error) => Err(format!("it is not known where images are stored: {error}")),
        Ok(answer) => {
            let first = answer.image_filesystems.into_iter().find_map(|filesystem| filesystem.fs_id);
            first
                .map(|id| PathBuf::from(id.mountpoint))
                .filter(|directory| directory.is_absolute())
                .ok_or_else(|| "the container runtime does not say where images are stored".to_owned())
        }
    };
    Arc::new(Measured(directory))
}

/// Measures once more after something was removed: at once if `before` is missing, otherwise
/// until the file system shows a change or the patience is over (B3).
pub async fn measure(disk: &dyn Disk, before: Option<Usage>, patience: Duration) -> Result<Usage, String> {
    const FIRST_PAUSE: Duration = Duration::from_millis(5);
    const LONGEST_PAUSE: Duration = Duration::from_millis(100);
    let until = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        let usage = disk.usage()?;
        let now = Instant::now();
        if patience.is_zero() || before.is_none_or(|before| before != usage) || now >= until {
            return Ok(usage);
        }
        sleep(pause.min(until - now)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_directory_is_measured_and_a_missing_one_is_an_error_that_names_it() {
        let usage = Measured(Ok("/".into())).usage().unwrap();
        assert!(usage.capacity > 0 && usage.available <= usage.capacity);
        let error = Measured(Ok("/no/such/directory".into())).usage().unwrap_err();
        assert!(error.contains("/no/such/directory") && error.contains("mount"), "{error}");
    }

    #[derive(Debug)]
    struct Falling(Mutex<Vec<u64>>);

    impl Disk for Falling {
        fn usage(&self) -> Result<Usage, String> {
            let mut left = self.0.lock().unwrap();
            let available = if left.len() > 1 { left.remove(0) } else { left[0] };
            Ok(Usage { capacity: 100, available, inodes: 0, inodes_free: 0 })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn b3_it_waits_until_the_file_system_shows_the_removal_and_no_longer_than_two_seconds() {
        let before = Usage { capacity: 100, available: 1, inodes: 0, inodes_free: 0 };
        let start = Instant::now();
        let disk = Falling(Mutex::new(vec![1, 1, 1, 7]));
        let patience = Duration::from_secs(2);
        assert_eq!(measure(&disk, Some(before), patience).await.unwrap().available, 7);
        assert!(start.elapsed() < Duration::from_millis(100));
        let start = Instant::now();
        let disk = Falling(Mutex::new(vec![1]));
        assert_eq!(measure(&disk, Some(before), patience).await.unwrap().available, 1);
        assert_eq!(start.elapsed(), patience);
    }
}
