//! IMG-06, IMG-07; upstream: pkg/credentialprovider/{config,plugin/plugin}_test.go (v1.36)

use jiff::Timestamp;
use rubelet_core::keyring::LoginOrigin;
use tempfile::TempDir;

use super::*;

fn clock() -> Clock {
    Clock::virtual_from(Timestamp::UNIX_EPOCH)
}

fn write(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    std::fs::write(&path, text).expect("written");
    path
}

async fn origins(logins: &DiskLogins, repository: &str) -> Vec<LoginOrigin> {
    logins.find(repository).await.into_iter().map(|login| login.origin).collect()
}

async fn users(logins: &DiskLogins, repository: &str) -> String {
    logins.find(repository).await.into_iter().map(|login| login.username).collect::<Vec<_>>().join(" ")
}

fn docker(user: &str) -> String {
    format!(r#"{{"auths":{{"r.io":{{"username":"{user}","password":"p"}}}}}}"#)
}

#[tokio::test]
async fn img_06_the_first_file_that_can_be_read_counts() {
    let (root, home) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let logins = || DiskLogins::new(DockerFiles::usual(root.path(), Some(home.path())), clock(), Arc::default());
    assert_eq!(users(&logins(), "r.io/x").await, "");
    write(&root, ".dockercfg", r#"{"r.io":{"username":"older","password":"p"}}"#);
    assert_eq!(users(&logins(), "r.io/x").await, "older");
    write(&home, ".docker/config.json", &docker("home"));
    assert_eq!(users(&logins(), "r.io/x").await, "home", "the newer kind, wherever it is");
    write(&root, "config.json", "broken");
    assert_eq!(users(&logins(), "r.io/x").await, "home");
    write(&root, "config.json", &docker("root"));
    let kept = logins();
    assert_eq!(users(&kept, "r.io/x").await, "root");
    assert_eq!(origins(&kept, "r.io/x").await, [LoginOrigin::File(root.path().join("config.json"))]);
    write(&root, "config.json", &docker("later"));
    assert_eq!(users(&kept, "r.io/x").await, "root", "what was read holds for a while");
}

/// A program that counts how often it was asked, and what comes of asking it.
struct Rig {
    dir: TempDir,
    logins: DiskLogins,
}

fn rig(script: &str) -> Rig {
    let dir = TempDir::new().expect("a directory");
    // The program is a shell that is there already: one that was just written may still be open for writing in a test
    // that starts its own program at this moment.
    let script = write(&dir, "script", &format!("echo asked >> {}/count\n{script}\n", dir.path().display()));
    std::fs::create_dir(dir.path().join("bin")).expect("made");
    std::os::unix::fs::symlink("/bin/sh", dir.path().join("bin/helper")).expect("linked");
    let config = format!(
        r#"
        apiVersion: kubelet.config.k8s.io/v1
        kind: CredentialProviderConfig
        providers:
        - name: helper
          apiVersion: credentialprovider.kubelet.k8s.io/v1
          matchImages: ["*.r.io"]
          defaultCacheDuration: 10m
          args: ["{}", get]
          env: [{{name: LOGIN, value: ann}}]
    "#,
        script.display()
    );
    let config = write(&dir, "providers.yaml", &config);
    let files = DockerFiles::usual(&dir.path().join("none"), None);
    let logins = DiskLogins::new(files, clock(), Arc::default()).with_providers(&config, &dir.path().join("bin"));
    Rig { logins: logins.expect("it is there"), dir }
}

impl Rig {
    fn asked(&self) -> usize {
        std::fs::read_to_string(self.dir.path().join("count")).unwrap_or_default().lines().count()
    }
}

const ANSWER: &str = r#"grep -q '"image":"[ab].r.io/' && [ "$1" = get ] && cat <<END
{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Registry",
 "auth":{"*.r.io":{"username":"$LOGIN","password":"p"}}}
END"#;

#[tokio::test]
async fn img_07_a_program_is_asked_and_its_answer_kept() {
    let rig = rig(ANSWER);
    assert_eq!(users(&rig.logins, "a.r.io/x").await, "ann");
    assert_eq!(users(&rig.logins, "a.r.io/y").await, "ann");
    assert_eq!(rig.asked(), 1, "the answer is for the registry");
    assert_eq!(origins(&rig.logins, "a.r.io/x").await, [LoginOrigin::Provider("helper".to_owned())]);
    assert_eq!(users(&rig.logins, "b.r.io/y").await, "ann");
    assert_eq!(rig.asked(), 2);
    assert_eq!(users(&rig.logins, "other.org/x").await, "");
    assert_eq!(rig.asked(), 2, "not for what it does not cover");
}

#[tokio::test]
async fn img_07_a_program_that_fails_is_done_without() {
    for script in ["echo no >&2; exit 3", "echo no answer", "exit 0"] {
        assert_eq!(users(&rig(script).logins, "a.r.io/x").await, "", "{script}");
    }
}

#[test]
fn img_07_a_bad_provider_configuration_is_an_error_at_the_start() {
    let dir = TempDir::new().expect("a directory");
    let open = |config: &Path| {
        let logins = DiskLogins::new(DockerFiles::usual(dir.path(), None), clock(), Arc::default());
        logins.with_providers(config, dir.path()).map(|_| ()).expect_err("refused").to_string()
    };
    assert!(open(&dir.path().join("none")).starts_with("read "));
    assert!(open(dir.path()).starts_with("no .json"));
    let bad = write(&dir, "a.yaml", "a: [");
    assert!(open(&bad).contains("neither YAML nor JSON"));
}
