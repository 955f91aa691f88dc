//! A disk in memory for the tests of plugins that write files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Pod, Volume};
use rubelet_core::id::PodUid;
use rubelet_engine::ports::{
    FileError, MemoryFs, MountedFs, Payload, PayloadWriter, VolumeDirs, VolumePlace, VolumeRequest, VolumeState,
    Written,
};

use crate::Content;

/// Remembers what was asked of it, in order, and what volumes hold.
#[derive(Default)]
pub(crate) struct FakeDisk {
    state: Mutex<BTreeMap<String, VolumeState>>,
    payloads: Mutex<BTreeMap<String, Payload>>,
    calls: Mutex<Vec<String>>,
}

/// A disk, and content that goes there. The node has 1 GiB.
pub(crate) fn disk() -> (Arc<FakeDisk>, Content) {
    let disk = Arc::new(FakeDisk::default());
    let content = Content::new(Arc::<FakeDisk>::clone(&disk), Arc::<FakeDisk>::clone(&disk), 1 << 30);
    (disk, content)
}

/// The volume `v` of this pod, made from the spec in JSON.
pub(crate) fn request(pod: Arc<Pod>, source: &serde_json::Value) -> VolumeRequest {
    let mut volume: Volume = serde_json::from_value(source.clone()).unwrap();
    volume.name = "v".to_owned();
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let fs_group = context.and_then(|context| context.fs_group);
    VolumeRequest { pod, volume, fs_group }
}

impl FakeDisk {
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    pub(crate) fn change(&self, place: &str, change: impl FnOnce(&mut VolumeState)) {
        change(self.state.lock().unwrap().entry(place.to_owned()).or_default());
    }

    /// What the one volume holds: `path mode owner content` of each file.
    pub(crate) fn files(&self) -> Vec<String> {
        let payloads = self.payloads.lock().unwrap();
        let files = payloads.values().flat_map(|payload| &payload.files);
        files
            .map(|(path, file)| {
                let owner = file.owner.map(|owner| format!(" user {owner}")).unwrap_or_default();
                format!("{path} {:o}{owner} {}", file.mode, String::from_utf8_lossy(&file.data))
            })
            .collect()
    }

    pub(crate) fn payload(&self) -> Payload {
        self.payloads.lock().unwrap().values().next().cloned().unwrap_or_default()
    }

    fn did(&self, what: &str, place: &VolumePlace) -> String {
        let name = format!("{}/{}", place.plugin, place.volume);
        self.calls.lock().unwrap().push(format!("{what} {name}"));
        name
    }
}

#[async_trait]
impl VolumeDirs for FakeDisk {
    async fn look(&self, place: &VolumePlace) -> Result<VolumeState, FileError> {
        let name = format!("{}/{}", place.plugin, place.volume);
        let state = self.state.lock().unwrap().get(&name).cloned().unwrap_or_default();
        Ok(VolumeState { path: "/v".into(), ..state })
    }
    async fn list(&self, _: &PodUid, plugin: &'static str) -> Result<Vec<String>, FileError> {
        let state = self.state.lock().unwrap();
        let names = state.keys().filter_map(|name| name.strip_prefix(plugin)?.strip_prefix('/'));
        Ok(names.map(str::to_owned).collect())
    }
    async fn make(&self, place: &VolumePlace, mode: u32) -> Result<PathBuf, FileError> {
        let name = self.did(&format!("make {mode:o}"), place);
        self.change(&name, |state| state.exists = true);
        Ok("/v".into())
    }
    async fn mount(&self, place: &VolumePlace, kind: &MemoryFs) -> Result<(), FileError> {
        let name = self.did(&format!("mount {kind:?}"), place);
        self.change(&name, |state| state.mounted = Some(MountedFs::Tmpfs));
        Ok(())
    }
    async fn give_to_group(&self, place: &VolumePlace, group: u32) -> Result<(), FileError> {
        self.did(&format!("group {group}"), place);
        Ok(())
    }
    async fn mark_ready(&self, place: &VolumePlace) -> Result<(), FileError> {
        let name = self.did("ready", place);
        self.change(&name, |state| state.ready = true);
        Ok(())
    }
    async fn remove(&self, place: &VolumePlace) -> Result<(), FileError> {
        let name = self.did("remove", place);
        self.state.lock().unwrap().remove(&name);
        self.payloads.lock().unwrap().remove(&name);
        Ok(())
    }
}

#[async_trait]
impl PayloadWriter for FakeDisk {
    async fn write(&self, place: &VolumePlace, payload: Payload) -> Result<Written, FileError> {
        let name = self.did("write", place);
        let before = self.payloads.lock().unwrap().insert(name, payload.clone());
        Ok(if before == Some(payload) { Written::Same } else { Written::New })
    }
    async fn is_written(&self, place: &VolumePlace) -> Result<bool, FileError> {
        Ok(self.payloads.lock().unwrap().contains_key(&format!("{}/{}", place.plugin, place.volume)))
    }
}
