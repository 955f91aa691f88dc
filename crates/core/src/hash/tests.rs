use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;

fn container(name: &str, image: &str) -> Container {
    Container { name: name.into(), image: Some(image.into()), ..Container::default() }
}

// The published test vectors of FNV-1a.
#[test]
fn fnv_vectors() {
    for (text, wide, narrow) in [
        ("", 0xcbf2_9ce4_8422_2325_u64, 0x811c_9dc5_u32),
        ("a", 0xaf63_dc4c_8601_ec8c, 0xe40c_292c),
        ("foobar", 0x8594_4171_f739_67e8, 0xbf9c_f968),
    ] {
        assert_eq!((fnv64a(text.bytes()), fnv32a(text.bytes())), (wide, narrow), "{text:?}");
    }
}

// RT-71; upstream: container/container_hash_test.go TestConsistentHashContainer, helpers_test.go TestHashContainer (v1.36)
#[test]
fn container_hash_is_upstreams() {
    for (name, image, hash) in [("test_container", "foo/image:v1", "8e45cbd0"), ("foo", "bar", "11a6d6d6")] {
        assert_eq!(format!("{:x}", container_hash(&container(name, image))), hash);
    }
}

// RT-71: nothing but image and name counts.
#[test]
fn container_hash_sees_image_and_name_only() {
    let plain = container("a", "i:1");
    let dressed = Container { command: Some(vec!["sh".into()]), working_dir: Some("/".into()), ..plain.clone() };
    assert_eq!(container_hash(&plain), container_hash(&dressed));
    assert_ne!(container_hash(&plain), container_hash(&container("a", "i:2")));
    assert_ne!(container_hash(&plain), container_hash(&container("b", "i:1")));
}

#[test]
fn json_is_escaped_as_go_does() {
    assert_eq!(go_json("a<b>&\"c\n\u{2028}é"), "\"a\\u003cb\\u003e\\u0026\\\"c\\n\\u2028é\"");
}

// RT-60: an image or resource change resets the back-off; the same container of another pod has its own.
#[test]
fn backoff_key_changes_with_image_and_resources() {
    let pod = |uid: &str| PodRef { namespace: "ns".into(), name: "web".into(), uid: uid.into() };
    let limit = |cpu: &str| ResourceRequirements {
        limits: Some(BTreeMap::from([("cpu".to_owned(), Quantity(cpu.to_owned()))])),
        ..ResourceRequirements::default()
    };
    let keys = [
        backoff_key(&pod("1"), "c", "i:1", None),
        backoff_key(&pod("2"), "c", "i:1", None),
        backoff_key(&pod("1"), "c", "i:2", None),
        backoff_key(&pod("1"), "d", "i:1", None),
        backoff_key(&pod("1"), "c", "i:1", Some(&limit("1"))),
        backoff_key(&pod("1"), "c", "i:1", Some(&limit("2"))),
    ];
    let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());
    assert_eq!(backoff_key(&pod("1"), "c", "i:1", None), keys[0]);
}

#[test]
fn an_ephemeral_container_hashes_as_a_container_of_the_same_name_and_image() {
    for image in [Some("i:1"), None] {
        let image = image.map(str::to_owned);
        let debug = EphemeralContainer { name: "debug".into(), image: image.clone(), ..EphemeralContainer::default() };
        let plain = Container { name: "debug".into(), image, ..Container::default() };
        assert_eq!(container_hash(&debug), container_hash(&plain));
    }
}
