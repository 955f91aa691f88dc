//! The forms of names, and how long they may be.

use super::super::names;

type Rule = fn(&str) -> Result<(), &'static str>;

#[test]
fn names_are_held_to_their_lengths() {
    let prefixed: Rule = |text| names::qualified_name(&format!("{text}/name"));
    let rows: [(&str, Rule, usize); 10] = [
        ("dns label", names::dns_label, 63),
        ("dns subdomain", names::dns_subdomain, 253),
        ("dns search", names::dns_search, 253),
        ("dns search with a dot", |text| names::dns_search(&format!("{text}.")), 253),
        ("qualified name", names::qualified_name, 63),
        ("domain of a qualified name", prefixed, 253),
        ("label value", names::label_value, 63),
        ("port name", names::port_name, 15),
        ("config key", names::config_key, 253),
        ("sysctl", names::sysctl_name, 253),
    ];
    for (what, rule, max) in rows {
        for length in [1, max - 1, max] {
            assert_eq!(rule(&"a".repeat(length)), Ok(()), "{what} {length}");
        }
        assert!(rule(&"a".repeat(max + 1)).is_err(), "{what} {}", max + 1);
    }
}

#[test]
fn names_have_their_forms() {
    let rows: [(&str, Rule, &[&str], &[&str]); 14] = [
        ("dns label", names::dns_label, &["a", "0", "a-b"], &["", "-a", "a-", "A", "a.b", "a_b", "é"]),
        ("dns subdomain", names::dns_subdomain, &["a", "a.b-c.0"], &["", ".", "a.", ".a", "a..b", "a.-b", "a.B"]),
        ("dns search", names::dns_search, &[".", "a.", "_a._b", "a_b.c-d"], &["", "..", "_", "a_", "-a", "A", "a..b"]),
        (
            "qualified name",
            names::qualified_name,
            &["A", "a_b.c-D", "a.b/C"],
            &["", "/a", "a/", "A/b", "a/b/c", "-a", "a_"],
        ),
        ("label value", names::label_value, &["", "A", "a_b.c-D"], &["-a", "a-", ".", "a b", "a/b"]),
        ("port name", names::port_name, &["a", "0a", "a-0"], &["", "0", "1-2", "-a", "a-", "a--b", "A", "a_b"]),
        ("env name", names::env_name, &["a", " ", "~", "a.b-c!"], &["", "=", "a=b", "\t", "\u{7f}", "é"]),
        ("config key", names::config_key, &["a", "A_b-c.d", ".a", "a.."], &["", ".", "..", "..a", "a/b", "a b"]),
        ("header", names::header_name, &["a", "X-Y-0", "-"], &["", "a_b", "a b", "a:"]),
        ("sysctl", names::sysctl_name, &["a", "a.b_c/d-e"], &["", ".", "a.", "-a", "a-.b", "A", "a..b"]),
        ("backsteps", names::no_backsteps, &["", "/a", "a/..b", "...", "a../b"], &["..", "../a", "a/..", "a/../b"]),
        ("descending", names::descending_path, &["", "a/b", "..a"], &["/", "/a", "..", "a/../b"]),
        ("volume file", names::volume_file_path, &["a", "a/..b", ".a"], &["/a", "..", "..a", "a/.."]),
        ("object", |text| super::super::is_dns_subdomain(text).then_some(()).ok_or(""), &["a.b"], &["", "a_b"]),
    ];
    for (what, rule, sound, faulty) in rows {
        for text in sound {
            assert_eq!(rule(text), Ok(()), "{what} {text:?}");
        }
        for text in faulty {
            assert!(rule(text).is_err(), "{what} {text:?}");
        }
    }
}

#[test]
fn addresses_are_read_strictly_or_as_go_once_read_them() {
    for (text, strict, lax) in [
        ("10.0.0.1", true, true),
        ("fd00::1", true, true),
        ("010.0.0.1", false, true),
        ("00.000.0.01", false, true),
        ("::ffff:10.0.0.1", false, true),
        ("10.0.0.256", false, false),
        ("10.0.0", false, false),
        ("10..0.1", false, false),
        ("", false, false),
        ("web", false, false),
    ] {
        assert_eq!(names::ip_address(text, true).is_ok(), strict, "{text} strictly");
        assert_eq!(names::ip_address(text, false).is_ok(), lax, "{text} laxly");
    }
}
