//! The fake images, and the registry that they come from.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::image_gc::ImageDisk;
use rubelet_core::keyring::Login;
use rubelet_core::launch::{ImageSpec, SandboxConfig};
use rubelet_engine::ports::{FileError, FsUsage, Image, ImageDisks, Images, RpcError, RpcErrorKind};

use super::FakeRuntime;
use super::world::fail;

/// How long a pull takes unless a test sets another time.
const PULL_TAKES: Duration = Duration::from_millis(5);
const IMAGE_SIZE: u64 = 1_000_000;

#[derive(Default)]
pub(super) struct ImageStore {
    /// By name.
    here: BTreeMap<String, Image>,
    /// Scripted pulls by image name; any other name can be pulled.
    pub(super) pulls: BTreeMap<String, Pull>,
    /// Images whose inspection fails, with the error.
    pub(super) broken: BTreeMap<String, String>,
    /// Images that cannot be removed, with the error.
    kept: BTreeMap<String, String>,
    /// The size of their disk, and what others use of it; `None` for a disk that is never full.
    disk: Option<(u64, u64)>,
}

/// The result of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Succeeds after this time.
    Takes(Duration),
    /// Fails with this error of the registry.
    Fails(RpcErrorKind, String),
    /// Succeeds at once with this user name, and fails with any other.
    NeedsLogin(String),
    /// It never ends.
    Hangs,
}

impl ImageStore {
    /// The image by name or id.
    pub(super) fn find(&self, wanted: &str) -> Option<&Image> {
        self.here.get(wanted).or_else(|| self.here.values().find(|image| image.id == wanted))
    }

    pub(super) fn add(&mut self, name: &str) -> String {
        let id = format!("sha256:{}", name.replace(['/', ':', '@'], "-"));
        let image = Image {
            id: id.clone(),
            repo_tags: vec![name.into()],
            repo_digests: Vec::new(),
            size: IMAGE_SIZE,
            ..Image::default()
        };
        self.here.insert(name.into(), image);
        id
    }

    fn room(&self) -> ImageDisk {
        let Some((capacity, others)) = self.disk else { return ImageDisk { capacity: 1 << 40, available: 1 << 40 } };
        let used: u64 = self.here.values().map(|image| image.size).sum();
        ImageDisk { capacity, available: capacity.saturating_sub(used.saturating_add(others)) }
    }

    fn remove(&mut self, wanted: &str) {
        self.here.retain(|name, image| name != wanted && image.id != wanted);
    }
}

#[async_trait]
impl Images for FakeRuntime {
    async fn image_status(&self, image: &ImageSpec) -> Result<Option<Image>, RpcError> {
        let wanted = image.image.clone();
        if let Some(message) = self.with(|world, _| world.images.broken.get(&wanted).cloned()) {
            return Err(fail("image_status", RpcErrorKind::Failed, message));
        }
        self.read("image_status", None, move |world, _| world.images.find(&wanted).cloned()).await
    }

    async fn pull_image(
        &self,
        image: &ImageSpec,
        login: Option<&Login>,
        sandbox: Option<&SandboxConfig>,
    ) -> Result<String, RpcError> {
        const OP: &str = "pull_image";
        let name = image.image.clone();
        let pull = self.with(|world, _| world.images.pulls.get(&name).cloned());
        let outcome = match pull.unwrap_or(Pull::Takes(PULL_TAKES)) {
            Pull::Takes(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Pull::Fails(kind, detail) => Err(fail(OP, kind, detail)),
            Pull::NeedsLogin(user) if login.is_some_and(|login| login.username == user) => Ok(()),
            Pull::NeedsLogin(_) => {
                let who = login.map_or("anonymous", |login| login.username.as_str());
                Err(fail(OP, RpcErrorKind::Failed, format!("{who} is not authorized")))
            }
            Pull::Hangs => std::future::pending().await,
        };
        let pod = sandbox.map(|s| (s.name.clone(), s.uid.clone())).unwrap_or_default();
        self.change(OP, None, None, move |world, now| {
            let outcome = outcome.map(|()| world.images.add(&name));
            world.record_as(now, &pod.0, &pod.1.into(), format!("pull {name}"), &outcome);
            outcome
        })
        .await
    }

    async fn list_images(&self) -> Result<Vec<Image>, RpcError> {
        self.read("list_images", None, |world, _| world.images.here.values().cloned().collect()).await
    }

    async fn remove_image(&self, image: &ImageSpec) -> Result<(), RpcError> {
        let wanted = image.image.clone();
        self.change("remove_image", None, None, move |world, _| {
            let kept = world.images.find(&wanted).and_then(|image| world.images.kept.get(image.repo_tags.first()?));
            if let Some(message) = kept {
                return Err(fail("remove_image", RpcErrorKind::Failed, message));
            }
            world.images.remove(&wanted);
            Ok(())
        })
        .await
    }

    async fn image_fs_info(&self) -> Result<Vec<FsUsage>, RpcError> {
        self.read("image_fs_info", None, |world, _| {
            let used = world.images.here.values().map(|image| image.size).sum();
            vec![FsUsage { mountpoint: "/var/lib/fake".into(), used_bytes: used, inodes_used: 1 }]
        })
        .await
    }
}

impl FakeRuntime {
    /// Puts an image of this size on the node.
    pub fn add_sized_image(&self, name: &str, size: u64, pinned: bool) {
        self.with(|world, _| {
            world.images.add(name);
            if let Some(image) = world.images.here.get_mut(name) {
                (image.size, image.pinned) = (size, pinned);
            }
        });
    }

    /// The names of the images on the node.
    pub fn image_names(&self) -> Vec<String> {
        self.with(|world, _| world.images.here.keys().cloned().collect())
    }

    /// Makes the removal of an image fail with this error, or work again.
    pub fn keep_image(&self, name: &str, error: Option<&str>) {
        self.with(|world, _| match error {
            Some(error) => world.images.kept.insert(name.into(), error.into()),
            None => world.images.kept.remove(name),
        });
    }

    /// Sets the size of the disk that holds images, and what others use of it.
    pub fn set_image_disk(&self, capacity: u64, others: u64) {
        self.with(|world, _| world.images.disk = Some((capacity, others)));
    }
}

#[async_trait]
impl ImageDisks for FakeRuntime {
    async fn room(&self, _mountpoint: &Path) -> Result<ImageDisk, FileError> {
        Ok(self.with(|world, _| world.images.room()))
    }
}
