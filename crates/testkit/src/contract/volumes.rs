//! Volume plugins.

use rubelet_core::id::PodRef;
use rubelet_engine::ports::{VolumePlugin, VolumeRequest};

/// A volume is set up at one place however often it is asked for, and undone with nothing but its name.
pub async fn check_volume_plugin(plugin: &dyn VolumePlugin, request: &VolumeRequest) {
    let uid = PodRef::of(&request.pod).uid;
    let name = &request.volume.name;
    assert!(plugin.name().contains('/'), "a plugin's name has a domain");
    assert!(plugin.serves(&request.volume));
    plugin.tear_down(&uid, name).await.expect("undoing what never was succeeds");
    let path = plugin.set_up(request).await.expect("the volume can be set up");
    assert_eq!(plugin.set_up(request).await.expect("and set up again"), path);
    for _ in 0..2 {
        plugin.tear_down(&uid, name).await.expect("the volume can be undone, and undone again");
    }
}
