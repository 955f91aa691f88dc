//! Laws of static pods that hold for any manifest, however broken.

use std::path::PathBuf;

use proptest::prelude::*;
use rubelet_core::manifest::quantity::Quantity;
use rubelet_core::manifest::{Gates, Origin, static_pod};
use serde_json::{Value, json};

fn manifests() -> Vec<Value> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/static_uid");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the golden folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("readable");
        let vector: Value = serde_json::from_str(&text).expect("JSON");
        vector.get("manifest").expect("each vector has its manifest").clone()
    };
    files.iter().map(read).collect()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        "[+-]?[0-9]{0,25}[.]?[0-9]{0,12}[numkKMGTPEie]{0,2}[+-]?[0-9]{0,4}".prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "..",
            "/",
            "a/../b",
            "Always",
            "localhost/",
            "metadata.labels['a']",
            "iqn.2001-04.a:b"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z./]{0,6}", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// All values in the tree, by the number of steps of a walk.
fn replace_nth(tree: &mut Value, nth: &mut usize, with: &Value) {
    if *nth == 0 {
        *tree = with.clone();
        *nth = usize::MAX;
        return;
    }
    *nth -= 1;
    match tree {
        Value::Array(items) => items.iter_mut().for_each(|item| replace_nth(item, nth, with)),
        Value::Object(object) => object.values_mut().for_each(|value| replace_nth(value, nth, with)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn count(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(object) => object.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_manifest_panics_and_each_is_judged_the_same_twice(
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_json()), 0..4),
    ) {
        let manifests = manifests();
        let mut manifest = pick.get(&manifests).clone();
        for (place, value) in &changes {
            let mut nth = place.index(count(&manifest));
            replace_nth(&mut manifest, &mut nth, value);
        }
        let origin = Origin::File("/m/pod.yaml".to_owned());
        let first = static_pod(&manifest, &origin, "node", &Gates::default());
        prop_assert_eq!(&first, &static_pod(&manifest, &origin, "node", &Gates::default()));
        if let Ok(built) = first {
            let meta = &built.pod.metadata;
            prop_assert!(meta.name.as_ref().is_some_and(|name| name.ends_with("-node")));
            prop_assert!(meta.uid.as_ref().is_some_and(|uid| !uid.is_empty()));
            prop_assert_eq!(meta.annotations.as_ref().and_then(|all| all.get("kubernetes.io/config.hash")), meta.uid.as_ref());
        }
    }

    /// Up to 32 digits: printing may add two zeros, and what has more than 36 digits is refused.
    #[test]
    fn a_quantity_keeps_its_number_through_its_text(text in "[+-]?[0-9]{0,20}[.]?[0-9]{0,12}([numkMGTPE]|[KMGTPE]i|e-?[0-9]{1,2})?") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let again: Quantity = quantity.to_string().parse().expect("what we print we read");
            prop_assert!(again.cmp_value(&quantity).is_eq(), "{} {}", text, quantity);
        }
    }
}
