//! An image.

use rubelet_engine::ports::Image;
use rubelet_proto::cri;

pub(crate) fn image(image: cri::Image) -> Image {
    Image {
        id: image.id,
        repo_tags: image.repo_tags,
        repo_digests: image.repo_digests,
        size: image.size,
        uid: image.uid.map(|uid| uid.value),
        username: image.username,
        pinned: image.pinned,
    }
}
