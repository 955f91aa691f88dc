//! Which values of JSON fit which types, and what becomes of zeros.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// Go's reader, not jiff's.
#[test]
fn times_have_exactly_gos_form() {
    for text in [
        "2026-01-31T12:00:00Z",
        "2026-01-31T12:00:00+01:00",
        "2026-01-31T12:00:00-01:30",
        "2026-01-31T12:00:00.5Z",
        "2026-01-31T12:00:00.123456789+01:00",
    ] {
        assert!(looks_like_rfc3339(text), "{text}");
    }
    for text in [
        "",
        "2026-01-31",
        "2026-01-31 12:00:00Z",
        "026-01-31T12:00:00Z",
        "+002026-01-31T12:00:00Z",
        "202x-01-31T12:00:00Z",
        "2026-1-31T12:00:00Z",
        "2026-01-1T12:00:00Z",
        "2026-01T12:00:00Z",
        "2026-01-31-01T12:00:00Z",
        "20260131T12:00:00Z",
        "2026-01-31T2:00:00Z",
        "2026-01-31T12:0:00Z",
        "2026-01-31T12:00:0Z",
        "2026-01-31T12:00Z",
        "2026-01-31T12:00:00:00Z",
        "2026-01-31T12:00:00.Z",
        "2026-01-31T12:00:00.1234567890Z",
        "2026-01-31T12:00:00.1xZ",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00",
        "2026-01-31T12:00:00z",
        "2026-01-31T12:00:00ZZ",
        "2026-01-31T12:00:00Z[UTC]",
        "2026-01-31T12:00:00+01",
        "2026-01-31T12:00:00+1:00",
        "2026-01-31T12:00:00+01:0",
        "2026-01-31T12:00:00+01:00:00",
        "2026-01-31T12:00:00+0100",
    ] {
        assert!(!looks_like_rfc3339(text), "{text}");
    }
}

/// The field after shaping, or what is wrong with it.
fn shaped(pointer: &str, raw: &Value) -> String {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let field = json!({name: raw});
    let pod = match parent {
        "port" => json!({"spec": {"containers": [{"ports": [field]}]}}),
        "probe" => json!({"spec": {"containers": [{"livenessProbe": {"tcpSocket": field}}]}}),
        "disk" => json!({"spec": {"volumes": [{"emptyDir": field}]}}),
        parent => json!({parent: field}),
    };
    let (pod, found) = shape(Schema::get(), &pod);
    let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    if errors.is_empty() { pod.to_string() } else { errors.join("; ") }
}

#[test]
fn whole_numbers_fit_their_types() {
    for (pointer, raw, sound) in [
        ("port/hostPort", json!(2_147_483_647), true),
        ("port/hostPort", json!(2_147_483_648_i64), false),
        ("port/hostPort", json!(-2_147_483_648), true),
        ("port/hostPort", json!(-2_147_483_649_i64), false),
        ("port/hostPort", json!(1.0), false),
        ("port/hostPort", json!(1e3), false),
        ("port/hostPort", json!(1.5), false),
        ("probe/port", json!(2_147_483_647), true),
        ("probe/port", json!(2_147_483_648_i64), false),
        ("metadata/generation", json!(i64::MAX), true),
        ("metadata/generation", json!(i64::MIN), true),
        ("metadata/generation", json!(i64::MAX.unsigned_abs() + 1), false),
    ] {
        let text = shaped(pointer, &raw);
        assert_eq!(!text.contains("must be a whole number between"), sound, "{pointer} {raw}: {text}");
    }
    assert_eq!(shaped("port/hostPort", &json!(1000)), r#"{"spec":{"containers":[{"ports":[{"hostPort":1000}]}]}}"#);
}

#[test]
fn a_value_of_another_type_is_refused_with_the_right_one() {
    let check = |pointer: &str, raw: Value, expected: Expect| expected.assert_eq(&shaped(pointer, &raw));
    check(
        "spec/securityContext",
        json!([]),
        expect!["spec.securityContext: Wrong type: found a list: must be a mapping"],
    );
    check("spec/nodeSelector", json!("a"), expect!["spec.nodeSelector: Wrong type: found a string: must be a mapping"]);
    check("spec/containers", json!({}), expect!["spec.containers: Wrong type: found a mapping: must be a list"]);
    check(
        "spec/hostname",
        json!(1),
        expect!["spec.hostname: Wrong type: found a number: must be a string; put it in quotes"],
    );
    check(
        "port/hostPort",
        json!("80"),
        expect!["spec.containers[0].ports[0].hostPort: Wrong type: found a string: must be a whole number"],
    );
    check(
        "metadata/generation",
        json!(true),
        expect!["metadata.generation: Wrong type: found true or false: must be a whole number"],
    );
    check("spec/hostPID", json!("true"), expect!["spec.hostPID: Wrong type: found a string: must be true or false"]);
    check(
        "disk/sizeLimit",
        json!(true),
        expect![
            "spec.volumes[0].emptyDir.sizeLimit: Wrong type: found true or false: must be a quantity such as 100m or 1Gi"
        ],
    );
    check(
        "disk/sizeLimit",
        json!("1 Gi"),
        expect![[
            r#"spec.volumes[0].emptyDir.sizeLimit: Invalid value: "1 Gi": must be a number with an optional suffix such as m, k, M, Gi or e3"#
        ]],
    );
    check(
        "probe/port",
        json!([80]),
        expect![
            "spec.containers[0].livenessProbe.tcpSocket.port: Wrong type: found a list: must be a whole number or a name"
        ],
    );
    check(
        "metadata/creationTimestamp",
        json!(5),
        expect!["metadata.creationTimestamp: Wrong type: found a number: must be a time such as 2026-01-31T12:00:00Z"],
    );
    check(
        "metadata/creationTimestamp",
        json!("yesterday"),
        expect![[
            r#"metadata.creationTimestamp: Invalid value: "yesterday": must be a time such as 2026-01-31T12:00:00Z"#
        ]],
    );
    check(
        "metadata/creationTimestamp",
        json!("2026-02-30T12:00:00Z"),
        expect![[
            r#"metadata.creationTimestamp: Invalid value: "2026-02-30T12:00:00Z": must be a time such as 2026-01-31T12:00:00Z"#
        ]],
    );
    check(
        "metadata/creationTimestamp",
        json!("2026-01-31T12:00:00z"),
        expect![[
            r#"metadata.creationTimestamp: Invalid value: "2026-01-31T12:00:00z": must be a time such as 2026-01-31T12:00:00Z"#
        ]],
    );
    check(
        "metadata/creationTimestamp",
        json!("2026-01-31T12:00:00Z"),
        expect![[r#"{"metadata":{"creationTimestamp":"2026-01-31T12:00:00Z"}}"#]],
    );
}

/// Everything that Go would hold without its field, next to the same with a value, and pointers, where zero says something.
#[test]
fn zeros_are_left_out_unless_they_say_something() {
    let pod = json!({
        "metadata": {"name": "", "generation": 0, "labels": {}, "creationTimestamp": null, "finalizers": []},
        "spec": {
            "hostname": "", "hostPID": false, "hostUsers": false, "priority": 0, "nodeSelector": {},
            "tolerations": null, "securityContext": {}, "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "command": [], "stdin": false, "tty": true, "ports": [{"hostPort": 0, "containerPort": 80}],
                "resources": {"limits": {"cpu": 0.1, "memory": "1.00005"}},
                "livenessProbe": {"tcpSocket": {"port": 0}, "periodSeconds": 0, "timeoutSeconds": 3},
            }, {"name": null, "resources": {}, "args": [null, ""]}],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": " 0.00005 "}}, null],
        },
    });
    let (shaped, found) = shape(Schema::get(), &pod);
    assert!(found.errors.is_empty() && found.warnings.is_empty());
    let pretty = |value: &Value| serde_json::to_string_pretty(value).expect("JSON");
    expect![[r#"
        {
          "metadata": {
            "finalizers": [],
            "labels": {}
          },
          "spec": {
            "containers": [
              {
                "command": [],
                "livenessProbe": {
                  "tcpSocket": {
                    "port": 0
                  },
                  "timeoutSeconds": 3
                },
                "name": "c",
                "ports": [
                  {
                    "containerPort": 80
                  }
                ],
                "resources": {
                  "limits": {
                    "cpu": "0.1",
                    "memory": "1.00005"
                  }
                },
                "tty": true
              },
              {
                "args": [
                  "",
                  ""
                ]
              }
            ],
            "hostUsers": false,
            "nodeSelector": {},
            "priority": 0,
            "securityContext": {},
            "terminationGracePeriodSeconds": 0,
            "volumes": [
              {
                "emptyDir": {
                  "sizeLimit": "0.00005"
                },
                "name": "v"
              },
              {}
            ]
          }
        }"#]]
    .assert_eq(&pretty(&shaped));
    expect![[r#"
        {
          "spec": {
            "containers": [
              {
                "livenessProbe": {
                  "tcpSocket": {
                    "port": 0
                  },
                  "timeoutSeconds": 3
                },
                "name": "c",
                "ports": [
                  {
                    "containerPort": 80
                  }
                ],
                "resources": {
                  "limits": {
                    "cpu": "100m",
                    "memory": "1001m"
                  }
                },
                "tty": true
              },
              {
                "args": [
                  "",
                  ""
                ]
              }
            ],
            "hostUsers": false,
            "priority": 0,
            "securityContext": {},
            "terminationGracePeriodSeconds": 0,
            "volumes": [
              {
                "emptyDir": {
                  "sizeLimit": "50u"
                },
                "name": "v"
              },
              {}
            ]
          }
        }"#]]
    .assert_eq(&pretty(&canonical(Schema::get(), &shaped)));
}
