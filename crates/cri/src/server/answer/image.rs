//! Images and their file system.

use tonic::Status;

use super::{Answer, AnswerInParts, by_beginning};
use crate::messages::*;
use crate::server::disk::Space;
use crate::server::settings::Settings;
use crate::server::world::{World, now};

// It has a filter, which containerd ignores.
impl Answer for ListImagesRequest {
    fn answer(self, _: &Settings, world: &mut World) -> Result<ListImagesResponse, Status> {
        Ok(ListImagesResponse { images: world.images().cloned().collect() })
    }
}

impl AnswerInParts for StreamImagesRequest {
    fn parts(self, _: &Settings, world: &mut World, items: usize) -> Vec<StreamImagesResponse> {
        let images: Vec<Image> = world.images().cloned().collect();
        images.chunks(items).map(|part| StreamImagesResponse { images: part.to_vec() }).collect()
    }
}

impl Answer for ImageStatusRequest {
    fn about(&self) -> String {
        self.image.as_ref().map(|image| image.image.clone()).unwrap_or_default()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<ImageStatusResponse, Status> {
        let id = resolve(world, &self.about())?;
        let record = id.and_then(|id| world.images.get(&id));
        Ok(ImageStatusResponse { image: record.map(|record| record.image.clone()) })
    }
}

impl Answer for RemoveImageRequest {
    /// The image, and the runtime handler if one is named.
    fn about(&self) -> String {
        let Some(ImageSpec { image, runtime_handler, .. }) = &self.image else { return String::new() };
        if runtime_handler.is_empty() { image.clone() } else { format!("{image},{runtime_handler}") }
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<RemoveImageResponse, Status> {
        let image = self.image.unwrap_or_default().image;
        if let Some(id) = resolve(world, &image)? {
            world.remove_image(&id);
        }
        Ok(RemoveImageResponse {})
    }
}

impl Answer for ImageFsInfoRequest {
    fn answer(self, settings: &Settings, world: &mut World) -> Result<ImageFsInfoResponse, Status> {
        let usage = filesystem_usage(settings, world.disk.used());
        Ok(ImageFsInfoResponse { image_filesystems: vec![usage], container_filesystems: Vec::new() })
    }
}

/// So much of the file system of the images and containers.
pub(super) fn filesystem_usage(settings: &Settings, used: Space) -> FilesystemUsage {
    FilesystemUsage {
        timestamp: now(),
        fs_id: Some(FilesystemIdentifier { mountpoint: settings.mountpoint.clone() }),
        used_bytes: Some(UInt64Value { value: used.bytes }),
        inodes_used: Some(UInt64Value { value: used.inodes }),
    }
}

/// The id of an image, by its id or the beginning of it, its tag or its digest.
pub(super) fn resolve(world: &World, name: &str) -> Result<Option<String>, Status> {
    if name.is_empty() {
        return Err(Status::unknown("no image is named"));
    }
    let is_named = |image: &Image| {
        let mut names = image.repo_tags.iter().chain(&image.repo_digests);
        names.any(|known| known == name)
    };
    if let Some(image) = world.images().find(|image| is_named(image)) {
        return Ok(Some(image.id.clone()));
    }
    let beginning = if name.starts_with("sha256:") { name.to_owned() } else { format!("sha256:{name}") };
    Ok(by_beginning(&world.images, &beginning))
}
