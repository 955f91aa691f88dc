use super::*;
#[test]
fn zz_dump() {
    let Ok(path) = std::env::var("DUMP_IN") else { return };
    let raw: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let schema = Schema::load();
    let (shaped, _) = shape::shape(&schema, &raw);
    let mut pod = typed(shaped).unwrap();
    let derived = defaults::apply(&mut pod, &Gates::default());
    defaults::convert(&mut pod);
    let mut text = String::new();
    dump::dump(&schema, &untyped(&pod).unwrap(), &derived, &mut text).unwrap();
    println!("{text}");
}
