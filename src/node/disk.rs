//! How full the file system of the images is.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube_gc_core::text::word;
use kube_gc_cri::Client;
use kube_gc_cri::messages::FilesystemUsage;
use kube_gc_node::pressure::Usage;
use kube_gc_node::view::ContainerDisk;
use tokio::time::{Instant, sleep};

use super::report::{Note, Says};

/// Something that says how full the file systems of the images and of the containers' layers are.
pub trait Disk: fmt::Debug + Send + Sync {
    /// How full that of the images is now.
    ///
    /// # Errors
    /// It cannot be measured, with what to do about it.
    fn usage(&self) -> Result<Usage, String>;

    /// Where the layers of containers are. What cannot be measured is noted.
    fn of_containers(&self, _notes: &mut Vec<Note>) -> ContainerDisk {
        ContainerDisk::OfImages
    }
}

/// The file systems of two directories, measured by `statvfs`.
#[derive(Clone, Debug)]
struct Measured {
    images: PathBuf,
    /// Where the layers of containers are, if the runtime says so.
    containers: Option<PathBuf>,
}

impl Disk for Measured {
    fn usage(&self) -> Result<Usage, String> {
        usage(&self.images)
    }

    fn of_containers(&self, notes: &mut Vec<Note>) -> ContainerDisk {
        notes.extend(blind_spot(&self.images));
        let device = |directory: &PathBuf| std::fs::metadata(directory).map(|metadata| metadata.dev()).ok();
        match &self.containers {
            Some(containers) if *containers != self.images && device(containers) != device(&self.images) => {
                let usage = usage(containers);
                ContainerDisk::Own(
                    usage.map_err(|text| notes.push(Note { kind: "layers", says: Says::Gap, text })).ok(),
                )
            }
            _ => ContainerDisk::OfImages,
        }
    }
}

fn usage(directory: &Path) -> Result<Usage, String> {
    let found = rustix::fs::statvfs(directory).map_err(|error| {
        format!(
            "cannot measure the file system at {}: {}; in a pod, mount this directory at the same path",
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

/// Snapshotters of containerd that store everything in their directory.
const IN_DIRECTORY: [&str; 7] = ["overlayfs", "native", "btrfs", "zfs", "aufs", "erofs", "blockfile"];

/// What `statvfs` does not see: containerd names the directory of images after its snapshotter. Others, such as
/// devmapper, may have a pool or a directory elsewhere.
fn blind_spot(images: &Path) -> Option<Note> {
    let snapshotter = images.file_name()?.to_str()?.strip_prefix("io.containerd.snapshotter.v1.")?;
    (!IN_DIRECTORY.contains(&snapshotter)).then(|| {
        note!(
            "the snapshotter {} may store images outside of the file system at {}, which is the one that is \
             measured; then `high`, `low`, pressure and `--free` do not hold",
            word(snapshotter),
            images.display()
        )
        .saying(Says::Hint)
    })
}

/// The disk of a container runtime inside this process.
#[cfg(any(test, feature = "demo"))]
impl Disk for kube_gc_cri::server::CriServer {
    fn usage(&self) -> Result<Usage, String> {
        let (capacity, available) = self.world(|world| (world.capacity, world.available()));
        Ok(Usage { capacity, available, ..Usage::default() })
    }
}

/// The file systems that the runtime says its images and containers are on.
pub async fn of_runtime(client: &Client) -> Result<Arc<dyn Disk>, Note> {
    let unmeasured = |note: Note| note.saying(Says::Unmeasured);
    let unknown = |error| unmeasured(note!("it is not known where images are stored: {error}"));
    let answer = client.image_filesystems().await.map_err(unknown)?;
    let first = |filesystems: Vec<FilesystemUsage>| {
        let first = filesystems.into_iter().find_map(|filesystem| filesystem.fs_id);
        first.map(|id| PathBuf::from(id.mountpoint)).filter(|directory| directory.is_absolute())
    };
    let images = first(answer.image_filesystems);
    let images = images
        .ok_or_else(|| unmeasured(note!("the container runtime does not say where images are stored")))?;
    Ok(Arc::new(Measured { images, containers: first(answer.container_filesystems) }))
}

/// Measures once more after something was removed, when `wanted` bytes are available or the patience is over (B3).
pub async fn measure(disk: &dyn Disk, wanted: u64, patience: Duration) -> Result<Usage, String> {
    const FIRST_PAUSE: Duration = Duration::from_millis(5);
    const LONGEST_PAUSE: Duration = Duration::from_millis(100);
    let until = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        let usage = disk.usage()?;
        let now = Instant::now();
        if usage.available >= wanted || now >= until {
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
    fn images_are_measured_and_layers_on_another_file_system_there() {
        let found = usage(Path::new("/")).unwrap();
        assert!(found.capacity > 0 && found.available <= found.capacity);
        let of = |images: &str, containers: Option<&str>| {
            let mut notes = Vec::new();
            let disk = Measured { images: images.into(), containers: containers.map(PathBuf::from) };
            (disk.of_containers(&mut notes), notes)
        };
        assert_eq!(of("/", None), (ContainerDisk::OfImages, vec![]));
        assert_eq!(of("/", Some("/..")), (ContainerDisk::OfImages, vec![]));
        assert!(matches!(of("/", Some("/proc")), (ContainerDisk::Own(Some(_)), notes) if notes.is_empty()));
        let (disk, notes) = of("/", Some("/no/such/directory"));
        assert!(
            disk == ContainerDisk::Own(None) && notes[0].text.contains("/no/such/directory"),
            "{notes:?}"
        );
    }

    #[test]
    fn a_snapshotter_with_a_pool_of_its_own_is_named() {
        let of =
            |name| blind_spot(Path::new(&format!("/var/lib/containerd/io.containerd.snapshotter.v1.{name}")));
        assert_eq!(of("overlayfs"), None);
        assert!(of("devmapper").is_some_and(|note| note.text.contains("devmapper")));
        assert_eq!(blind_spot(Path::new("/var/lib/containers/storage/overlay-images")), None);
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
        let start = Instant::now();
        let patience = Duration::from_secs(2);
        let disk = Falling(Mutex::new(vec![9, 1, 2, 10, 17]));
        assert_eq!(measure(&disk, 10, patience).await.unwrap().available, 10);
        assert!(start.elapsed() < Duration::from_millis(100));
        let start = Instant::now();
        let disk = Falling(Mutex::new(vec![1, 2, 1]));
        assert_eq!(measure(&disk, 10, patience).await.unwrap().available, 1);
        assert_eq!(start.elapsed(), patience);
    }
}
