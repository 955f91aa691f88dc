use super::*;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(secs).expect("in range")
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

// RT-62; upstream: kubelet_test.go TestNewCrashLoopBackOff (v1.36)
#[test]
fn the_configured_maximum_lowers_the_first_delay_too() {
    for (max, reduced, first, longest) in [
        (None, false, 10, 300),
        (Some(300), false, 10, 300),
        (Some(15), false, 10, 15),
        (Some(5), false, 5, 5),
        (Some(1), false, 1, 1),
        (None, true, 1, 60),
        (Some(300), true, 1, 300),
    ] {
        let policy = BackoffPolicy::crash(max.map(secs), reduced);
        assert_eq!(
            (policy.initial, policy.max, policy.reset),
            (secs(first), secs(longest), secs(600)),
            "{max:?} {reduced}"
        );
    }
}

// The wait counts from the end of the container, however late we look.
#[test]
fn the_wait_counts_from_the_end() {
    let mut backoffs = Backoffs::default();
    backoffs.next("k", at(0), at(0));
    for (since, now, left) in [
        (5, 5, Some(10)),
        (5, 12, Some(3)),
        (5, 14, Some(1)),
        (5, 15, None),
        (5, 100, None),
        // Seen before it is said to have ended: clocks that differ a little.
        (5, 4, Some(11)),
        // The clock was set back by hours.
        (10_000, 5, None),
    ] {
        // The last row would otherwise count as a long run.
        let since = at(since);
        assert_eq!(backoffs.wait_left("k", since, at(now)), left.map(secs), "{since} {now}");
    }
    assert_eq!(backoffs.wait_left("other", at(5), at(5)), None);
    assert_eq!(backoffs.delay("k"), secs(10));
    backoffs.reset("k");
    assert_eq!(backoffs.delay("k"), Duration::ZERO);
}

#[test]
fn a_clock_set_back_does_not_strand_a_container() {
    let mut backoffs = Backoffs::default();
    backoffs.next("k", at(100_000), at(100_000));
    // It ended at 100 005 by the old clock; by the new one that is a day ahead.
    assert_eq!(backoffs.wait_left("k", at(100_005), at(13_600)), None);
    assert_eq!(backoffs.wait_left_since_update("k", at(13_600)), None);
}

// IMG-04; upstream: images/image_manager.go pullImage uses IsInBackOffSinceUpdate (v1.36)
#[test]
fn image_back_off_counts_from_the_last_try() {
    let mut backoffs = Backoffs::new(BackoffPolicy::image());
    assert_eq!(backoffs.wait_left_since_update("k", at(0)), None);
    backoffs.next("k", at(0), at(0));
    assert_eq!(backoffs.wait_left_since_update("k", at(4)), Some(secs(6)));
    assert_eq!(backoffs.wait_left_since_update("k", at(10)), None);
    backoffs.next("k", at(10), at(10));
    assert_eq!(backoffs.wait_left_since_update("k", at(10)), Some(secs(20)));
    // Ten minutes of quiet: the count is forgotten.
    backoffs.next("k", at(611), at(611));
    assert_eq!(backoffs.delay("k"), secs(10));
}

// upstream: client-go flowcontrol backoff_test.go TestBackoffGC (v0.36)
#[test]
fn gc_drops_only_what_has_expired() {
    let mut backoffs = Backoffs::default();
    backoffs.next("old", at(0), at(0));
    backoffs.next("new", at(100), at(100));
    backoffs.gc(at(600));
    assert_eq!(backoffs.entries.len(), 2);
    backoffs.gc(at(601));
    assert_eq!((backoffs.entries.len(), backoffs.delay("new")), (1, secs(10)));
}

// RT-61
#[test]
fn the_messages_of_a_crash_loop_are_upstreams() {
    let pod = PodRef { namespace: "ns".into(), name: "web".into(), uid: "u1".into() };
    assert_eq!(crash_message(secs(20), "c", &pod), "back-off 20s restarting failed container=c pod=web_ns(u1)");
    assert_eq!(crash_event_message("c", &pod), "Back-off restarting failed container c in pod web_ns(u1)");
}
