//! Logins in files: `config.json`, or the older `.dockercfg`.

use std::path::{Path, PathBuf};

use rubelet_core::keyring::{Keyring, LoginOrigin};
use tracing::debug;

/// Most that a file may hold.
const MAX_FILE: u64 = 10 << 20;

/// Where such files are looked for, in this order. The first that can be read counts, of the newer kind before the older.
///
/// upstream: pkg/credentialprovider/config.go ReadDockerConfigFile (v1.36)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerFiles {
    newer: Vec<PathBuf>,
    older: Vec<PathBuf>,
}

impl DockerFiles {
    /// In the kubelet's directory, the working directory, the user's home and the root.
    pub fn usual(root_dir: &Path, home: Option<&Path>) -> Self {
        let place = |dir: &Path, name: &str| dir.join(name);
        let (here, root) = (Path::new(""), Path::new("/"));
        let mut newer = vec![place(root_dir, "config.json"), place(here, "config.json")];
        newer.extend(home.map(|home| home.join(".docker/config.json")));
        newer.push(place(root, ".docker/config.json"));
        let mut older = vec![place(root_dir, ".dockercfg"), place(here, ".dockercfg")];
        older.extend(home.map(|home| home.join(".dockercfg")));
        older.push(place(root, ".dockercfg"));
        Self { newer, older }
    }

    pub(super) async fn read(&self) -> Keyring {
        let files = self.clone();
        let work = rubelet_engine::blocking::CREDENTIALS.spawn("logins", move || files.read_now());
        work.await.unwrap_or_default()
    }

    fn read_now(&self) -> Keyring {
        type Add = fn(&mut Keyring, &[u8], &LoginOrigin) -> Result<(), &'static str>;
        let newer = self.newer.iter().map(|path| (path, Keyring::add_config as Add));
        let older = self.older.iter().map(|path| (path, Keyring::add_legacy as Add));
        for (path, add) in newer.chain(older) {
            let small = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_FILE);
            let Some(text) = small.then(|| std::fs::read(path).ok()).flatten() else { continue };
            let mut keyring = Keyring::default();
            match add(&mut keyring, &text, &LoginOrigin::File(path.clone())) {
                Ok(()) => return keyring,
                Err(why) => debug!(path = %path.display(), why, "A file with logins cannot be read"),
            }
        }
        Keyring::default()
    }
}
