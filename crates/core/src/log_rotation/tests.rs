use super::*;

const POLICY: LogPolicy = LogPolicy { max_size: 1000, max_files: 4 };

fn names(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn log_04_what_is_removed_before_a_rotation() {
    for (files, expected) in [
        ("0.log", ""),
        // With the log to be rotated and the one to come, two more may stay.
        ("0.log 0.log.20260101-000001 0.log.20260101-000002.gz", ""),
        (
            "0.log 0.log.20260101-000003 0.log.20260101-000001.gz 0.log.20260101-000002.gz 0.log.20251231-235959.gz",
            "0.log.20251231-235959.gz 0.log.20260101-000001.gz",
        ),
        // Leftovers of an interrupted compression: a temporary file, and a log beside its compressed form.
        (
            "0.log 0.log.20260101-000001 0.log.20260101-000001.tmp 0.log.20260101-000002 0.log.20260101-000002.gz",
            "0.log.20260101-000001.tmp 0.log.20260101-000002",
        ),
        // Nobody else's files.
        ("0.log 0.log.pos 0.log.20260101 0.log.2026010a-000000 00.log.20260101-000000 1.log.20260101-000000 x", ""),
        ("0.log 0.log.20260101-000000.bz2 0.log.20260101-0000000", ""),
    ] {
        assert_eq!(plan_rotation("0.log", &names(files), &POLICY).join(" "), expected, "{files}");
    }
    let fewest = LogPolicy { max_files: 2, ..POLICY };
    assert_eq!(plan_rotation("0.log", &names("0.log 0.log.20260101-000000"), &fewest), ["0.log.20260101-000000"]);
}

#[test]
fn log_04_all_rotated_logs_but_the_newest_are_compressed() {
    for (files, expected) in [
        ("0.log", ""),
        ("0.log 0.log.20260101-000001", ""),
        ("0.log 0.log.20260101-000003 0.log.20260101-000001.gz 0.log.20260101-000002", "0.log.20260101-000002"),
        ("0.log 0.log.20260101-000002 0.log.20260101-000003.gz", "0.log.20260101-000002"),
        ("0.log 0.log.20260101-000002 0.log.20260101-000002.gz 0.log.20260101-000003", ""),
    ] {
        assert_eq!(to_compress("0.log", &names(files)).join(" "), expected, "{files}");
    }
}

#[test]
fn log_04_the_name_of_a_rotated_log_is_its_time_and_sorts_last() {
    let now: Timestamp = "2026-01-02T03:04:05.9Z".parse().unwrap();
    for (files, expected) in [
        ("7.log", "7.log.20260102-030405"),
        ("7.log 7.log.20260102-030404.gz", "7.log.20260102-030405"),
        // A second rotation in the same second, and a clock that was set back.
        ("7.log 7.log.20260102-030405", "7.log.20260102-030406"),
        ("7.log 7.log.20260102-235959.gz", "7.log.20260103-000000"),
        ("7.log 7.log.20260102-030409.tmp", "7.log.20260102-030410"),
        // No time at all, and the end of time.
        ("7.log 7.log.99999999-999999", "7.log.20260102-030405"),
        ("7.log 7.log.99991231-235959", "7.log.20260102-030405"),
    ] {
        assert_eq!(rotated_name("7.log", &names(files), now), expected, "{files}");
    }
}

#[test]
fn log_04_a_log_is_looked_at_when_it_may_be_half_way_to_its_limit() {
    let look = |size, millis| LogLook { size, at: Instant::from_millis(millis) };
    let grown = |before, now| Some(Growth::between(before, now));
    let pause = |before, now: LogLook| POLICY.pause(now.size, grown(before, now), Duration::from_secs(10)).as_millis();
    assert_eq!(POLICY.pause(0, None, Duration::from_secs(10)).as_millis(), 100, "nothing is known of it");
    assert_eq!(pause(look(5, 0), look(5, 100)), 1000, "nothing was written");
    assert_eq!(pause(look(5, 0), look(5, 3000)), 6000, "still nothing");
    assert_eq!(pause(look(5, 0), look(5, 10_000)), 10_000);
    assert_eq!(pause(look(0, 0), look(1, 10_000)), 1000, "it grows slowly, and may grow fast soon");
    assert_eq!(pause(look(0, 0), look(500, 1000)), 500);
    assert_eq!(pause(look(0, 0), look(999, 1000)), 20);
    assert_eq!(pause(look(0, 0), look(1_000_000, 1)), 20);
    assert_eq!(pause(look(0, 0), look(1_000_000, 0)), 20, "no time passed");
    assert_eq!(pause(look(900, 0), look(100, 1000)), 1000, "it was truncated, and grew from nothing");
    assert_eq!(pause(look(900, 0), look(0, 1000)), 2000);
}

#[test]
fn log_04_a_log_that_would_be_beyond_its_limit_at_the_next_look_is_rotated() {
    let look = |size, millis| LogLook { size, at: Instant::from_millis(millis) };
    let due = |size, growth| POLICY.is_due(size, growth, Duration::from_millis(80));
    assert!(due(1000, None) && !due(999, None));
    // A tenth of a second: the rotation, and the pause before the next look.
    let fast = Some(Growth::between(look(0, 0), look(1000, 1000)));
    assert!(due(901, fast) && !due(900, fast));
    let faster = Some(Growth::between(look(0, 0), look(1000, 10)));
    assert!(due(500, faster) && !due(499, faster), "half of a log is worth a rotation, less is not");
    let quiet = Some(Growth::between(look(999, 0), look(999, 1000)));
    assert!(!due(999, quiet));
    assert!(!LogPolicy { max_size: 0, max_files: 2 }.is_due(0, faster, Duration::ZERO));
}

#[test]
fn log_04_leftovers_of_a_crash_loop_are_bounded() {
    let all = "0.log 0.log.20260101-000000.gz 1.log 2.log 2.log.20260101-000001 2.log.20260101-000002 \
               2.log.20260101-000003.tmp 3.log notes 01.log 3.log.old";
    let known = BTreeSet::from([3, 2]);
    let tidy = |keep| plan_tidy(&names(all), 3, &known, keep, &POLICY);
    let expected = Tidy {
        remove: names("0.log 0.log.20260101-000000.gz 1.log 2.log.20260101-000003.tmp"),
        compress: names("2.log.20260101-000001"),
    };
    assert_eq!(tidy(Some(1)), expected);
    assert_eq!(tidy(Some(0)), expected, "the instance before the current one always stays");
    assert_eq!(tidy(Some(2)).remove, names("0.log 0.log.20260101-000000.gz 2.log.20260101-000003.tmp"));
    assert_eq!(tidy(None).remove, names("2.log.20260101-000003.tmp"));
    let known = BTreeSet::from([0]);
    let tidy = plan_tidy(&names(all), 3, &known, Some(1), &POLICY);
    assert_eq!(tidy.remove, names("1.log 2.log.20260101-000003.tmp"), "what the runtime still has stays");
}

#[test]
fn log_04_a_lower_bound_on_files_holds_from_the_next_start() {
    let all = "0.log 0.log.20260101-000001.gz 0.log.20260101-000002.gz 0.log.20260101-000003 0.log.20260101-000004";
    let fewest = LogPolicy { max_files: 2, ..POLICY };
    let tidy = plan_tidy(&names(all), 0, &BTreeSet::new(), Some(1), &fewest);
    let remove = names("0.log.20260101-000001.gz 0.log.20260101-000002.gz 0.log.20260101-000003");
    assert_eq!(tidy, Tidy { remove, compress: Vec::new() });
}

#[test]
fn log_04_a_negative_size_turns_rotation_off() {
    let with = |size: &str| {
        let config = KubeletConfiguration { container_log_max_size: size.into(), ..KubeletConfiguration::default() };
        LogRotation::of(&config)
    };
    assert_eq!(with("-1"), None);
    let usual = with("10Mi").unwrap();
    assert_eq!(usual.policy, LogPolicy { max_size: 10 << 20, max_files: 5 });
    assert_eq!((usual.interval, usual.workers), (Duration::from_secs(10), 1));
}
