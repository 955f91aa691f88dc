//! A volume plugin in memory that serves every volume.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Volume;
use rubelet_core::id::{PodRef, PodUid};
use rubelet_engine::ports::{ReadyVolume, VolumeError, VolumePlugin, VolumeRequest};

use crate::files::FakePodDirs;

/// A volume plugin in memory. Clones share its volumes.
#[derive(Clone, Default)]
pub struct FakeVolumes(Arc<Mutex<Volumes>>);

#[derive(Default)]
struct Volumes {
    made: BTreeSet<(PodUid, String)>,
    refused: BTreeMap<String, String>,
    stuck: BTreeSet<String>,
    panics: BTreeSet<String>,
    takes: Duration,
    follows_changes: bool,
    renew_at: Option<Timestamp>,
    set_ups: usize,
}

impl FakeVolumes {
    /// Volumes that are set up now.
    pub fn made(&self) -> Vec<(PodUid, String)> {
        self.volumes().made.iter().cloned().collect()
    }

    /// Makes setting up volumes called `volume` fail with `message`, or succeed again.
    pub fn refuse(&self, volume: &str, message: Option<&str>) {
        let mut volumes = self.volumes();
        match message {
            Some(message) => volumes.refused.insert(volume.into(), message.into()),
            None => volumes.refused.remove(volume),
        };
    }

    /// Makes tearing down volumes called `volume` fail, as when they are in use, or succeed again.
    pub fn set_stuck(&self, volume: &str, stuck: bool) {
        let mut volumes = self.volumes();
        if stuck {
            volumes.stuck.insert(volume.into())
        } else {
            volumes.stuck.remove(volume)
        };
    }

    /// Makes setting up volumes called `volume` panic, as a plugin with a bug does, or succeed again.
    pub fn set_panics(&self, volume: &str, panics: bool) {
        let mut volumes = self.volumes();
        if panics {
            volumes.panics.insert(volume.into())
        } else {
            volumes.panics.remove(volume)
        };
    }

    /// Makes the content of volumes change over time, with a refresh due at `renew_at`.
    pub fn set_follows_changes(&self, renew_at: Option<Timestamp>) {
        let mut volumes = self.volumes();
        volumes.follows_changes = true;
        volumes.renew_at = renew_at;
    }

    /// How often a volume was set up, for any pod.
    pub fn set_ups(&self) -> usize {
        self.volumes().set_ups
    }

    /// How long setting up takes.
    pub fn set_takes(&self, takes: Duration) {
        self.volumes().takes = takes;
    }

    fn volumes(&self) -> MutexGuard<'_, Volumes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(uid: &PodUid, volume: &str) -> PathBuf {
    Path::new(FakePodDirs::ROOT).join(uid.as_str()).join("volumes/kubernetes.io~fake").join(volume)
}

#[async_trait]
impl VolumePlugin for FakeVolumes {
    fn name(&self) -> &'static str {
        "kubernetes.io/fake"
    }

    fn serves(&self, _volume: &Volume) -> bool {
        true
    }

    fn follows_changes(&self) -> bool {
        self.volumes().follows_changes
    }

    async fn set_up(&self, request: &VolumeRequest) -> Result<ReadyVolume, VolumeError> {
        let uid = PodRef::of(&request.pod).uid;
        let name = request.volume.name.clone();
        let takes = self.volumes().takes;
        tokio::time::sleep(takes).await;
        assert!(!self.volumes().panics.contains(&name), "a plugin with a bug");
        let mut volumes = self.volumes();
        if let Some(message) = volumes.refused.get(&name) {
            return Err(VolumeError::Refused(message.clone()));
        }
        let path = place(&uid, &name);
        let renew_at = volumes.renew_at;
        volumes.made.insert((uid, name));
        volumes.set_ups += 1;
        Ok(ReadyVolume { path, renew_at })
    }

    async fn volumes_of(&self, uid: &PodUid) -> Result<Vec<String>, VolumeError> {
        Ok(self.volumes().made.iter().filter(|(owner, _)| owner == uid).map(|(_, name)| name.clone()).collect())
    }

    async fn tear_down(&self, uid: &PodUid, volume: &str) -> Result<(), VolumeError> {
        let mut volumes = self.volumes();
        if volumes.stuck.contains(volume) {
            let source = std::io::ErrorKind::ResourceBusy.into();
            return Err(VolumeError::Io { action: "unmount", path: place(uid, volume), source });
        }
        volumes.made.remove(&(uid.clone(), volume.to_owned()));
        Ok(())
    }
}
