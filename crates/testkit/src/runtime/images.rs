//! The fake images, and the registry that they come from.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use rubelet_core::keyring::Login;
use rubelet_core::launch::{ImageSpec, SandboxConfig};
use rubelet_engine::ports::{FsUsage, Image, Images, RpcError, RpcErrorKind};

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
