//! `ImageFsInfo`.

use rubelet_engine::ports::{FsUsage, ImageFileSystems, RpcError};
use rubelet_proto::cri;

use crate::connection::Connection;
use crate::metrics::Operation;

pub(crate) async fn image_fs_info(connection: &Connection) -> Result<ImageFileSystems, RpcError> {
    let mut client = connection.images(Operation::ImageFsInfo);
    let answer = connection
        .call(Operation::ImageFsInfo, Some(connection.timeout()), cri::ImageFsInfoRequest {}, |request| async move {
            client.image_fs_info(request).await
        })
        .await?;
    let all = |usages: Vec<cri::FilesystemUsage>| usages.into_iter().map(fs_usage).collect();
    Ok(ImageFileSystems { images: all(answer.image_filesystems), layers: all(answer.container_filesystems) })
}

fn fs_usage(usage: cri::FilesystemUsage) -> FsUsage {
    let number = |value: Option<cri::UInt64Value>| value.map(|value| value.value).unwrap_or_default();
    FsUsage {
        mountpoint: usage.fs_id.map(|id| id.mountpoint).unwrap_or_default(),
        used_bytes: number(usage.used_bytes),
        inodes_used: number(usage.inodes_used),
    }
}
