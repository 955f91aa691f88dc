//! Section 10.1.

use expect_test::{Expect, expect};
use k8s_openapi::api::core::v1::{EnvVar, ObjectFieldSelector};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::resources::Amount;
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
    serde_json::from_value(json!([
        {"metadata": {"name": "kubernetes", "namespace": "default"},
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]}},
        {"metadata": {"name": "my-db", "namespace": "prod"},
            "spec": {"clusterIP": "fd00::2", "ports": [{"port": 53, "protocol": "UDP", "name": "dns-udp"}, {"port": 80}]}},
        {"metadata": {"name": "headless", "namespace": "prod"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}},
        {"metadata": {"name": "pending", "namespace": "prod"}, "spec": {"ports": [{"port": 1}]}}]))
    .expect("services")
}

fn sources() -> EnvSources {
    let map = |rows: &[(&str, &str)]| rows.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let bytes = [("password".to_owned(), b"s3cret".to_vec()), ("A".to_owned(), b"from-secret".to_vec())].into();
    EnvSources {
        api: true,
        config_maps: [
            ("settings".to_owned(), Fetched::Found(map(&[("A", "from-map"), ("b.c", "$(A)")]))),
            ("gone".to_owned(), Fetched::Absent),
            ("broken".to_owned(), Fetched::Failed("failed to sync configmap cache: timed out".to_owned())),
        ]
        .into(),
        secrets: [("keys".to_owned(), Fetched::Found(bytes))].into(),
        files: [(("scratch".to_owned(), "env".to_owned()), Fetched::Found("K='v 1' # x\nE=''\n".to_owned()))].into(),
    }
}

struct Case {
    namespace: &'static str,
    links: Option<bool>,
    is_static: bool,
}

const API: Case = Case { namespace: "default", links: Some(true), is_static: false };

fn env(case: &Case, container: Value, services: Services<'_>, sources: &EnvSources) -> String {
    let mut pod = pod(json!({
        "containers": [container], "enableServiceLinks": case.links, "nodeName": "n1", "serviceAccountName": "sa"}));
    pod.metadata.namespace = Some(case.namespace.to_owned());
    pod.metadata.labels = Some([("app".to_owned(), "web".to_owned()), ("x".to_owned(), "a\"b".to_owned())].into());
    let source = if case.is_static { "file" } else { "api" };
    pod.metadata.annotations = Some([("kubernetes.io/config.source".to_owned(), source.to_owned())].into());
    let view = EnvView {
        services,
        host_ips: &["192.168.0.1".parse().expect("an address"), "fd00::1".parse().expect("an address")],
        pod_ips: &["fd00::9".parse().expect("an address"), "10.1.1.9".parse().expect("an address")],
        allocatable: &[("cpu", "2"), ("memory", "8Gi"), ("ephemeral-storage", "10Gi")]
            .map(|(name, text)| (name.to_owned(), Amount::parse(text).expect("an amount")))
            .into(),
        sources,
    };
    match container_env(&pod, &pod.regular()[0], &view) {
        Ok(list) => list.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n"),
        Err(err) => err.to_string(),
    }
}

fn check(container: Value, expected: &Expect) {
    let mut whole = json!({"name": "app"});
    whole.as_object_mut().expect("an object").extend(container.as_object().expect("an object").clone());
    expected.assert_eq(&env(&API, whole, Services::Standalone, &sources()));
}

/// ENV-01, ENV-02, TRAP-17; upstream: envvars/envvars_test.go, kubelet_pods_test.go (v1.36)
#[test]
fn env_01_services_of_the_namespace_and_always_kubernetes() {
    let services = services();
    let app = || json!({"name": "app"});
    let prod = Case { namespace: "prod", ..API };
    expect![[r#"
        KUBERNETES_SERVICE_HOST=10.0.0.1
        KUBERNETES_SERVICE_PORT=443
        KUBERNETES_SERVICE_PORT_HTTPS=443
        KUBERNETES_PORT=tcp://10.0.0.1:443
        KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443
        KUBERNETES_PORT_443_TCP_PROTO=tcp
        KUBERNETES_PORT_443_TCP_PORT=443
        KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1
        MY_DB_SERVICE_HOST=fd00::2
        MY_DB_SERVICE_PORT=53
        MY_DB_SERVICE_PORT_DNS_UDP=53
        MY_DB_PORT=udp://[fd00::2]:53
        MY_DB_PORT_53_UDP=udp://[fd00::2]:53
        MY_DB_PORT_53_UDP_PROTO=udp
        MY_DB_PORT_53_UDP_PORT=53
        MY_DB_PORT_53_UDP_ADDR=fd00::2
        MY_DB_PORT_80_TCP=tcp://[fd00::2]:80
        MY_DB_PORT_80_TCP_PROTO=tcp
        MY_DB_PORT_80_TCP_PORT=80
        MY_DB_PORT_80_TCP_ADDR=fd00::2"#]]
    .assert_eq(&env(&prod, app(), Services::Known(&services), &sources()));
    let no_links = Case { namespace: "prod", links: Some(false), ..API };
    let text = env(&no_links, app(), Services::Known(&services), &sources());
    assert!(text.starts_with("KUBERNETES_SERVICE_HOST=10.0.0.1") && !text.contains("MY_DB"), "{text}");
}

#[test]
fn env_02_env_03_when_no_environment_can_be_made() {
    let app = || json!({"name": "app"});
    let undefaulted = Case { links: None, ..API };
    expect!["nil pod.spec.enableServiceLinks encountered, cannot construct envvars"].assert_eq(&env(
        &undefaulted,
        app(),
        Services::Standalone,
        &sources(),
    ));
    expect!["services have not yet been read at least once, cannot construct envvars"].assert_eq(&env(
        &API,
        app(),
        Services::Unread,
        &sources(),
    ));
    let of_file = Case { is_static: true, ..API };
    assert_eq!(env(&of_file, app(), Services::Unread, &sources()), "");
}

#[test]
fn env_04_later_layers_hide_earlier_ones() {
    check(
        json!({
            "envFrom": [
                {"configMapRef": {"name": "settings"}},
                {"prefix": "P_", "configMapRef": {"name": "settings"}},
                {"configMapRef": {"name": "gone", "optional": true}},
                {"secretRef": {"name": "keys"}}],
            "env": [{"name": "D", "value": "$(A) $(LATER) $(P_A)"}, {"name": "A", "value": "own"}, {"name": "EMPTY"},
                {"name": "LATER", "value": "$(A)$(A)"}]}),
        &expect![[r#"
            A=own
            b.c=$(A)
            P_A=from-map
            P_b.c=$(A)
            password=s3cret
            D=from-secret $(LATER) from-map
            EMPTY=
            LATER=ownown"#]],
    );
    // Service variables can be referred to, and give way to the container's own.
    let services = services();
    let container = json!({"name": "app", "env": [
        {"name": "URL", "value": "https://$(KUBERNETES_SERVICE_HOST)"}, {"name": "KUBERNETES_SERVICE_PORT", "value": "1"}]});
    let text = env(&API, container, Services::Known(&services), &sources());
    assert!(
        text.starts_with("URL=https://10.0.0.1\nKUBERNETES_SERVICE_PORT=1\nKUBERNETES_SERVICE_HOST=10.0.0.1\n"),
        "{text}"
    );
    assert_eq!(text.matches("KUBERNETES_SERVICE_PORT=").count(), 1);
}

#[test]
fn env_05_fields_of_the_pod() {
    let field = |path: &str| json!({"name": path, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}});
    let paths = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.labels['app']",
        "metadata.labels['none']",
        "metadata.annotations['kubernetes.io/config.source']",
        "metadata.labels",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    check(
        json!({"env": paths.map(field)}),
        &expect![[r#"
            metadata.name=web
            metadata.namespace=default
            metadata.uid=12345678-1234
            metadata.labels['app']=web
            metadata.labels['none']=
            metadata.annotations['kubernetes.io/config.source']=api
            metadata.labels=app="web"
            x="a\"b"
            spec.nodeName=n1
            spec.serviceAccountName=sa
            status.hostIP=192.168.0.1
            status.hostIPs=192.168.0.1,fd00::1
            status.podIP=10.1.1.9
            status.podIPs=10.1.1.9,fd00::9"#]],
    );
    check(json!({"env": [field("status.phase")]}), &expect!["unsupported fieldPath: status.phase"]);
    check(json!({"env": [field("spec.hostname")]}), &expect!["field label not supported: spec.hostname"]);
    check(json!({"env": [field("spec.x['y']")]}), &expect!["field label does not support subscript: spec.x['y']"]);
    check(
        json!({"env": [{"name": "X", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}}]}),
        &expect!["unsupported pod version: v2"],
    );
}

/// ENV-05; upstream: kubelet.go SyncPod, kubelet_pods.go podFieldSelectorRuntimeValue (v1.36)
#[test]
fn env_05_on_the_nodes_network_the_nodes_addresses_are_the_pods() {
    let pod = pod(json!({"containers": [], "hostNetwork": true}));
    let view = EnvView {
        services: Services::Standalone,
        host_ips: &["192.168.0.1".parse().expect("an address"), "fd00::1".parse().expect("an address")],
        pod_ips: &[],
        allocatable: &[].into(),
        sources: &EnvSources::default(),
    };
    for (path, expected) in [("status.podIP", "192.168.0.1"), ("status.podIPs", "192.168.0.1,fd00::1")] {
        let field = ObjectFieldSelector { field_path: path.to_owned(), ..Default::default() };
        assert_eq!(field_value(&pod, &view, &field).expect(path), expected);
    }
}

/// upstream: pkg/api/v1/resource/helpers_test.go TestExtractResourceValue (v1.36)
#[test]
fn env_05_resources_in_units_of_the_divisor() {
    let resource = |name: &str, divisor: &str| {
        json!({"name": format!("{name}/{divisor}"),
            "valueFrom": {"resourceFieldRef": {"resource": name, "divisor": divisor}}})
    };
    let rows = [
        ("requests.cpu", "1"),
        ("requests.cpu", "1m"),
        ("requests.memory", "1Mi"),
        ("requests.memory", "0"),
        ("limits.memory", "1Gi"),
        ("limits.cpu", "1"),
        ("limits.ephemeral-storage", "1Gi"),
        ("requests.hugepages-2Mi", "1Mi"),
        ("limits.hugepages-1Gi", "1"),
    ];
    check(
        json!({"env": rows.map(|(name, divisor)| resource(name, divisor)), "resources": {
            "requests": {"cpu": "1100m", "memory": "100M", "hugepages-2Mi": "4Mi"}, "limits": {"memory": "1500Mi"}}}),
        &expect![[r#"
            requests.cpu/1=2
            requests.cpu/1m=1100
            requests.memory/1Mi=96
            requests.memory/0=100000000
            limits.memory/1Gi=2
            limits.cpu/1=2
            limits.ephemeral-storage/1Gi=10
            requests.hugepages-2Mi/1Mi=4
            limits.hugepages-1Gi/1=0"#]],
    );
    check(json!({"env": [resource("limits.gpu", "1")]}), &expect!["unsupported container resource : limits.gpu"]);
    check(
        json!({"env": [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "y"}}}]}),
        &expect!["container y not found"],
    );
}

#[test]
fn env_05_a_missing_limit_is_the_pods_or_the_nodes() {
    let pod = pod(json!({"containers": [{"name": "app"}], "initContainers": [{"name": "init"}],
        "resources": {"limits": {"cpu": "500m"}}}));
    let offered =
        [("cpu", "4"), ("memory", "8Gi")].map(|(n, t)| (n.to_owned(), Amount::parse(t).expect("an amount"))).into();
    let value = |resource: &str, container: &str| {
        let field = json!({"resource": resource, "containerName": container, "divisor": "1m"});
        let field = serde_json::from_value(field).expect("a selector");
        resource_value(&pod, &pod.regular()[0], &offered, &field)
    };
    assert_eq!(value("limits.cpu", ""), Ok("500".to_owned()));
    assert_eq!(value("limits.memory", "app"), Ok((8_i64 << 30).to_string()));
    assert_eq!(value("limits.cpu", "init"), Ok("0".to_owned()));
}

#[test]
fn env_05_keys_of_objects_and_files() {
    let from = |kind: &str, name: &str, key: &str, optional: bool| json!({"env": [{"name": "X", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}]});
    check(from("configMapKeyRef", "settings", "A", false), &expect!["X=from-map"]);
    check(from("secretKeyRef", "keys", "password", false), &expect!["X=s3cret"]);
    check(from("configMapKeyRef", "settings", "k", true), &expect![""]);
    check(from("configMapKeyRef", "gone", "k", true), &expect![""]);
    check(from("secretKeyRef", "keys", "k", false), &expect!["couldn't find key k in Secret default/keys"]);
    check(
        from("configMapKeyRef", "settings", "k", false),
        &expect!["couldn't find key k in ConfigMap default/settings"],
    );
    check(from("configMapKeyRef", "gone", "k", false), &expect![[r#"configmap "gone" not found"#]]);
    check(from("secretKeyRef", "unlisted", "k", false), &expect![[r#"secret "unlisted" not found"#]]);
    check(from("configMapKeyRef", "broken", "k", true), &expect!["failed to sync configmap cache: timed out"]);
    let alone = EnvSources::default();
    let app = json!({"name": "app", "envFrom": [{"secretRef": {"name": "keys", "optional": true}}]});
    expect!["couldn't get secret default/keys, no kubeClient defined"].assert_eq(&env(
        &API,
        app,
        Services::Standalone,
        &alone,
    ));
    let file = |volume: &str, key: &str, optional: bool| {
        json!({"env": [{"name": "X", "valueFrom": {"fileKeyRef":
            {"volumeName": volume, "path": "env", "key": key, "optional": optional}}}]})
    };
    check(file("scratch", "K", false), &expect!["X=v 1"]);
    check(file("scratch", "E", true), &expect![""]);
    check(file("scratch", "Z", false), &expect![[r#"environment variable key "Z" not found in file "env""#]]);
    check(file("none", "K", false), &expect![[r#"cannot find the volume "none" referenced by FileKeyRef"#]]);
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
    ];
    for (text, expected) in rows {
        assert_eq!(env_file_value(text, "KEY"), expected, "{text:?}");
    }
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
    let made = |levels| env(&API, json!({"name": "app", "env": ladder(levels)}), Services::Standalone, &sources());
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
    let sources = EnvSources {
        api: true,
        config_maps: [("m".to_owned(), Fetched::Found(data))].into(),
        secrets: [("s".to_owned(), Fetched::Found(bytes))].into(),
        files: [(("v".to_owned(), "f".to_owned()), Fetched::Found(format!("K='{}'\n", large())))].into(),
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
        let made = env(&API, whole, Services::Standalone, &sources);
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
    let made = |list: &[Service], links| {
        let case = Case { links: Some(links), ..API };
        env(&case, json!({"name": "app"}), Services::Known(list), &sources())
    };
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
    let made = env(&API, json!({"name": "app", "env": vars}), Services::Known(&services()), &sources());
    let lines: Vec<&str> = made.lines().take(3).collect();
    assert_eq!(lines, ["SEEN=10.0.0.1", "KUBERNETES_SERVICE_HOST=mine", "SEEN_AFTER=mine"]);
    assert_eq!(made.matches("KUBERNETES_SERVICE_HOST=").count(), 1, "{made}");
}
