//! Verbosity, vmodule, and the keys of JSON lines.

use std::io::Write;
use std::sync::{Arc, Mutex};

use rubelet_core::config::VModule;
use serde_json::Value;

use super::*;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(logging: &Logging, work: impl FnOnce()) -> String {
    let captured = Captured::default();
    let writer = captured.clone();
    tracing::subscriber::with_default(subscriber(logging, Colours::None, move || writer.clone()), work);
    let bytes = captured.0.lock().expect("not poisoned").clone();
    String::from_utf8(bytes).expect("text")
}

fn with(verbosity: u32, vmodule: &[(&str, u32)]) -> Logging {
    let item = |(pattern, verbosity): &(&str, u32)| VModule { file_pattern: (*pattern).into(), verbosity: *verbosity };
    Logging { verbosity, vmodule: vmodule.iter().map(item).collect(), ..Logging::default() }
}

#[test]
fn verbosity_chooses_levels_for_rubelet_and_for_libraries() {
    let lines = |logging: &Logging| {
        let text = logged(logging, || {
            tracing::warn!("own-warn");
            tracing::info!("own-info");
            tracing::debug!("own-debug");
            tracing::trace!("own-trace");
            tracing::debug!(target: "rubelet_engine::pleg", "pleg-debug");
            tracing::warn!(target: "hyper::proto", "lib-warn");
            tracing::info!(target: "hyper::proto", "lib-info");
            tracing::trace!(target: "hyper::proto", "lib-trace");
        });
        text.lines().filter_map(|line| line.split(' ').next_back()).collect::<Vec<_>>().join(" ")
    };
    let quiet = "own-warn own-info lib-warn";
    assert_eq!(lines(&with(0, &[])), quiet);
    assert_eq!(lines(&with(3, &[])), quiet);
    assert_eq!(lines(&with(4, &[])), "own-warn own-info own-debug pleg-debug lib-warn");
    assert_eq!(lines(&with(6, &[])), "own-warn own-info own-debug own-trace pleg-debug lib-warn lib-info");
    assert_eq!(lines(&with(8, &[])), "own-warn own-info own-debug own-trace pleg-debug lib-warn lib-info lib-trace");
    assert_eq!(lines(&with(0, &[("hyp*", 9)])), quiet, "a pattern is for the last name of a module, or the file");
    assert_eq!(lines(&with(0, &[("pr?to", 9)])), "own-warn own-info lib-warn lib-info lib-trace");
}

#[test]
fn json_lines_have_upstreams_keys() {
    let logging = Logging { format: LogFormat::Json, verbosity: 4, ..Logging::default() };
    let text = logged(&logging, || {
        let span = tracing::info_span!("sync", pod = "default/web", uid = "u1");
        let _entered = span.enter();
        tracing::info!(grace = 30, ready = true, "Pod is \"terminating\"");
        tracing::debug!(v = "taken", "why");
        tracing::error!(err = %"no such file", "gone");
    });
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let [info, debug, error] = lines.as_slice() else { panic!("{text}") };
    assert!(info["ts"].as_f64().is_some_and(|ts| ts > 1.7e12), "milliseconds since the epoch");
    assert_eq!((info["msg"].as_str(), info["level"].as_str()), (Some("Pod is \"terminating\""), Some("info")));
    assert_eq!((info["v"].as_u64(), info["grace"].as_u64(), info["ready"].as_bool()), (Some(0), Some(30), Some(true)));
    assert_eq!((info["pod"].as_str(), info["uid"].as_str()), (Some("default/web"), Some("u1")));
    assert!(info["caller"].as_str().is_some_and(|caller| caller.contains("tests.rs:")));
    assert_eq!((debug["v"].as_u64(), debug["v_"].as_str()), (Some(4), Some("taken")));
    assert_eq!((error["v"].as_u64(), error["err"].as_str()), (None, Some("no such file")));
    assert!(text.starts_with("{\"ts\":"), "the time comes first");
}

#[test]
fn patterns_match_as_in_a_shell() {
    let table = [
        ("pleg", "pleg", true),
        ("pleg", "plegs", false),
        ("p*", "pleg", true),
        ("*eg", "pleg", true),
        ("*", "", true),
        ("p?eg", "pleg", true),
        ("p?", "p", false),
        ("*l*", "pleg", true),
        ("a*b*c", "axxbyyc", true),
        ("ü*", "über", true),
    ];
    for (pattern, name, expected) in table {
        assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
    }
}
