//! Volume plugins: what each kind of volume means, in terms of directories, mounts and files.
//!
//! A plugin decides; the disk is touched through the ports `VolumeDirs` and `PayloadWriter`, which no container can lead
//! astray. Only hostPath looks at the host itself, for that is what it is for.

mod config_map;
mod content;
mod downward_api;
mod empty_dir;
mod files;
mod host_path;
mod projected;
mod secret;
#[cfg(test)]
mod testing;

pub use config_map::ConfigMaps;
pub use content::Content;
pub use downward_api::DownwardApi;
pub use empty_dir::EmptyDir;
pub use host_path::HostPath;
pub use projected::Projected;
pub use secret::Secrets;
