use std::time::Duration;

use rubelet_core::time::Instant;

use super::{Key, Memory, REMEMBERED};

fn key(message: &str) -> Key {
    Key { pod: "web-uid".into(), reason: "BackOff".into(), message: message.into() }
}

#[test]
fn an_event_that_repeats_is_logged_seldom_and_counted() {
    let mut memory = Memory::default();
    let mut logged = Vec::new();
    for secs in (0..=900).step_by(10) {
        if let Some(times) = memory.happened(key("again"), Instant::from_secs(secs)) {
            logged.push((secs, times));
        }
    }
    assert_eq!(logged, [(0, 1), (300, 30), (600, 30), (900, 30)]);
}

#[test]
fn events_that_differ_are_all_logged_and_the_memory_is_bounded() {
    let mut memory = Memory::default();
    let start = Instant::from_secs(1000);
    for n in 0..3 * REMEMBERED {
        let at = start + Duration::from_millis(u64::try_from(n).expect("small"));
        assert_eq!(memory.happened(key(&n.to_string()), at), Some(1));
        assert!(memory.events.len() <= REMEMBERED);
    }
    // The newest are remembered.
    let last = (3 * REMEMBERED - 1).to_string();
    assert_eq!(memory.happened(key(&last), start + Duration::from_secs(4)), None);
}
