//! Volume plugins.

use rubelet_core::id::PodRef;
use rubelet_engine::ports::{VolumePlugin, VolumeRequest};

/// Setting up a volume repeatedly yields one place, and tearing it down needs only its name.
pub async fn check_volume_plugin(plugin: &dyn VolumePlugin, request: &VolumeRequest) {
    let uid = PodRef::of(&request.pod).uid;
    let name = &request.volume.name;
    assert!(plugin.name().contains('/'), "a plugin's name has a domain");
    assert!(plugin.serves(&request.volume));
    plugin.tear_down(&uid, name).await.expect("tearing down a missing volume succeeds");
    let path = plugin.set_up(request).await.expect("the volume can be set up");
    assert_eq!(plugin.set_up(request).await.expect("and set up again"), path);
    for _ in 0..2 {
        plugin.tear_down(&uid, name).await.expect("the volume can be torn down, and torn down again");
    }
}
