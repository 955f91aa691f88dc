use super::*;

const POLICY: ImageGcPolicy =
    ImageGcPolicy { high: 85, low: 80, min_age: Duration::from_secs(120), max_age: Duration::ZERO };

fn at(secs: u64) -> Instant {
    Instant::from_secs(secs)
}

fn image(id: &str, size: u64) -> ListedImage {
    ListedImage { id: id.into(), names: vec![format!("{id}:latest")], size, pinned: false }
}

fn used(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn ids(images: &[UnusedImage]) -> Vec<&str> {
    images.iter().map(|image| image.id.as_str()).collect()
}

#[test]
fn igc_01_the_image_whose_use_is_longest_ago_goes_first() {
    let mut records = ImageRecords::default();
    let all = ["a", "b", "c", "d"].map(|id| image(id, 10));
    records.look(&all, &used(&["a", "b"]), at(0));
    records.look(&all, &used(&["b"]), at(10));
    let more = ["a", "b", "c", "d", "e"].map(|id| image(id, 10));
    records.look(&more, &used(&[]), at(20));
    // Never used, by first sight and name; then by last use.
    assert_eq!(ids(&records.unused()), ["c", "d", "e", "a", "b"]);
    records.removed("c");
    records.look(&more[3..], &used(&[]), at(30));
    assert_eq!(ids(&records.unused()), ["d", "e"], "what the runtime lists no more is forgotten");
}

#[test]
fn igc_01_images_that_are_used_or_pinned_never_go() {
    let mut records = ImageRecords::default();
    let pinned = ListedImage { pinned: true, ..image("pause", 1) };
    let tagged = ListedImage { names: vec!["web@sha256:1".into(), "web:1".into()], ..image("w", 100) };
    let all = [pinned, tagged, image("x", 1000)];
    for name in ["w", "web:1", "web@sha256:1"] {
        records.look(&all, &used(&[name]), at(0));
        assert_eq!(ids(&records.unused()), ["x"], "{name}");
    }
    let summary = records.summary(&POLICY, at(1)).to_string();
    assert_eq!(
        summary, "Images that stay: 1 in use (100 B), 1 pinned (1 B), 1 too young (1000 B)",
        "what keeps the disk full is named"
    );
    records.look(&all, &used(&[]), at(10));
    assert_eq!(ids(&records.unused()), ["x", "w"]);
}

#[test]
fn igc_01_a_young_image_is_not_removed_for_room() {
    let mut records = ImageRecords::default();
    records.look(&[image("old", 1)], &used(&[]), at(0));
    records.look(&[image("old", 1), image("new", 1)], &used(&[]), at(1));
    assert_eq!(ids(&for_room(records.unused(), &POLICY, at(120))), ["old"]);
    assert_eq!(ids(&for_room(records.unused(), &POLICY, at(121))), ["old", "new"]);
}

#[test]
fn igc_01_how_much_is_freed() {
    let shortage = |capacity, available| ImageDisk { capacity, available }.shortage(&POLICY);
    assert_eq!(shortage(1000, 1000), None);
    assert_eq!(shortage(1000, 151), Some(Shortage { percent: 85, bytes: 49, target: 200 }), "as upstream rounds");
    assert_eq!(shortage(1000, 160), None);
    assert_eq!(shortage(1000, 0), Some(Shortage { percent: 100, bytes: 200, target: 200 }));
    assert_eq!(shortage(1000, 5000), None, "a file system that reports nonsense");
    assert_eq!(shortage(0, 0), None);
    assert_eq!(shortage(u64::MAX, u64::MAX / 10).map(|s| s.percent), Some(91));
    let always = ImageGcPolicy { high: 0, low: 0, ..POLICY };
    assert_eq!(ImageDisk { capacity: 10, available: 10 }.shortage(&always).map(|s| s.bytes), Some(0));
}

#[test]
fn igc_02_images_go_by_age_once_collection_has_run_for_as_long() {
    let policy = ImageGcPolicy { max_age: Duration::from_secs(100), ..POLICY };
    let mut records = ImageRecords::default();
    let all = ["never", "once"].map(|id| image(id, 1));
    records.look(&all, &used(&["once"]), at(0));
    records.look(&all, &used(&["once"]), at(50));
    records.look(&all, &used(&[]), at(60));
    let old = |policy: &ImageGcPolicy, now| {
        let old = too_old(&records.unused(), policy, at(0), at(now));
        old.into_iter().map(|image| image.id).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(old(&policy, 100), "");
    assert_eq!(old(&policy, 101), "never");
    assert_eq!(old(&policy, 150), "never");
    assert_eq!(old(&policy, 151), "never once");
    assert_eq!(old(&POLICY, 1_000_000), "", "without a maximum age none goes by age");
    assert!(too_old(&records.unused(), &policy, at(1000), at(1100)).is_empty());
}

#[test]
fn igc_03_two_settings_turn_it_off() {
    let with = |high, secs| ImageGcPolicy { high, max_age: Duration::from_secs(secs), ..POLICY };
    assert!(with(100, 0).is_off());
    assert!(!with(99, 0).is_off() && !with(100, 1).is_off());
    let usual = ImageGcPolicy::of(&KubeletConfiguration::default());
    assert_eq!(usual, POLICY);
}

// upstream: image_gc_manager.go GarbageCollect, formatSize (v1.36)
#[test]
fn igc_03_the_message_is_upstreams_and_names_what_stays() {
    let disk = ImageDisk { capacity: 100 << 30, available: 5 << 30 };
    let shortage = disk.shortage(&POLICY).unwrap();
    let message = insufficient(&disk, &shortage, 42, &ImageSummary::default());
    assert_eq!(
        message,
        "Insufficient free disk space on the node's image filesystem (95% of 100.0 GiB used). Failed to free sufficient \
         space by deleting unused images (freed 42 bytes). Investigate disk usage, as it could be used by active images, \
         logs, volumes, or other data. Images that stay: 0 in use (0 B), 0 pinned (0 B), 0 too young (0 B)"
    );
    for (bytes, text) in
        [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 << 10, "1.5 MiB"), (2048 << 40, "2048.0 TiB")]
    {
        assert_eq!(format_size(bytes), text);
    }
}

#[test]
fn igc_01_a_pod_may_mean_an_image_by_a_short_name_or_a_digest() {
    let names = ["docker.io/library/web:1", "docker.io/library/web@sha256:aa"].map(str::to_owned).to_vec();
    let image = UnusedImage { id: "sha256:bb".into(), names, size: 1, first_seen: at(0), last_used: None };
    for (name, expected) in [
        ("web:1", true),
        ("docker.io/web:1", true),
        ("docker.io/library/web:1", true),
        ("example.com/other/web:1", true),
        ("web@sha256:aa", true),
        ("web:2@sha256:aa", true),
        ("sha256:bb", true),
        ("web:2", false),
        ("web", false),
        ("web@sha256:cc", false),
        ("my-web:1", false),
    ] {
        assert_eq!(image.may_be(name), expected, "{name}");
    }
}
