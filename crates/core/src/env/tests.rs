//! Section 10.1: what `tests/golden/decision/env.yaml` cannot show.

use expect_test::expect;
use k8s_openapi::api::core::v1::EnvVar;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::resources::tests::pod;

fn ample() -> Room {
    Room::new(MAX_EXPANDED)
}

/// upstream: third_party/forked/golang/expansion/expand_test.go (v1.36)
#[test]
fn env_04_references_are_replaced_as_upstream_does() {
    let rows = [
        ("", ""),
        ("$(A)", "a"),
        ("x$(A)y$(B)", "xay"),
        ("$(NOBODY)", "$(NOBODY)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$", "$"),
        ("$$", "$"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("$(A$(A)", "$(A$(A)"),
        ("$()", "$()"),
        ("\\$(A)", "\\a"),
        ("$ü$(A)", "$üa"),
        ("$(É)", "accent"),
        ("a$)(b", "a$)(b"),
        ("$($(A))", "$($(A))"),
    ];
    for (text, expected) in rows {
        let mut value = |name: &str| match name {
            "A" => Some("a"),
            "B" => Some(""),
            "É" => Some("accent"),
            _ => None,
        };
        assert_eq!(expand(text, &mut ample(), &mut value).as_deref(), Ok(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn expanding_never_panics(text in "\\PC*") {
        let _ = expand(&text, &mut ample(), &mut |_| Some("$(A)"));
    }

    #[test]
    fn text_without_dollars_stays(text in "[^$]*") {
        prop_assert_eq!(expand(&text, &mut ample(), &mut |_| None), Ok(text));
    }

    #[test]
    fn unknown_names_stay(text in "[A-Z()$ ]*") {
        // A doubled dollar sign is the one thing that changes when no name is known.
        let expanded = expand(&text, &mut ample(), &mut |_| None);
        prop_assert!(text.contains("$$") || expanded == Ok(text));
    }

    #[test]
    fn what_is_made_fills_the_room_exactly(text in "[A()$ ]*", room in 0_usize..40) {
        let whole = expand(&text, &mut ample(), &mut |_| Some("12345")).expect("it is short");
        let mut room = Room::new(room);
        let before = room;
        match expand(&text, &mut room, &mut |_| Some("12345")) {
            Ok(made) => prop_assert!(made == whole && room.take(1).is_ok() == (Room::new(made.len() + 1) <= before)),
            Err(NoRoom) => prop_assert!(Room::new(whole.len()) > before),
        }
    }

    #[test]
    fn reading_an_env_file_never_panics(text in "[A-Z='# \t\n]*", key in "[A-Z]") {
        let _ = env_file_value(&text, &key);
    }
}

fn services() -> Vec<Service> {
    serde_json::from_value(json!([{"metadata": {"name": "kubernetes", "namespace": "default"},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}}]))
    .expect("services")
}

fn env(links: bool, container: Value, services: Services<'_>, sources: &EnvSources) -> String {
    let pod = pod(json!({"containers": [container], "enableServiceLinks": links}));
    let view = EnvView { services, host_ips: &[], pod_ips: &[], allocatable: &Amounts::default(), sources };
    match container_env(&pod, &pod.regular()[0], &view) {
        Ok(list) => list.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n"),
        Err(err) => err.to_string(),
    }
}

/// ENV-05: the volumes of a pod are none of the oracle's business.
#[test]
fn env_05_keys_of_files() {
    let found = |text: &str| Fetched::Found(text.to_owned());
    let files = [
        ("env", found("K='v 1' # x\nE=''\n")),
        ("bad", found("K=v")),
        ("gone", Fetched::Absent),
        ("link", Fetched::Failed("it leads out".to_owned())),
    ];
    let file = |(name, text): (&str, Fetched<String>)| {
        (("scratch".to_owned(), name.to_owned()), EnvFile { path: format!("/scratch/{name}").into(), text })
    };
    let sources = EnvSources { files: Some(files.map(file).into()), ..EnvSources::default() };
    let unparsed = "couldn't parse env file";
    for (volume, path, key, optional, expected) in [
        ("scratch", "env", "K", false, "X=v 1"),
        ("scratch", "env", "E", true, ""),
        ("scratch", "env", "Z", true, ""),
        ("scratch", "env", "Z", false, r#"environment variable key "Z" not found in file "/scratch/env""#),
        ("scratch", "env", "E", false, r#"environment variable key "E" not found in file "/scratch/env""#),
        ("scratch", "bad", "K", true, unparsed),
        ("scratch", "gone", "K", true, unparsed),
        ("scratch", "link", "K", false, unparsed),
        ("none", "env", "K", true, r#"cannot find the volume "none" referenced by FileKeyRef"#),
    ] {
        let from = json!({"volumeName": volume, "path": path, "key": key, "optional": optional});
        let container = json!({"name": "app", "env": [{"name": "X", "valueFrom": {"fileKeyRef": from}}]});
        assert_eq!(env(true, container.clone(), Services::Standalone, &sources), expected, "{from}");
        let off = EnvSources::default();
        assert_eq!(env(true, container, Services::Standalone, &off), "X=", "the gate is off: {from}");
    }
}

/// upstream: util/env/env_util_test.go TestParseEnv (v1.36)
#[test]
fn env_05_env_files_are_read_strictly() {
    use EnvFileError::*;
    let found = |text: &str| Ok(Some(text.to_owned()));
    let rows = [
        ("KEY='value'", found("value")),
        ("  KEY='value'  # note", found("value")),
        ("# KEY='no'\n\n \t\nKEY='yes'", found("yes")),
        ("KEY='a\n b\n'", found("a\n b\n")),
        ("KEY= 'x'", found("")),
        ("OTHER= x\nKEY='y'", found("y")),
        ("KEY='first'\nKEY='second'", found("first")),
        ("KEY='x'\nnonsense", found("x")),
        ("OTHER='x'", Ok(None)),
        ("", Ok(None)),
        ("nonsense", Err(NoEquals(1))),
        ("\n='x'", Err(NoName(2))),
        ("KEY ='x'", Err(SpaceBeforeEquals(1))),
        ("KEY=x", Err(NotQuoted(1))),
        ("KEY=\"x\"", Err(NotQuoted(1))),
        ("KEY='x\ny", Err(Unclosed(1))),
        ("KEY='x'y", Err(Trailing(1))),
        ("KEY='x\n'y", Err(Trailing(2))),
        ("KEY='x'\r\nOTHER='y'", found("x")),
        ("KEY='x'\r", found("x")),
        ("KEY='x'\r\r", Err(Trailing(1))),
    ];
    for (text, expected) in rows {
        assert_eq!(env_file_value(text, "KEY"), expected, "{text:?}");
    }
    // upstream's reader takes lines of 64 KiB with their end.
    let line = |length: usize| format!("KEY='x'#{}", "-".repeat(length - 8));
    assert_eq!(env_file_value(&line(65_535), "KEY"), found("x"));
    assert_eq!(env_file_value(&line(65_536), "KEY"), Err(TooLong(1)));
    assert_eq!(env_file_value(&format!("KEY='\n{}'", "-".repeat(65_535)), "KEY"), Err(TooLong(2)));
}

#[test]
fn references_list_what_the_engine_has_to_fetch() {
    let container: Container = serde_json::from_value(json!({"name": "app",
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
        "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "d", "key": "k"}}},
            {"name": "Z", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}]}))
    .expect("a container");
    let found = references(&container);
    assert_eq!(found.config_maps, ["a".to_owned(), "c".to_owned()].into());
    assert_eq!(found.secrets, ["b".to_owned(), "d".to_owned()].into());
    assert_eq!(found.files, [("v".to_owned(), "p".to_owned())].into());
}

/// A manifest of 2 KB: a value of 1 KB, and `levels` variables of a hundred references to the one before.
fn ladder(levels: usize) -> Value {
    let mut env = vec![json!({"name": "V0", "value": "x".repeat(1024)})];
    for level in 1..=levels {
        env.push(json!({"name": format!("V{level}"), "value": format!("$(V{})", level - 1).repeat(100)}));
    }
    json!(env)
}

/// Without a limit the third level is 1 GB and the fourth 100 GB.
#[test]
fn levels_of_references_end_at_the_limit_and_not_in_the_nodes_memory() {
    let none = EnvSources::default();
    let made = |levels| env(true, json!({"name": "app", "env": ladder(levels)}), Services::Standalone, &none);
    assert_eq!(made(1).len(), "V0=".len() + 1024 + "\nV1=".len() + 102_400);
    for levels in [2, 3, 4, 20] {
        let made = made(levels);
        assert!(made.len() < 1000, "{} bytes of {levels} levels", made.len());
        expect![[r#"environment, command and arguments of container "app" expand to more than 6291456 bytes, more than Linux starts a program with: shorten their values or the $(NAME) references in them"#]]
            .assert_eq(&made);
    }
}

#[test]
fn every_way_to_a_value_draws_on_the_same_room() {
    let large = || "x".repeat(1024 * 1024);
    let data: BTreeMap<_, _> = [("k".to_owned(), large())].into();
    let bytes: BTreeMap<_, _> = [("k".to_owned(), large().into_bytes())].into();
    // Lines of a file have a limit of their own.
    let text = Fetched::Found(format!("K='{}'", "x\n".repeat(512 * 1024)));
    let file = EnvFile { path: "/v/f".into(), text };
    let sources = EnvSources {
        api: true,
        config_maps: [("m".to_owned(), Fetched::Found(data))].into(),
        secrets: [("s".to_owned(), Fetched::Found(bytes))].into(),
        files: Some([(("v".to_owned(), "f".to_owned()), file)].into()),
    };
    let named = |from: Value| (0..7).map(|n| json!({"name": format!("N{n}"), "valueFrom": from})).collect::<Vec<_>>();
    // One variable that is defined over and over is no cheaper to make.
    let same = (0..7).map(|_| json!({"name": "N", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}));
    for (what, container) in [
        ("config maps", json!({"envFrom": vec![json!({"configMapRef": {"name": "m"}}); 7]})),
        ("secrets", json!({"envFrom": vec![json!({"secretRef": {"name": "s"}}); 7]})),
        ("keys of config maps", json!({"env": named(json!({"configMapKeyRef": {"name": "m", "key": "k"}}))})),
        ("keys of secrets", json!({"env": named(json!({"secretKeyRef": {"name": "s", "key": "k"}}))})),
        ("files", json!({"env": named(json!({"fileKeyRef": {"volumeName": "v", "path": "f", "key": "K"}}))})),
        (
            "literal values",
            json!({"env": (0..7).map(|n| json!({"name": format!("N{n}"), "value": large()})).collect::<Vec<_>>()}),
        ),
        ("one name", json!({"env": same.collect::<Vec<_>>()})),
        ("names", json!({"env": (0..7).map(|n| json!({"name": format!("{n}{}", large())})).collect::<Vec<_>>()})),
    ] {
        let mut whole = json!({"name": "app"});
        whole.as_object_mut().expect("an object").extend(container.as_object().expect("an object").clone());
        let made = env(true, whole, Services::Standalone, &sources);
        assert!(made.starts_with("environment, command and arguments of container \"app\""), "{what}: {}", made.len());
    }
}

#[test]
fn variables_of_services_draw_on_the_room_too() {
    let ports: Vec<Value> = (1..2000).map(|port| json!({"port": port, "name": format!("p{port}")})).collect();
    let service = |n: usize| {
        let name = format!("service-with-a-name-of-some-length-{n}");
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterIP": "10.0.0.1", "ports": ports}})
    };
    let list =
        |n| serde_json::from_value::<Vec<Service>>(json!((0..n).map(service).collect::<Vec<_>>())).expect("services");
    let made =
        |list: &[Service], links| env(links, json!({"name": "app"}), Services::Known(list), &EnvSources::default());
    assert!(made(&list(4), true).starts_with("SERVICE_WITH"));
    assert!(made(&list(40), true).starts_with("environment, command and arguments of container"));
    assert_eq!(made(&list(40), false), "");
}

/// The kernel counts a pointer and an end for each string, so that many empty ones are not free either.
#[test]
fn a_variable_takes_its_name_its_value_and_what_the_kernel_adds() {
    let mut env = Env { room: Room::new(2 * ("A=1".len() + 1 + 8)), ..Env::default() };
    assert_eq!(env.set("A", "1".to_owned()), Ok(()));
    let mut other = Env { room: env.room, ..Env::default() };
    assert_eq!(env.expand("B", "$(A)", &Env::default()), Ok(()));
    assert_eq!(env.set("", String::new()), Err(NoRoom));
    assert_eq!(other.expand("B", "$(A)", &env), Ok(()));
    assert_eq!(other.room, Room::new(0));
    assert_eq!(env.list, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "1".to_owned())]);
}

/// Each of 17,000 variables refers to one that is far away and to one that nobody has: with a list in place of a map that
/// is 3·10^8 comparisons of names. The bound is some twenty times what it takes in a slow build on a busy machine.
#[test]
#[expect(clippy::disallowed_methods, reason = "the cost itself is what is tested")]
fn thousands_of_variables_cost_as_many_lookups() {
    let var = |n: usize| EnvVar {
        name: format!("VARIABLE_{n}"),
        value: Some(if n == 0 { "x".to_owned() } else { "$(VARIABLE_0)$(NOBODY)".to_owned() }),
        value_from: None,
    };
    let container =
        Container { name: "app".to_owned(), env: Some((0..17_000).map(var).collect()), ..Container::default() };
    let pod = pod(json!({"containers": [{"name": "app"}], "enableServiceLinks": true}));
    let view = EnvView {
        services: Services::Standalone,
        host_ips: &[],
        pod_ips: &[],
        allocatable: &Amounts::default(),
        sources: &EnvSources::default(),
    };
    let began = std::time::Instant::now();
    let made = container_env(&pod, &container, &view).expect("it is not large");
    assert_eq!(made.len(), 17_000);
    assert_eq!(made.last().map(|(_, value)| value.as_str()), Some("x$(NOBODY)"));
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Every opening bracket begins a search for the closing one; there is none. Searched for each time, that is 10^11 bytes.
#[test]
#[expect(clippy::disallowed_methods, reason = "the cost itself is what is tested")]
fn brackets_that_never_close_are_searched_for_once() {
    let text = "$(".repeat(300_000);
    let began = std::time::Instant::now();
    let asked = expand(&text, &mut ample(), &mut |_| Some("x"));
    assert_eq!(asked.as_deref(), Ok(text.as_str()));
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

/// ENV-04: a reference means the container's own variable, whatever a service is called.
#[test]
fn env_04_an_own_variable_comes_before_that_of_a_service() {
    let vars = json!([
        {"name": "SEEN", "value": "$(KUBERNETES_SERVICE_HOST)"},
        {"name": "KUBERNETES_SERVICE_HOST", "value": "mine"},
        {"name": "SEEN_AFTER", "value": "$(KUBERNETES_SERVICE_HOST)"}]);
    let (container, services) = (json!({"name": "app", "env": vars}), services());
    let made = env(true, container, Services::Known(&services), &EnvSources::default());
    let lines: Vec<&str> = made.lines().take(3).collect();
    assert_eq!(lines, ["SEEN=10.0.0.1", "KUBERNETES_SERVICE_HOST=mine", "SEEN_AFTER=mine"]);
    assert_eq!(made.matches("KUBERNETES_SERVICE_HOST=").count(), 1, "{made}");
}
