use expect_test::expect;
use rubelet_linux::host::terminal::Size;
use rubelet_server::documents::{TopContainer, TopDocument, TopPod, Used};

use super::{frame, render};
use crate::commands::style::Style;

fn used(millis: u64, mib: u64) -> Used {
    Used { cpu_nanocores: Some(millis * 1_000_000), memory_bytes: Some(mib << 20) }
}

fn top() -> TopDocument {
    let container = |name: &str, used, limit: Option<u64>| TopContainer {
        name: name.into(),
        used,
        memory_limit_bytes: limit.map(|mib| mib << 20),
    };
    let pod = |namespace: &str, name: &str, used, containers| TopPod {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("{name}-uid"),
        used,
        containers,
    };
    TopDocument {
        node: used(312, 3174),
        cpu_capacity_millis: 2000,
        memory_capacity_bytes: 8 << 30,
        pods: vec![
            pod("default", "idle", Used::default(), Vec::new()),
            pod("default", "web", used(4, 45), vec![container("app", used(4, 44), Some(64))]),
            pod(
                "kube-system",
                "dns\x1b[2J",
                used(1250, 1500),
                vec![container("dns", used(1249, 1499), None), container("side", used(1, 1), Some(20))],
            ),
        ],
    }
}

#[test]
fn pods_are_ordered_by_what_they_use() {
    expect![[r#"
        CPU 312m of 2 cores (16%)   memory 3.1Gi of 8Gi (39%)

        POD                         CPU  MEMORY  OF LIMIT
        kube-system/dns\u{1b}[2J  1250m   1.5Gi
          dns                     1249m   1.5Gi
          side                       1m     1Mi  5%
        web                          4m    45Mi  70%
        idle                          -       -
    "#]]
    .assert_eq(&render(&top(), Style::Plain));
    let nothing = TopDocument { node: Used::default(), pods: Vec::new(), ..top() };
    expect![[r#"
        CPU not measured, of 2 cores   memory not measured, of 8Gi

        no pod runs on this node
    "#]]
    .assert_eq(&render(&nothing, Style::Plain));
}

#[test]
fn a_frame_fits_the_terminal() {
    let text = frame(&render(&top(), Style::Rich), Size { rows: 5, columns: 20 });
    assert_eq!(text.matches('\n').count(), 4, "the last line of the screen stays free, or it would scroll");
    let plain = frame(&render(&top(), Style::Plain), Size { rows: 50, columns: 20 });
    let lines = plain.trim_start_matches("\x1b[H").lines();
    assert!(
        lines.map(|line| line.replace("\x1b[0m\x1b[K", "")).all(|line| line.chars().count() <= 20 || line == "\x1b[J")
    );
}
