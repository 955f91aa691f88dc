//! What the runtime measures: writable layers, and where images and layers are.

use rubelet_core::usage::LayerUsage;
use rubelet_engine::ports::{FsUsage, Images, RuntimeStats};
use rubelet_proto::cri;
use tonic::Status;

use crate::fake::Setup;

fn number(value: u64) -> Option<cri::UInt64Value> {
    Some(cri::UInt64Value { value })
}

fn layer(at: i64, bytes: u64, inodes: Option<u64>) -> cri::FilesystemUsage {
    cri::FilesystemUsage {
        timestamp: at,
        fs_id: Some(cri::FilesystemIdentifier { mountpoint: "/var/lib/containerd".to_owned() }),
        used_bytes: number(bytes),
        inodes_used: inodes.map(|value| cri::UInt64Value { value }),
    }
}

fn stats(id: &str, layer: Option<cri::FilesystemUsage>) -> cri::ContainerStats {
    let attributes = Some(cri::ContainerAttributes { id: id.to_owned(), ..Default::default() });
    cri::ContainerStats { attributes, writable_layer: layer, ..Default::default() }
}

#[tokio::test]
async fn sts_02_the_runtime_reports_writable_layers() {
    let setup = Setup::up();
    setup.change(|world| {
        world.stats = vec![
            stats("a", Some(layer(1_000_000_000, 4096, Some(3)))),
            stats("b", Some(layer(0, 8192, None))),
            stats("new", None),
            cri::ContainerStats::default(),
        ];
    });
    let layers = setup.stats.layers().await.expect("layers");
    assert_eq!(layers.len(), 2, "a container that was not measured yet has none: {layers:?}");
    let at = jiff::Timestamp::from_second(1).expect("a time");
    assert_eq!(layers[&"a".into()], LayerUsage { at: Some(at), bytes: Some(4096), inodes: Some(3) });
    assert_eq!(layers[&"b".into()], LayerUsage { at: None, bytes: Some(8192), inodes: None });
    setup.change(|world| world.failing.extend([("list_container_stats", Status::internal("no"))]));
    assert!(setup.stats.layers().await.is_err());
}

#[tokio::test]
async fn sts_02_images_and_writable_layers_may_be_on_file_systems_of_their_own() {
    let setup = Setup::up();
    let other = cri::FilesystemUsage {
        fs_id: Some(cri::FilesystemIdentifier { mountpoint: "/layers".to_owned() }),
        ..layer(1, 7, Some(1))
    };
    setup.change(|world| {
        world.image_fs = cri::ImageFsInfoResponse {
            image_filesystems: vec![layer(1, 5, Some(2))],
            container_filesystems: vec![other],
        };
    });
    let found = setup.images.file_systems().await.expect("file systems");
    let at = |mountpoint: &str, used_bytes, inodes_used| FsUsage {
        mountpoint: mountpoint.to_owned(),
        used_bytes,
        inodes_used,
    };
    assert_eq!((found.images, found.layers), (vec![at("/var/lib/containerd", 5, 2)], vec![at("/layers", 7, 1)]));
    assert_eq!(setup.images.image_fs_info().await.expect("images").len(), 1);
}
