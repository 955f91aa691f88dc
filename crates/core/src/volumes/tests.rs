use serde_json::json;

use super::*;
use crate::resources::tests::pod;

// VOL-04
#[test]
fn vol_04_only_volumes_that_a_container_uses_are_set_up() {
    let named = |name: &str| json!({"name": name, "emptyDir": {}});
    let volumes = ["spare", "regular", "device", "init", "debug"].map(named);
    let pod = pod(json!({
        "volumes": volumes,
        "containers": [{
            "name": "app",
            "volumeMounts": [{"name": "regular", "mountPath": "/r"}, {"name": "absent", "mountPath": "/a"}],
            "volumeDevices": [{"name": "device", "devicePath": "/dev/x"}],
        }],
        "initContainers": [{"name": "init", "volumeMounts": [{"name": "init", "mountPath": "/i"}]}],
        "ephemeralContainers": [{"name": "debug", "volumeMounts": [{"name": "debug", "mountPath": "/d"}]}],
    }));
    let names: Vec<&str> = used(&pod).into_iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["regular", "device", "init", "debug"]);
    assert_eq!(used(&Pod::default()), Vec::<&Volume>::new());
}

#[test]
fn a_volume_is_called_by_its_source() {
    for (volume, name) in [
        (json!({"name": "v", "configMap": {"name": "c"}}), "configMap"),
        (json!({"name": "v", "hostPath": {"path": "/"}}), "hostPath"),
        (json!({"name": "v"}), "emptyDir"),
    ] {
        assert_eq!(kind(&serde_json::from_value(volume).expect("a volume")), name);
    }
}
