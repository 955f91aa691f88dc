use k8s_openapi::ByteString;
use rubelet_testkit::pod;
use serde_json::{Value, json};

use super::*;

fn lines(files: Result<Files, FilesError>) -> Result<Vec<String>, String> {
    let line = |(path, file): (String, PayloadFile)| {
        format!("{path} {:o} {}", file.mode, String::from_utf8_lossy(&file.data).escape_debug())
    };
    files.map(|files| files.into_iter().map(line).collect()).map_err(|err| err.to_string())
}

fn items(items: &Value) -> Option<Vec<KeyToPath>> {
    serde_json::from_value(items.clone()).unwrap()
}

#[test]
fn keys_of_objects_become_files_with_their_paths_and_modes() {
    let map = ConfigMap {
        data: Some([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into()),
        binary_data: Some([("z".to_owned(), ByteString(vec![0xff, 0x00]))].into()),
        ..ConfigMap::default()
    };
    let secret = Secret {
        data: Some([("a", "1"), ("b", "2")].map(|(key, value)| (key.to_owned(), ByteString(value.into()))).into()),
        ..Secret::default()
    };
    let (required, optional) = (Need::from(Some(false)), Need::from(Some(true)));
    let of_map = |list: &Value, need| lines(of_config_map(&map, items(list).as_deref(), 0o644, need));
    let of_secret = |list: &Value, need| lines(of_secret(&secret, items(list).as_deref(), 0o400, need));
    let ok = |lines: &[&str]| Ok(lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());

    let all = ["a 644 1", "b 644 2", "z 644 \u{fffd}\\0"];
    assert_eq!(of_map(&Value::Null, required), ok(&all));
    assert_eq!(of_map(&json!([]), Need::from(None)), ok(&all));
    let some = json!([{"key": "a", "path": "x/y", "mode": 256}, {"key": "z", "path": "z"}]);
    assert_eq!(of_map(&some, required), ok(&["x/y 400 1", "z 644 \u{fffd}\\0"]));
    let missing = json!([{"key": "a", "path": "a"}, {"key": "nope", "path": "n"}]);
    assert_eq!(of_map(&missing, required), Err("configmap references non-existent config key: nope".to_owned()));
    assert_eq!(of_map(&missing, optional), ok(&["a 644 1"]));

    assert_eq!(of_secret(&Value::Null, required), ok(&["a 400 1", "b 400 2"]));
    assert_eq!(of_secret(&missing, required), Err("references non-existent secret key: nope".to_owned()));
    assert_eq!(of_secret(&missing, optional), ok(&["a 400 1"]));
}

#[test]
fn fields_of_the_pod_become_files() {
    let web = pod("web").label("app", "web").label("tier", "1").annotation("note", "say \"hi\"");
    let web = web.container("app").limit("cpu", "1500m").request("memory", "32Mi").build();
    let allocatable: Amounts = [("memory".to_owned(), crate::resources::Amount::units(1 << 30))].into();
    let check = |list: Value| {
        let items: Vec<DownwardAPIVolumeFile> = serde_json::from_value(list).unwrap();
        lines(of_pod(&web, Some(&items), 0o644, &allocatable))
    };
    let field = |path: &str| json!({"path": "f", "fieldRef": {"fieldPath": path}});
    let resource = |name: &str, divisor: &str| json!({"path": "r", "resourceFieldRef": {"containerName": "app", "resource": name, "divisor": divisor}});
    for (item, expected) in [
        (field("metadata.name"), Ok("f 644 web")),
        (field("metadata.uid"), Ok("f 644 web-uid")),
        (field("metadata.namespace"), Ok("f 644 default")),
        (field("metadata.labels"), Ok("f 644 app=\\\"web\\\"\\ntier=\\\"1\\\"")),
        (field("metadata.annotations"), Ok("f 644 note=\\\"say \\\\\\\"hi\\\\\\\"\\\"")),
        (field("metadata.labels['tier']"), Ok("f 644 1")),
        (field("metadata.labels['none']"), Ok("f 644 ")),
        (field("status.podIP"), Err("unsupported fieldPath: status.podIP")),
        (resource("limits.cpu", "0"), Ok("r 644 2")),
        (resource("limits.cpu", "1m"), Ok("r 644 1500")),
        (resource("requests.memory", "1Mi"), Ok("r 644 32")),
        (resource("limits.memory", "1Mi"), Ok("r 644 1024")),
        (resource("limits.tape", "0"), Err("unsupported container resource : limits.tape")),
        (json!({"path": "m", "mode": 292, "fieldRef": {"fieldPath": "metadata.name"}}), Ok("m 444 web")),
    ] {
        let expected = expected.map(|line| vec![line.to_owned()]).map_err(str::to_owned);
        assert_eq!(check(json!([item])), expected, "{item}");
    }
    let both = json!([field("spec.nodeName"), field("status.hostIP")]);
    assert_eq!(check(both), Err("[unsupported fieldPath: spec.nodeName, unsupported fieldPath: status.hostIP]".into()));
}

#[test]
fn vol_20_paths_are_cleaned_and_must_stay_in_the_volume() {
    for (path, expected) in [
        ("a", Ok("a")),
        ("a/b/c", Ok("a/b/c")),
        ("./a//b/.", Ok("a/b")),
        ("a/..b", Ok("a/..b")),
        (".a", Ok(".a")),
        ("", Err("must not be empty: \"\"")),
        (".", Err("must not be empty: \".\"")),
        ("/a", Err("must be relative path: /a")),
        ("..", Err("must not contain '..': ..")),
        ("a/../b", Err("must not contain '..': a/../b")),
        ("..a", Err("must not start with '..': ..a")),
        ("./..data/b", Err("must not start with '..': ./..data/b")),
    ] {
        let expected = expected.map(str::to_owned).map_err(|why| format!("invalid path: {why}"));
        assert_eq!(clean(path).map_err(|err| err.to_string()), expected, "{path:?}");
    }
    assert!(clean(&"x".repeat(256)).is_err());
    assert!(clean(&"x".repeat(255)).is_ok());
    assert!(clean(&"x/".repeat(2049)).is_err());
}

#[test]
fn other_volumes_can_be_mounted_inside() {
    let nested = |mounts: &[(&str, &str)]| {
        let pod = mounts.iter().fold(pod("web").container("app"), |pod, (name, path)| pod.mount(name, path));
        mount_points(&pod.build(), "v").map_err(|err| err.to_string())
    };
    for (mounts, expected) in [
        (vec![("v", "/etc")], vec![]),
        (vec![("v", "/etc"), ("w", "/etc/ssl"), ("x", "/etcetera")], vec!["ssl"]),
        (
            vec![("v", "/dir/"), ("w", "/dir/nested"), ("x", "/dir/nested/double"), ("y", "/dir/nested2")],
            vec!["nested", "nested2"],
        ),
        (vec![("v", "/a"), ("v", "/b"), ("w", "/a/x/y"), ("x", "/b/../b/z")], vec!["x/y", "z"]),
        (vec![("w", "/etc/ssl")], vec![]),
    ] {
        assert_eq!(nested(&mounts), Ok(expected.into_iter().map(str::to_owned).collect()), "{mounts:?}");
    }
    assert_eq!(nested(&[("v", "../etc")]), Err("invalid container mount point ../etc".to_owned()));
}

#[test]
fn no_secret_is_ever_printed() {
    let text = format!("{:?}", file("hush", 0o400));
    assert_eq!(text, "PayloadFile { bytes: 4, mode: 0o400, owner: None, .. }");
}

/// A few bytes in the spec of a pod stand for as much as an object holds, each time.
#[test]
fn a_volume_that_shows_large_things_over_and_over_is_refused() {
    let large = "x".repeat(1024 * 1024);
    let map = ConfigMap { data: Some([("k".to_owned(), large.clone())].into()), ..ConfigMap::default() };
    let secret = Secret { data: Some([("k".to_owned(), ByteString(large.into()))].into()), ..Secret::default() };
    let item = |n: usize| KeyToPath { key: "k".to_owned(), path: n.to_string(), mode: None };
    let annotated = pod("web").annotation("a", &"x".repeat(256 * 1024)).build();
    let field = |n: usize| DownwardAPIVolumeFile {
        path: n.to_string(),
        field_ref: serde_json::from_value(json!({"fieldPath": "metadata.annotations"})).unwrap(),
        ..DownwardAPIVolumeFile::default()
    };
    let weigh = |files: Result<Files, FilesError>| files.map(|files| files.len()).map_err(|err| err.to_string());
    let too_much = || Err("the files of the volume hold more than 67108864 bytes together".to_owned());
    let of_map = |n| weigh(of_config_map(&map, Some(&(0..n).map(item).collect::<Vec<_>>()), 0o644, Need::Required));
    let of_secret = |n| weigh(of_secret(&secret, Some(&(0..n).map(item).collect::<Vec<_>>()), 0o644, Need::Required));
    let of_fields = |n| weigh(of_pod(&annotated, Some(&(0..n).map(field).collect::<Vec<_>>()), 0o644, &Amounts::new()));
    assert_eq!([of_map(64), of_map(65), of_map(8000)], [Ok(64), too_much(), too_much()]);
    assert_eq!([of_secret(64), of_secret(65)], [Ok(64), too_much()]);
    assert_eq!([of_fields(200), of_fields(8000)], [Ok(200), too_much()]);
}

#[test]
fn files_get_the_mode_and_the_path_that_the_writer_can_use() {
    for (given, mode) in [(None, 0o644), (Some(0o400), 0o400), (Some(0), 0), (Some(-1), 0)] {
        assert_eq!(default_mode(given), mode, "{given:?}");
    }
    let check = |path: &str| {
        let files = Files::from([(path.to_owned(), file("x", 0o644))]);
        checked(files).map(|files| files.into_keys().collect::<Vec<_>>().join(" ")).map_err(|err| err.to_string())
    };
    assert_eq!(check("a//./b"), Ok("a/b".to_owned()));
    assert_eq!(check("a..b"), Ok("a..b".to_owned()));
    let long = |len: usize| format!("{}{}", "a/".repeat((len - 1) / 2), "a".repeat(len - (len - 1) / 2 * 2));
    assert!(check(&long(PATH_MAX)).is_ok() && check(&long(PATH_MAX + 1)).is_err());
    assert!(check(&"a".repeat(NAME_MAX)).is_ok() && check(&"a".repeat(NAME_MAX + 1)).is_err());
    for path in ["/a", "", ".", "a/../b", "..a", "a\0b"] {
        assert!(check(path).is_err(), "{path:?}");
    }
}
