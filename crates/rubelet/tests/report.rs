//! What `make bench` says of its raw data. Every number in here is invented.

#[path = "../benches/report/bars.rs"]
mod bars;
#[path = "../benches/report/data.rs"]
mod data;
#[path = "../benches/report/guard.rs"]
mod guard;
#[path = "../benches/report/page.rs"]
mod page;
#[path = "../benches/report/plot.rs"]
mod plot;
#[path = "../benches/report/text.rs"]
mod text;

use std::fs;

use data::{Data, percentile, ratio};
use expect_test::{Expect, expect};
use serde_json::json;

fn line(agent: &str, figure: &str, case: &str, unit: &str, values: &[f64]) -> String {
    let line = json!({"agent": agent, "round": 1, "figure": figure, "case": case, "unit": unit, "values": values});
    format!("{line}\n")
}

/// A run in which most things were measured.
fn lines() -> String {
    let hundred = |first: f64, step: f64| (0..100).map(|n| first + step * f64::from(n)).collect::<Vec<f64>>();
    let both = |figure: &str, case: &str, unit: &str, rubelet: &[f64], upstream: &[f64]| {
        line("rubelet", figure, case, unit, rubelet) + &line("upstream", figure, case, unit, upstream)
    };
    [
        both("rss", "0", "MiB", &[9.0, 9.2], &[90.0]),
        both("rss", "30", "MiB", &[11.0], &[103.0]),
        both("rss", "100", "MiB", &[25.0], &[125.0]),
        both("rss", "100-exec", "MiB", &[16.0], &[131.0]),
        both("cpu", "100", "%", &[0.03], &[6.9]),
        both("create-ready", "1", "ms", &[245.0, 251.0, 290.0], &[300.0, 310.0, 340.0]),
        line("cri", "create-ready", "1", "ms", &[230.0]),
        both("create-ready", "100", "ms", &hundred(300.0, 180.0), &hundred(17_000.0, 50.0)),
        line("cri", "create-ready", "100", "ms", &hundred(250.0, 170.0)),
        both("create-ready-all", "100", "ms", &[18_200.0, 18_400.0, 18_300.0], &[22_100.0]),
        both("delete-gone", "1-grace1", "ms", &[95.0], &[1_130.0]),
        both("delete-gone", "100-grace30", "ms", &hundred(90.0, 60.0), &hundred(1_000.0, 200.0)),
        both("exit-status", "1", "ms", &[21.0], &[]),
        both("restart-writes", "100", "count", &[0.0, 0.0], &[59.0, 14.0]),
        both("restart-flips", "100", "count", &[0.0, 2.0], &[0.0, 0.0]),
        line("fake", "growth-cpu", "100", "ms", &[0.087]),
        line("fake", "growth-cpu", "2500", "ms", &[0.091]),
        both("binary", "-", "MiB", &[6.9], &[52.4]),
        both("something-new", "7", "s", &[1.0], &[2.0]),
    ]
    .concat()
}

fn data(lines: &str) -> Data {
    let mut data = Data::default();
    data.take(lines).expect("lines as they are written");
    data.meta = serde_json::from_value(json!({
        "command": "make bench", "date": "2026-02-03", "machine": "2 cores, Linux 6.18", "containerd": "2.1.9",
        "runc": "1.1.5", "kubernetes": "v1.36.4", "rubelet": "abc1234", "rounds": 3,
        "notes": ["round 2 of upstream was thrown away: a pod did not become ready"],
    }))
    .expect("meta");
    data
}

fn check(actual: &str, expected: &Expect) {
    expected.assert_eq(actual);
}

#[test]
fn a_percentile_is_a_value_that_was_measured() {
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    for (values, percent, expected) in [
        (&hundred[..], 50, Some(50.0)),
        (&hundred, 90, Some(90.0)),
        (&hundred, 99, Some(99.0)),
        (&hundred, 100, Some(100.0)),
        (&[7.0], 50, Some(7.0)),
        (&[7.0], 99, Some(7.0)),
        (&[1.0, 2.0, 3.0], 50, Some(2.0)),
        (&[1.0, 2.0], 0, Some(1.0)),
        (&[], 50, None),
    ] {
        assert_eq!(percentile(values, percent), expected, "{percent} of {} values", values.len());
    }
}

#[test]
fn there_is_no_ratio_to_nothing() {
    assert_eq!(ratio(Some(1.0), Some(4.0)), Some(0.25));
    assert_eq!(ratio(Some(0.0), Some(4.0)), Some(0.0));
    assert_eq!(ratio(Some(1.0), Some(0.0)), None);
    assert_eq!(ratio(Some(1.0), None), None);
    assert_eq!(ratio(None, Some(1.0)), None);
}

#[test]
fn rounds_are_pooled() {
    let mut data = Data::default();
    data.take(&line("rubelet", "rss", "0", "MiB", &[3.0, 1.0])).expect("one file");
    data.take(&line("rubelet", "rss", "0", "MiB", &[2.0])).expect("another");
    assert_eq!(data.values("rubelet", "rss", "0"), [1.0, 2.0, 3.0]);
    assert_eq!(data.values("upstream", "rss", "0"), [0.0; 0]);
    let wrong = data.take(&line("rubelet", "rss", "30", "KiB", &[2.0])).expect_err("two units cannot be pooled");
    assert_eq!(wrong.to_string(), "line 1: rss is in MiB, and here in KiB");
    let broken = data.take("\n{").expect_err("not a line");
    assert_eq!(broken.to_string(), "line 2");
}

#[test]
fn a_bar_is_met_missed_or_not_known() {
    check(
        &text::bars_table(&data(&lines())),
        &expect![[r#"
            | figure | bar | rubelet | upstream | floor | ratio |  |
            |---|---|---:|---:|---:|---:|---:|
            | RSS, no pods | ≤ 1/6 | 9.0 MiB | 90.0 MiB | – | 0.10 | met |
            | RSS, 30 pods | ≤ 1/6 | 11.0 MiB | 103.0 MiB | – | 0.11 | met |
            | RSS, 100 pods | ≤ 1/6 | 25.0 MiB | 125.0 MiB | – | 0.20 | **missed** |
            | idle CPU, 100 pods | ≤ 1/10 | 0.03 % | 6.90 % | – | 0.004 | met |
            | CPU, 100 pods, pages scraped every 15 s | ≤ 1/10 | – | – | – | – | – |
            | create → Ready, 1 pod, p50 | ≤ floor + 25 ms, ≤ upstream | 251 ms | 310 ms | 230 ms | 0.81 | met |
            | create → Ready, 100 at once, p50 | ≤ 0.6 | 9.12 s | 19.4 s | 8.58 s | 0.47 | met |
            | create → Ready, 100 at once, all | ≤ 0.95 | 18.3 s | 22.1 s | – | 0.83 | met |
            | delete → gone, 1 pod, grace 1 s, p50 | ≤ 0.4 | 95 ms | 1.13 s | – | 0.084 | met |
            | delete → gone, 1 pod, grace 30 s, p50 | ≤ 0.4 | – | – | – | – | – |
            | exit → status at the watch, p50 | ≤ 50 ms, ≤ 1/5 | 21 ms | – | – | – | – |
            | restart with 100 pods: status writes, worst round | 0 | 0 | 59 | – | 0 | met |
            | restart with 100 pods: readiness flips, worst round | 0 | 2 | 0 | – | – | **missed** |
            | restart with 100 pods: containers restarted, worst round | 0 | – | – | – | – | – |
            | restart with 100 pods: all synced, worst round | ≤ 1 s | – | – | – | – | – |
            | CPU per pod, 2,500 fake pods against 100, caches cold | ≤ 1.1 | – | – | – | – | – |
            | CPU per pod, 2,500 fake pods against 100, caches warm | ≤ 1.1 | 0.091 ms | – | – | 1.05 | met |
            | memory per pod, 2,500 fake pods against 100 | ≤ 1.1 | – | – | – | – | – |
        "#]],
    );
}

#[test]
fn what_was_not_measured_is_a_dash() {
    check(
        &text::times_table(&data(&lines())),
        &expect![[r#"
        | figure | pods | rubelet p50 | rubelet p90 | rubelet p99 | rubelet all | upstream p50 | upstream p90 | upstream p99 | upstream all | floor p50 | ratio p50 | ratio all |
        |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
        | create → Ready | 1 | 251 ms | 290 ms | 290 ms | – | 310 ms | 340 ms | 340 ms | – | 230 ms | 0.81 | – |
        | create → Ready | 100 | 9.12 s | 16.3 s | 17.9 s | 18.3 s | 19.4 s | 21.4 s | 21.9 s | 22.1 s | 8.58 s | 0.47 | 0.83 |
        | delete → gone | 1, grace 1 s | 95 ms | 95 ms | 95 ms | – | 1.13 s | 1.13 s | 1.13 s | – | – | 0.084 | – |
        | delete → gone | 100, grace 30 s | 3.03 s | 5.43 s | 5.97 s | – | 10.8 s | 18.8 s | 20.6 s | – | – | 0.28 | – |
        | exit → status at the watch | 1 | 21 ms | 21 ms | 21 ms | – | – | – | – | – | – | – | – |
    "#]],
    );
    check(
        &text::costs_table(&data(&lines())),
        &expect![[r#"
        | figure | pods | rubelet | upstream | ratio |
        |---|---|---:|---:|---:|
        | restart: status writes | 100 | 0 | 14 | 0 |
        | restart: readiness flips | 100 | 0 | 0 | – |
        | RSS | 0 | 9.0 MiB | 90.0 MiB | 0.10 |
        | RSS | 30 | 11.0 MiB | 103.0 MiB | 0.11 |
        | RSS | 100 | 25.0 MiB | 125.0 MiB | 0.20 |
        | RSS | 100, exec probes | 16.0 MiB | 131.0 MiB | 0.12 |
        | CPU, of a core | 100 | 0.03 % | 6.90 % | 0.004 |
        | stripped binary |  | 6.9 MiB | 52.4 MiB | 0.13 |
        | CPU per pod per full resync, caches warm, fakes | 100 | 0.087 ms | – | – |
        | CPU per pod per full resync, caches warm, fakes | 2500 | 0.091 ms | – | – |
        | something-new | 7 | 1.00 s | 2.00 s | 0.50 |
    "#]],
    );
}

#[test]
fn a_figure_says_whence_it_comes() {
    check(
        &text::origin(&data(&lines())),
        &expect![[r#"
        `make bench`, 2026-02-03; 3 rounds each, in turn. rubelet abc1234, upstream's kubelet v1.36.4, containerd 2.1.9, runc 1.1.5. The machine: 2 cores, Linux 6.18.

        - round 2 of upstream was thrown away: a pod did not become ready
    "#]],
    );
}

#[test]
fn the_page_keeps_what_others_wrote() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/performance.md")).expect("the page");
    let first = page::replaced(&page, "@one@\n").expect("the page has its marks");
    let second = page::replaced(&first, "@two@").expect("they are still there");
    assert_eq!(second, first.replace("@one@", "@two@"));
    let (begin, end) = (second.find("begin").expect("a mark"), second.rfind("end -->").expect("a mark"));
    assert_eq!((&page[..begin], page.rsplit("end -->").next()), (&second[..begin], Some(&second[end + 7..])));
    page::replaced("no marks", "text").expect_err("nowhere to write it");
}

#[test]
fn page_plots_and_raw_data_are_written_side_by_side() {
    let dir = tempfile::tempdir().expect("a directory");
    let (raw, page) = (dir.path().join("out/raw"), dir.path().join("speed.md"));
    fs::create_dir_all(&raw).expect("made");
    fs::write(raw.join("1-all.jsonl"), lines()).expect("written");
    fs::write(raw.join("meta.json"), r#"{"command":"make bench","rounds":1}"#).expect("written");
    let empty = page::replaced(
        "# Speed\n<!-- what make bench measured: begin; written by benches/report -->\n<!-- what make bench measured: end -->\nend\n",
        "",
    );
    fs::write(&page, empty.expect("marks")).expect("written");
    fs::create_dir_all(dir.path().join("speed/raw")).expect("made");
    fs::write(dir.path().join("speed/raw/old.jsonl"), "").expect("written");
    let data = Data::read(&raw).expect("it is all there");
    let report = page::write(&data, &raw, &page).expect("written");
    assert!(fs::read_to_string(&page).expect("read").contains(report.trim()));
    let mut files: Vec<String> = ["speed", "speed/raw"]
        .iter()
        .flat_map(|place| fs::read_dir(dir.path().join(place)).expect("listed"))
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    files.sort();
    let expected = [
        "1-all.jsonl",
        "cpu.svg",
        "create-ready.svg",
        "delete-gone.svg",
        "growth.svg",
        "memory.svg",
        "meta.json",
        "raw",
    ];
    assert_eq!(files, expected);
    for target in report.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(dir.path().join(target).exists(), "{target} leads nowhere");
    }
}

/// Every element is closed, every attribute quoted once, nothing unescaped between them.
fn check_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some((text, after)) = rest.split_once('<') {
        assert!(
            !text.contains('>') && !text.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "").contains('&')
        );
        let (tag, after) = after.split_once('>').expect("a tag ends");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed in order");
            continue;
        }
        let inner = tag.trim_end_matches('/');
        let (name, mut attributes) = inner.split_once(' ').unwrap_or((inner, ""));
        let mut seen: Vec<&str> = Vec::new();
        while !attributes.trim().is_empty() {
            let (key, after) = attributes.split_once("=\"").expect("an attribute has a value");
            let (value, after) = after.split_once('"').expect("which ends");
            assert!(!seen.contains(&key.trim()) && !value.contains("NaN") && !value.contains("inf"), "{tag}");
            seen.push(key.trim());
            attributes = after;
        }
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest:?}");
}

#[test]
fn plots_are_well_formed_small_and_within_their_frame() {
    let plots = plot::plots(&data(&lines()));
    let names: Vec<&str> = plots.iter().map(|plot| plot.name).collect();
    assert_eq!(names, ["create-ready", "delete-gone", "memory", "cpu", "growth"]);
    for plot in &plots {
        check_well_formed(&plot.svg);
        assert!(plot.svg.len() < 12_000, "{} has {} bytes", plot.name, plot.svg.len());
        assert!(plot.svg.contains("prefers-color-scheme:dark"));
        for word in plot.svg.split([' ', '"', 'M', 'L', 'H', 'V']) {
            let within = word.parse().is_ok_and(|number: f64| !(-90.0..=640.0).contains(&number));
            assert!(!within, "{}: {word} is outside of the picture", plot.name);
        }
    }
    assert!(plot::plots(&Data::default()).is_empty());
}

#[test]
fn ticks_are_round_and_few() {
    for (end, expected) in [
        (100.0, "0 20 40 60 80 100"),
        (22.1, "0 5 10 15 20"),
        (1.21, "0 0.5 1"),
        (137.5, "0 50 100"),
        (2500.0, "0 500 1000 1500 2000 2500"),
        (0.033, "0 0.01 0.02 0.03"),
    ] {
        let ticks: Vec<String> =
            plot::ticks(end).iter().map(|tick| (tick * 1e6).round() / 1e6).map(|tick| tick.to_string()).collect();
        assert_eq!(ticks.join(" "), expected, "{end}");
    }
}

#[test]
fn the_guard_lets_noise_pass_and_holds_what_fell_back() {
    let reached = guard::ratios(&data(&lines()));
    let text = guard::record(&reached);
    check(
        &text,
        &expect![[r#"
        # Ratios to upstream that were reached; written by benches/report --record, read by --guard.
        # figure	case	ratio
        binary	-	0.1317
        cpu	100	0.0043
        create-ready	1	0.8097
        create-ready	100	0.4689
        create-ready-all	100	0.8281
        delete-gone	1-grace1	0.0841
        delete-gone	100-grace30	0.2806
        growth-cpu	2500	1.0460
        rss	0	0.1000
        rss	30	0.1068
        rss	100	0.2000
        rss	100-exec	0.1221
        something-new	7	0.5000
    "#]],
    );
    let reached = guard::parse(&text).expect("it reads what it wrote");

    let same = guard::compare(&data(&lines()), &reached);
    assert_eq!(same.worse, ["restart-flips (100): 2, and must be 0"]);

    let both = |figure: &str, case: &str, unit: &str, rubelet: f64, upstream: f64| {
        line("rubelet", figure, case, unit, &[rubelet]) + &line("upstream", figure, case, unit, &[upstream])
    };
    let later = [
        both("rss", "0", "MiB", 12.0, 90.0),
        both("cpu", "100", "%", 0.1, 6.0),
        both("create-ready", "1", "ms", 300.0, 310.0),
        both("delete-gone", "1-grace1", "ms", 109.0, 1_130.0),
        both("delete-gone", "100-grace30", "ms", 6_000.0, 11_000.0),
        both("restart-writes", "100", "count", 0.0, 0.0),
        line("fake", "growth-cpu", "100", "ms", &[0.08]),
        line("fake", "growth-cpu", "2500", "ms", &[0.8]),
    ]
    .concat();
    let verdict = guard::compare(&data(&later), &reached);
    check(
        &verdict.table,
        &expect![[r#"
        | figure | case | reached before | now | change | |
        |---|---|---:|---:|---:|---|
        | binary | - | 0.13 | – | – | not measured |
        | cpu | 100 | 0.004 | 0.017 | +288 % | kept: too small a difference to be seen |
        | create-ready | 1 | 0.81 | 0.97 | +20 % | kept |
        | create-ready | 100 | 0.47 | – | – | not measured |
        | create-ready-all | 100 | 0.83 | – | – | not measured |
        | delete-gone | 1-grace1 | 0.084 | 0.096 | +15 % | kept |
        | delete-gone | 100-grace30 | 0.28 | 0.55 | +94 % | **worse** |
        | growth-cpu | 2500 | 1.05 | 10.00 | +856 % | **worse** |
        | rss | 0 | 0.10 | 0.13 | +33 % | **worse** |
        | rss | 30 | 0.11 | – | – | not measured |
        | rss | 100 | 0.20 | – | – | not measured |
        | rss | 100-exec | 0.12 | – | – | not measured |
        | something-new | 7 | 0.50 | – | – | not measured |
        | restart-writes | 100 | must be 0 | 0 | | kept |
    "#]],
    );
    check(
        &verdict.worse.join("\n"),
        &expect![[r#"
        delete-gone (100-grace30): 0.55 of 11.0 s, 0.28 before (+94 %): 2.91 s more than that would be
        growth-cpu (2500): 10.00 of 0.080 ms, 1.05 before (+856 %): 0.716 ms more than that would be
        rss (0): 0.13 of 90.0 MiB, 0.10 before (+33 %): 3.0 MiB more than that would be"#]],
    );

    let nothing = guard::compare(&Data::default(), &reached);
    assert_eq!((nothing.compared, nothing.worse.len()), (0, 0));
    guard::parse("rss\t0").expect_err("no ratio");
    guard::parse("rss\t0\tx").expect_err("not a ratio");
}
