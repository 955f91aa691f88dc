//! Volume plugins: what each kind of volume means, in terms of directories and mounts.
//!
//! A plugin decides; the disk is touched through the port `VolumeDirs`, which no container can lead astray. Only
//! hostPath looks at the host itself, for that is what it is for.

mod empty_dir;
mod host_path;

pub use empty_dir::EmptyDir;
pub use host_path::HostPath;
