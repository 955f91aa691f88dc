use std::collections::BTreeMap;
use std::sync::Mutex;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use rubelet_engine::ports::FileError;

use super::*;

/// A disk of one volume: remembers what was asked of it, and in what order.
#[derive(Default)]
struct FakeDirs {
    state: Mutex<VolumeState>,
    calls: Mutex<Vec<String>>,
}

impl FakeDirs {
    fn did(&self, what: String, change: impl FnOnce(&mut VolumeState)) {
        self.calls.lock().unwrap().push(what);
        change(&mut self.state.lock().unwrap());
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

#[async_trait]
impl VolumeDirs for FakeDirs {
    async fn look(&self, place: &VolumePlace) -> Result<VolumeState, FileError> {
        assert_eq!((place.uid.as_str(), place.plugin, &*place.volume), ("u1", NAME, "v"));
        let state = self.state.lock().unwrap().clone();
        Ok(VolumeState { path: "/v".into(), ..state })
    }
    async fn list(&self, _: &PodUid, _: &'static str) -> Result<Vec<String>, FileError> {
        let state = self.state.lock().unwrap();
        Ok(if state.exists || state.ready { vec!["v".into()] } else { Vec::new() })
    }
    async fn make(&self, _: &VolumePlace, mode: u32) -> Result<PathBuf, FileError> {
        self.did(format!("make {mode:o}"), |state| state.exists = true);
        Ok("/v".into())
    }
    async fn mount(&self, _: &VolumePlace, kind: &MemoryFs) -> Result<(), FileError> {
        self.did(format!("mount {kind:?}"), |state| {
            state.mounted = Some(match *kind {
                MemoryFs::Tmpfs { .. } => MountedFs::Tmpfs,
                MemoryFs::Hugetlbfs { page_size } => MountedFs::Hugetlbfs { page_size },
            });
        });
        Ok(())
    }
    async fn give_to_group(&self, _: &VolumePlace, group: u32) -> Result<(), FileError> {
        self.did(format!("group {group}"), |_| ());
        let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        Err(FileError { action: "change the group of", path: "/v".into(), source })
    }
    async fn mark_ready(&self, _: &VolumePlace) -> Result<(), FileError> {
        self.did("ready".to_owned(), |state| state.ready = true);
        Ok(())
    }
    async fn remove(&self, _: &VolumePlace) -> Result<(), FileError> {
        self.did("remove".to_owned(), |state| *state = VolumeState::default());
        Ok(())
    }
}

fn quantities(list: &[(&str, &str)]) -> Option<BTreeMap<String, Quantity>> {
    Some(list.iter().map(|(name, value)| ((*name).to_owned(), Quantity((*value).to_owned()))).collect())
}

/// A pod with one container that asks for this, with equal limits.
fn pod(resources: &[(&str, &str)]) -> Pod {
    let resources = ResourceRequirements {
        limits: quantities(resources),
        requests: quantities(resources),
        ..ResourceRequirements::default()
    };
    let container = Container { name: "c".into(), resources: Some(resources), ..Container::default() };
    let mut pod = Pod { spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }), ..Pod::default() };
    pod.metadata.uid = Some("u1".to_owned());
    pod
}

struct Case {
    dirs: Arc<FakeDirs>,
    plugin: EmptyDir,
    request: VolumeRequest,
}

fn case(medium: &str, limit: Option<&str>, pod: Pod) -> Case {
    let dirs = Arc::new(FakeDirs::default());
    let source = EmptyDirVolumeSource {
        medium: Some(medium.to_owned()),
        size_limit: limit.map(|limit| Quantity(limit.to_owned())),
    };
    let volume = Volume { name: "v".to_owned(), empty_dir: Some(source), ..Volume::default() };
    let request = VolumeRequest { pod: Arc::new(pod), volume, fs_group: None };
    Case { plugin: EmptyDir::new(Arc::<FakeDirs>::clone(&dirs), 1 << 30), dirs, request }
}

impl Case {
    async fn set_up(&self) -> Result<(), String> {
        let ready = self.plugin.set_up(&self.request).await.map_err(|err| err.to_string())?;
        assert_eq!(ready, ReadyVolume { path: "/v".into(), renew_at: None });
        Ok(())
    }
}

#[tokio::test]
async fn on_disk_it_is_a_directory_for_everyone_and_set_up_once() {
    let case = case("", Some("1Gi"), pod(&[]));
    assert!(case.plugin.serves(&case.request.volume));
    assert!(!case.plugin.serves(&Volume::default()));
    case.set_up().await.unwrap();
    assert_eq!(case.dirs.calls(), ["make 777", "ready"]);
    case.set_up().await.unwrap();
    assert!(case.dirs.calls().is_empty());
    case.dirs.state.lock().unwrap().exists = false;
    case.set_up().await.unwrap();
    assert_eq!(case.dirs.calls(), ["make 777", "ready"], "someone removed the directory");
    case.plugin.tear_down(&"u1".into(), "v").await.unwrap();
    assert_eq!(case.dirs.calls(), ["remove"]);
}

#[tokio::test]
async fn a_group_gets_it_and_trouble_with_that_does_not_stop_the_pod() {
    let mut case = case("", None, pod(&[]));
    case.request.fs_group = Some(2000);
    case.set_up().await.unwrap();
    assert_eq!(case.dirs.calls(), ["make 777", "group 2000", "ready"]);
    case.request.fs_group = Some(-1);
    assert_eq!(case.set_up().await, Err("fsGroup -1 is out of range".to_owned()));
}

#[tokio::test]
async fn in_memory_its_size_is_the_least_of_node_pod_and_volume() {
    for (memory, limit, size) in [
        (None, None, 1 << 30),
        (None, Some("64Mi"), 64 << 20),
        (None, Some("4Gi"), 1 << 30),
        (None, Some("0"), 1 << 30),
        (Some("128Mi"), None, 128 << 20),
        (Some("128Mi"), Some("64Mi"), 64 << 20),
        (Some("128Mi"), Some("256Mi"), 128 << 20),
        (Some("4Gi"), None, 1_u64 << 30),
    ] {
        let resources: Vec<_> = memory.iter().map(|memory| ("memory", *memory)).collect();
        let case = case("Memory", limit, pod(&resources));
        case.set_up().await.unwrap();
        let mount = format!("mount Tmpfs {{ size: Some({size}) }}");
        assert_eq!(case.dirs.calls(), ["make 777", &*mount, "ready"], "{memory:?} {limit:?}");
        case.set_up().await.unwrap();
        assert!(case.dirs.calls().is_empty());
    }
}

#[tokio::test]
async fn in_memory_a_mount_that_is_there_is_kept_and_one_lost_in_a_reboot_is_made_again() {
    let case = case("Memory", None, pod(&[]));
    case.set_up().await.unwrap();
    case.dirs.calls();
    case.dirs.state.lock().unwrap().ready = false;
    case.set_up().await.unwrap();
    assert_eq!(case.dirs.calls(), ["ready"], "we died before the marker was written");
    case.dirs.state.lock().unwrap().mounted = None;
    case.set_up().await.unwrap();
    assert_eq!(case.dirs.calls().len(), 3, "the marker survives a reboot, the mount does not");
}

#[tokio::test]
async fn huge_pages_have_the_size_that_the_pod_asks_for() {
    let two = [("hugepages-2Mi", "4Mi")];
    let both = [("hugepages-2Mi", "4Mi"), ("hugepages-1Gi", "1Gi")];
    let no_request = "hugePages storage requested, but there is no resource request for huge pages";
    for (medium, resources, expected) in [
        ("HugePages", two.as_slice(), Ok(2_u64 << 20)),
        ("HugePages-2Mi", &two, Ok(2 << 20)),
        ("HugePages-1Gi", &both, Ok(1 << 30)),
        (
            "HugePages",
            &both,
            Err("medium: HugePages can't be used if container requests multiple huge page sizes".into()),
        ),
        ("HugePages", &[("memory", "1Gi")], Err(format!("medium HugePages: {no_request}"))),
        ("HugePages-1Gi", &two, Err(format!("medium HugePages-1Gi: {no_request}"))),
        ("HugePages-", &two, Err("unknown storage medium \"HugePages-\"".into())),
        ("Tape", &two, Err("unknown storage medium \"Tape\"".into())),
    ] {
        let case = case(medium, None, pod(resources));
        let result = case.set_up().await;
        match expected {
            Ok(size) => {
                let mount = format!("mount Hugetlbfs {{ page_size: {size} }}");
                assert_eq!(case.dirs.calls(), ["make 777", &*mount, "ready"], "{medium}");
                case.set_up().await.unwrap();
                assert_eq!(case.dirs.calls(), ["ready"], "{medium}: mounted once");
            }
            Err(text) => assert_eq!(result, Err(text), "{medium}"),
        }
    }
}

#[tokio::test]
async fn huge_pages_of_another_size_in_its_place_are_an_error() {
    let case = case("HugePages-2Mi", None, pod(&[("hugepages-2Mi", "4Mi")]));
    case.dirs.state.lock().unwrap().mounted = Some(MountedFs::Hugetlbfs { page_size: 1 << 30 });
    let expected = "pod u1: mounted dir /v pagesize '1Gi' and requested medium size '2Mi' differ";
    assert_eq!(case.set_up().await, Err(expected.to_owned()));
}

#[tokio::test]
async fn the_contract_holds_for_every_medium() {
    for medium in ["", "Memory", "HugePages"] {
        let case = case(medium, None, pod(&[("hugepages-2Mi", "4Mi")]));
        rubelet_testkit::contract::check_volume_plugin(&case.plugin, &case.request).await;
    }
}
