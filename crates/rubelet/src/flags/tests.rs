//! FLAG-01 to FLAG-03: reading command lines.

use expect_test::{Expect, expect, expect_file};
use rubelet_core::config::{Gate, KubeletConfiguration};

use super::*;

fn command(line: &str) -> Result<Command, FlagError> {
    parse(line.split_whitespace().map(Into::into))
}

fn run(line: &str) -> RunOptions {
    match command(line) {
        Ok(Command::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn printed(line: &str) -> String {
    match command(line) {
        Ok(Command::Print(text)) => text,
        other => panic!("{line}: {other:?}"),
    }
}

fn check_error(line: &str, expected: &Expect) {
    expected.assert_eq(&command(line).expect_err(line).to_string());
}

#[test]
fn flag_03_words_are_taken_apart_as_pflag_does() {
    type Get = fn(&RunOptions) -> String;
    let table: [(&str, Get, &str); 26] = [
        ("--max-pods=5", |o| o.config.max_pods.to_string(), "5"),
        ("--max-pods 5", |o| o.config.max_pods.to_string(), "5"),
        ("--max_pods=5", |o| o.config.max_pods.to_string(), "5"),
        ("--max-pods=5 --max-pods=6", |o| o.config.max_pods.to_string(), "6"),
        ("--max-pods=0x10", |o| o.config.max_pods.to_string(), "16"),
        ("--max-pods=010", |o| o.config.max_pods.to_string(), "8"),
        ("--oom-score-adj=-5", |o| o.config.oom_score_adj.to_string(), "-5"),
        ("--fail-swap-on=false", |o| o.config.fail_swap_on.to_string(), "false"),
        ("--fail-swap-on=F --fail-swap-on", |o| o.config.fail_swap_on.to_string(), "true"),
        ("-v 4", |o| o.config.logging.verbosity.to_string(), "4"),
        ("-v=4", |o| o.config.logging.verbosity.to_string(), "4"),
        ("-v4", |o| o.config.logging.verbosity.to_string(), "4"),
        ("--v=4", |o| o.config.logging.verbosity.to_string(), "4"),
        ("--v 4", |o| o.config.logging.verbosity.to_string(), "4"),
        ("--sync-frequency=1m30s", |o| o.config.sync_frequency.to_string(), "1m30s"),
        ("--cluster-dns=10.0.0.10,10.0.0.11", |o| o.config.cluster_dns.join(" "), "10.0.0.10 10.0.0.11"),
        ("--cluster-dns=a --cluster-dns=b,c", |o| o.config.cluster_dns.join(" "), "a b c"),
        ("--cluster-dns=\"a,b\",c", |o| o.config.cluster_dns.join(" "), "a,b c"),
        ("--enforce-node-allocatable=", |o| o.config.enforce_node_allocatable.join(" "), ""),
        (
            "--feature-gates=A=true,B=false --feature-gates=C=1",
            |o| format!("{:?}", o.config.feature_gates),
            r#"{"A": true, "B": false, "C": true}"#,
        ),
        (
            "--node-labels=a=b,c --node-labels=d=e=f",
            |o| format!("{:?}", o.flags.node_labels),
            r#"{"a": "b", "c": "", "d": "e=f"}"#,
        ),
        (
            "--eviction-hard=memory.available<1Gi,nodefs.available<10%",
            |o| format!("{:?}", o.config.eviction_hard),
            r#"{"memory.available": "1Gi", "nodefs.available": "10%"}"#,
        ),
        (
            "--manifest-url-header=a:x,b:y,a:z",
            |o| format!("{:?}", o.config.static_pod_url_header),
            r#"{"a": ["x", "z"], "b": ["y"]}"#,
        ),
        (
            "--cpu-manager-policy-options=a=1,2 --cpu-manager-policy-options=b=3",
            |o| format!("{:?}", o.config.cpu_manager_policy_options),
            r#"{"a": "1,2", "b": "3"}"#,
        ),
        (
            "--register-with-taints=a=b:NoSchedule --reserved-memory=0:memory=1Gi --reserved-memory=1:memory=2Gi",
            |o| format!("{} {}", o.config.register_with_taints.len(), o.config.reserved_memory.len()),
            "1 2",
        ),
        (
            "--housekeeping_interval=5s --storage-driver-db=x --enable-load-reader",
            |o| o.flags.housekeeping_interval.to_string(),
            "5s",
        ),
    ];
    for (line, get, expected) in table {
        assert_eq!(get(&run(line)), expected, "{line}");
    }
}

#[test]
fn flag_01_and_02_flags_without_a_field() {
    let options = run("");
    assert_eq!(options.flags, KubeletFlags::default());
    let flags = &options.flags;
    assert_eq!((flags.cert_dir.as_str(), flags.root_dir.as_str()), ("/var/lib/kubelet/pki", "/var/lib/kubelet"));
    assert_eq!((flags.maximum_dead_containers, flags.maximum_dead_containers_per_container), (-1, 1));
    assert_eq!(flags.minimum_container_ttl_duration.to_string(), "0s");
    let line = "--config=/c --config-dir=/d --kubeconfig=/k --bootstrap-kubeconfig=/b --hostname-override=Node \
                --node-ip=10.0.0.1,fd00::1 --cert-dir=/pki --cloud-provider=external --root-dir=/r --lock-file=/l \
                --exit-on-lock-contention --runtime-cgroups=/rt --image-credential-provider-config=/ic \
                --image-credential-provider-bin-dir=/ib --seccomp-default --minimum-container-ttl-duration=1m \
                --maximum-dead-containers=5 --maximum-dead-containers-per-container=2 --experimental-mounter-path=/m \
                --experimental-allocatable-ignore-eviction";
    let flags = run(line).flags;
    assert_eq!(
        [&flags.config, &flags.config_dir, &flags.kubeconfig, &flags.bootstrap_kubeconfig, &flags.hostname_override],
        ["/c", "/d", "/k", "/b", "Node"]
    );
    assert_eq!(
        [&flags.node_ip, &flags.cert_dir, &flags.cloud_provider, &flags.root_dir],
        ["10.0.0.1,fd00::1", "/pki", "external", "/r"]
    );
    assert_eq!([&flags.lock_file, &flags.runtime_cgroups, &flags.experimental_mounter_path], ["/l", "/rt", "/m"]);
    assert!(flags.exit_on_lock_contention && flags.seccomp_default && flags.experimental_allocatable_ignore_eviction);
    assert_eq!((flags.maximum_dead_containers, flags.maximum_dead_containers_per_container), (5, 2));
    assert_eq!(flags.minimum_container_ttl_duration.to_string(), "1m0s");
}

#[test]
fn what_is_wrong_with_a_command_line_is_named() {
    check_error("--max-pdos=5", &expect!["unknown flag --max-pdos; did you mean --max-pods?"]);
    check_error("--no-such-thing", &expect!["unknown flag --no-such-thing; rubelet --help lists all of them"]);
    check_error("--network-plugin=cni", &expect!["unknown flag --network-plugin; rubelet --help lists all of them"]);
    check_error(
        "-config=/x",
        &expect![[
            r#"unknown flag "-config=/x"; flags of more than one letter take two dashes; did you mean --config?"#
        ]],
    );
    check_error("-x", &expect!["unknown flag -x; rubelet --help lists all of them"]);
    check_error("--=x", &expect![[r#"bad flag syntax: "--=x""#]]);
    check_error("--max-pods", &expect!["flag --max-pods needs a value: write --max-pods=VALUE"]);
    check_error(
        "--max-pods=many",
        &expect![[r#"invalid value "many" for --max-pods: must be a whole number between -2147483648 and 2147483647"#]],
    );
    check_error(
        "--max-pods=3000000000",
        &expect![[
            r#"invalid value "3000000000" for --max-pods: must be a whole number between -2147483648 and 2147483647"#
        ]],
    );
    check_error(
        "--fail-swap-on=maybe",
        &expect![[r#"invalid value "maybe" for --fail-swap-on: must be true or false, not "maybe""#]],
    );
    check_error(
        "--sync-frequency=60",
        &expect![[
            r#"invalid value "60" for --sync-frequency: "60" is not a duration; write a number with a unit, like 300ms, 10s, 1m30s or 2h"#
        ]],
    );
    check_error(
        "--feature-gates=MemoryQoS",
        &expect![[
            r#"invalid value "MemoryQoS" for --feature-gates: must be Gate=true or Gate=false pairs with commas between them"#
        ]],
    );
    check_error(
        "--feature-gates=MemoryQoS=on",
        &expect![[r#"invalid value "MemoryQoS=on" for --feature-gates: MemoryQoS must be true or false, not "on""#]],
    );
    check_error(
        "--system-reserved=cpu",
        &expect![[r#"invalid value "cpu" for --system-reserved: must be key=value pairs with commas between them"#]],
    );
    check_error(
        "--hairpin-mode=veth",
        &expect![[
            r#"invalid value "veth" for --hairpin-mode: "veth" is not one of promiscuous-bridge, hairpin-veth, none"#
        ]],
    );
    check_error(
        "--cgroup-driver=systmd",
        &expect![[
            r#"invalid value "systmd" for --cgroup-driver: "systmd" is not one of cgroupfs, systemd; did you mean systemd?"#
        ]],
    );
    check_error("--address=localhost", &expect![[r#"invalid value "localhost" for --address: must be an IP address"#]]);
    check_error(
        "--node-ip=10.0.0.1,10.0.0.2",
        &expect![[
            r#"invalid value "10.0.0.1,10.0.0.2" for --node-ip: "10.0.0.1,10.0.0.2" is not one address, or one IPv4 and one IPv6 address"#
        ]],
    );
    check_error(
        "--cloud-provider=aws",
        &expect![[
            r#"invalid value "aws" for --cloud-provider: must be empty or external: the built-in providers were removed"#
        ]],
    );
    check_error(
        "--register-with-taints=a",
        &expect![[
            r#"invalid value "a" for --register-with-taints: "a" is not valid: write key=value:Effect or key:Effect, with Effect NoSchedule, PreferNoSchedule or NoExecute"#
        ]],
    );
    check_error(
        "--logging-format=xml",
        &expect![[r#"invalid value "xml" for --logging-format: "xml" is not one of text, json"#]],
    );
    check_error("-v=-1", &expect![[r#"invalid value "-1" for --v: must be a whole number, 0 or more"#]]);
    check_error(
        "--vmodule=a",
        &expect![[r#"invalid value "a" for --vmodule: must be pattern=N pairs with commas between them"#]],
    );
    check_error(
        "--version=v1.35.0",
        &expect![[
            r#"invalid value "v1.35.0" for --version: must be true, false, raw, or v1.36.4 with a build after - or +"#
        ]],
    );
    check_error(
        "--log-text-info-buffer-size=big",
        &expect![[
            r#"invalid value "big" for --log-text-info-buffer-size: "big" is not a quantity; write bytes like 512, 1k or 2Ki"#
        ]],
    );
}

#[test]
fn flag_03_an_unknown_positional_argument_is_an_error() {
    check_error(
        "run",
        &expect![[
            r#"unknown command "run"; without a command rubelet runs the node, else there are pods, explain, top, events, logs, status, check, config, version, help, completion, man"#
        ]],
    );
    check_error(
        "explian web",
        &expect![[
            r#"unknown command "explian"; without a command rubelet runs the node, else there are pods, explain, top, events, logs, status, check, config, version, help, completion, man; did you mean explain?"#
        ]],
    );
    check_error(
        "--fail-swap-on false",
        &expect![[r#"unexpected argument "false"; a switch takes its value after '=', like --fail-swap-on=false"#]],
    );
    check_error(
        "-- --max-pods=5",
        &expect![[
            r#"unknown command "--max-pods=5"; without a command rubelet runs the node, else there are pods, explain, top, events, logs, status, check, config, version, help, completion, man"#
        ]],
    );
    check_error("explain", &expect!["rubelet explain needs POD|node: rubelet explain POD|node"]);
    check_error("explain a b", &expect![[r#"unexpected argument "b" after rubelet explain"#]]);
    check_error("pods web", &expect![[r#"unexpected argument "web" after rubelet pods"#]]);
    check_error("pods -o yaml", &expect![[r#"invalid value "yaml" for --output: must be table or json"#]]);
    check_error(
        "help nonsense",
        &expect![[
            r#"unknown command "nonsense"; without a command rubelet runs the node, else there are pods, explain, top, events, logs, status, check, config, version, help, completion, man"#
        ]],
    );
    check_error("help pods web", &expect![[r#"unexpected argument "web" after rubelet pods"#]]);
    check_error(
        "man vresion",
        &expect![[
            r#"unknown command "vresion"; without a command rubelet runs the node, else there are pods, explain, top, events, logs, status, check, config, version, help, completion, man; did you mean version?"#
        ]],
    );
    check_error("config", &expect!["rubelet config needs show|validate: rubelet config show|validate"]);
    check_error("config shwo", &expect![[r#"rubelet config knows no "shwo": rubelet config show|validate"#]]);
    check_error("help config shwo", &expect![[r#"rubelet config knows no "shwo": rubelet config show|validate"#]]);
    check_error("config show extra", &expect![[r#"unexpected argument "extra" after rubelet config show"#]]);
    check_error("completion", &expect!["rubelet completion needs bash|zsh|fish: rubelet completion bash|zsh|fish"]);
    check_error(
        "completion tcsh",
        &expect![[r#"rubelet completion knows no "tcsh": rubelet completion bash|zsh|fish"#]],
    );
}

#[test]
fn a_flag_of_another_command_is_named_with_its_command() {
    check_error(
        "pods --max-pods=5",
        &expect!["rubelet pods has no flag --max-pods; rubelet pods --help lists its flags"],
    );
    check_error(
        "--max-pods=5 pods",
        &expect!["rubelet pods has no flag --max-pods; rubelet pods --help lists its flags"],
    );
    check_error("pods --outptu json", &expect!["rubelet pods has no flag --outptu; did you mean --output?"]);
    check_error(
        "pods -w",
        &expect!["rubelet pods has no flag -w; to see changes, run it every second: watch -n 1 rubelet pods"],
    );
    check_error(
        "pods --watch",
        &expect!["rubelet pods has no flag --watch; to see changes, run it every second: watch -n 1 rubelet pods"],
    );
    check_error("pods -l app=web", &expect!["rubelet pods has no flag -l; rubelet pods --help lists its flags"]);
    check_error("explain web -A", &expect!["rubelet explain has no flag -A; rubelet explain --help lists its flags"]);
    check_error(
        "pods -namespace kube-system",
        &expect![[
            r#"unknown flag "-namespace"; flags of more than one letter take two dashes; did you mean --namespace?"#
        ]],
    );
    check_error("-o json", &expect!["unknown flag -o; rubelet --help lists all of them"]);
    check_error("-n kube-system", &expect!["unknown flag -n; rubelet --help lists all of them"]);
    check_error("--no-such-thing pods", &expect!["unknown flag --no-such-thing; rubelet --help lists all of them"]);
    check_error("pods -n", &expect!["flag --namespace needs a value: write --namespace=VALUE"]);
}

#[test]
fn deprecated_flags_work_and_are_named_once() {
    let options =
        run("--max-pods=5 --max-pods=6 --config=/c --maximum-dead-containers=1 --boot-id-file=/b -v=2 --provider-id=x");
    expect![[r#"
        flag --max-pods is deprecated: set maxPods in the --config file instead
        flag --maximum-dead-containers is deprecated: use --eviction-hard or --eviction-soft instead; it will be removed
        flag --boot-id-file is deprecated: it does nothing; it came from cAdvisor by mistake and will be removed"#]]
    .assert_eq(&options.warnings.join("\n"));
}

#[test]
fn commands_find_their_socket() {
    let socket = |line| match command(line) {
        Ok(Command::Pods { query, namespace }) => {
            format!("{} {:?} {}", query.socket.display(), query.output, namespace.unwrap_or_default())
        }
        Ok(Command::Explain { pod, query }) => format!("{pod} {} {:?}", query.socket.display(), query.output),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(socket("pods"), "/var/lib/kubelet/rubelet.sock Table ");
    assert_eq!(socket("pods -o json --root-dir=/r"), "/r/rubelet.sock Json ");
    assert_eq!(socket("pods -ojson --root_dir /r --socket /s"), "/s Json ");
    assert_eq!(socket("pods -n kube-system"), "/var/lib/kubelet/rubelet.sock Table kube-system");
    assert_eq!(socket("pods -nkube-system -A"), "/var/lib/kubelet/rubelet.sock Table ");
    assert_eq!(socket("explain default/web --output=table"), "default/web /var/lib/kubelet/rubelet.sock Table");
    assert_eq!(socket("explain web -n kube-system"), "kube-system/web /var/lib/kubelet/rubelet.sock Table");
    assert_eq!(socket("explain a/web -n b"), "a/web /var/lib/kubelet/rubelet.sock Table");
}

#[test]
fn flags_may_stand_before_the_command() {
    for line in ["--root-dir /r pods -o json", "--root-dir=/r -o json pods", "-ojson --root_dir /r -- pods"] {
        match command(line) {
            Ok(Command::Pods { query, .. }) => {
                assert_eq!((query.output, query.socket.to_str()), (Output::Json, Some("/r/rubelet.sock")), "{line}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }
    match command("--fail-swap-on --max-pods 5 check -o json") {
        Ok(Command::Check { output, options }) => assert_eq!((output, options.config.max_pods), (Output::Json, 5)),
        other => panic!("{other:?}"),
    }
    // The value of a flag is no command.
    assert_eq!(run("--root-dir pods").flags.root_dir, "pods");
}

#[test]
fn check_takes_the_flags_of_a_run_and_its_own_have_an_effect() {
    match command("check -o json --container-runtime-endpoint=unix:///x --root-dir=/r") {
        Ok(Command::Check { output, options }) => {
            assert_eq!((output, options.config.container_runtime_endpoint.as_str()), (Output::Json, "unix:///x"));
            assert_eq!(options.unacted(), [""; 0]);
            assert_eq!(options.used(), ["--container-runtime-endpoint=unix:///x", "--root-dir=/r"]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_version_is_one_that_kubeadm_can_read() {
    let text = printed("--version");
    let version = text.strip_prefix("Kubernetes v").and_then(|rest| rest.strip_suffix('\n')).expect("its form");
    // kubeadm: three numbers, then only letters, digits, '_', '-', '.' and '+'.
    let (numbers, build) = version.split_once('+').expect("our own version");
    assert_eq!(numbers, "1.36.4");
    assert!(build.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.')), "{build}");
    assert_eq!(printed("--version=true"), text);
    assert!(printed("--version=raw").contains("GitVersion:\"v1.36.4+rubelet."));
    assert_eq!(run("--version=v1.36.4-custom").reported_version, "v1.36.4-custom");
    assert_eq!(run("--version=false").reported_version, REPORTED_VERSION);
}

#[test]
fn help_comes_before_everything_and_is_grouped() {
    assert_eq!(printed("-h"), printed("--help --version"));
    expect_file!["help.txt"].assert_eq(&printed("--help"));
    assert!(printed("--help").lines().all(|line| line.chars().count() <= 110), "lines fit a terminal");
    assert!(printed("check -h").contains("Container runtime:"));
    let gates = printed("--feature-gates=help");
    assert!(gates.contains("MemoryQoS=true|false (ALPHA - default=false)") && !gates.contains("NodeSwap="));
}

#[test]
fn help_of_a_command_is_the_same_however_it_is_asked_for() {
    for spec in commands::all() {
        let text = printed(&format!("{} --help", spec.name));
        assert_eq!(printed(&format!("help {}", spec.name)), text);
        assert_eq!(printed(&format!("-h {}", spec.name)), text);
        assert!(text.contains(&spec.usage()), "{text}");
    }
    expect![[r#"
        Lists the pods of this node: state, reason, restarts, age. It asks the running rubelet, over a
        socket that only root may open, and needs no API server.

        Usage:
          rubelet pods [FLAGS]

        Examples:
          # list all pods
          rubelet pods
          # list those of one namespace
          rubelet pods -n kube-system
          # list them for a program
          rubelet pods -o json

        Of this command:
          -o, --output table|json       How the result is shown. (default table)
          -n, --namespace TEXT          Only pods of this namespace; without it, those of all namespaces.
          -A, --all-namespaces          Pods of all namespaces, whatever --namespace says. This is what
                                        happens without either.
              --socket PATH             Socket of the running rubelet, if it is not the one in its root
                                        directory.

        Start-up and identity:
              --root-dir PATH           Directory for pods, volumes and everything else that is kept.
                                        (default /var/lib/kubelet)

        Program:
          -h, --help                    Show this text.
    "#]]
    .assert_eq(&printed("help pods"));
}

#[test]
fn every_command_is_complete_and_its_examples_are_valid() {
    for spec in commands::all() {
        let first = spec.about.chars().next();
        assert!(first.is_some_and(char::is_lowercase) && !spec.about.ends_with('.'), "{}", spec.about);
        assert!(spec.text.ends_with('.') && !spec.examples.is_empty(), "{}", spec.name);
        let mut names: Vec<_> = spec.flags().iter().map(|flag| flag.name).collect();
        let mut letters: Vec<_> = spec.flags().iter().filter_map(|flag| flag.short).collect();
        names.sort_unstable();
        letters.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{}: a flag is there twice", spec.name);
        assert!(letters.windows(2).all(|two| two[0] != two[1]), "{}: a letter is there twice", spec.name);
        for (line, what) in spec.examples {
            let line = line.split(" > ").next().unwrap_or_default();
            let rest = line.strip_prefix("rubelet").expect("an example is of this program");
            assert!(command(rest).is_ok(), "{line}: {:?}", command(rest));
            assert!(
                line.starts_with(&spec.full_name()) && what.chars().next().is_some_and(char::is_lowercase),
                "{what}"
            );
        }
    }
}

#[test]
fn manual_pages_are_plain_roff() {
    let pages = man_pages();
    assert_eq!(pages.len(), commands::all().count());
    for (name, page) in &pages {
        assert!(page.is_ascii(), "{name}: {:?}", page.chars().find(|letter| !letter.is_ascii()));
        for line in page.lines() {
            let request = line.strip_prefix('.').map(|rest| rest.split(' ').next().unwrap_or_default());
            let known = ["TH", "SH", "SS", "TP", "PP", "B", "I", "br", "RS", "RE", "nf", "fi"];
            assert!(request.is_none_or(|request| known.contains(&request)), "{name}: {line}");
            assert!(!line.starts_with('\''), "{name}: {line}");
        }
    }
    let (_, page) = pages.iter().find(|(name, _)| name == "rubelet-pods.8").expect("it is there");
    assert_eq!(*page, printed("man pods"));
    expect![[r#"
        .TH RUBELET\-PODS 8 "" "rubelet 0.1.0" "rubelet"
        .SH NAME
        rubelet\-pods \- list the pods of this node
        .SH SYNOPSIS
        \fBrubelet pods\fR [\fIFLAGS\fR]
        .SH DESCRIPTION
        Lists the pods of this node: state, reason, restarts, age. It asks the running rubelet, over a socket that only root may open, and needs no API server.
        .SH OPTIONS
        .SS Of this command
        .TP
        \fB\-o\fR, \fB\-\-output\fR \fItable|json\fR
        How the result is shown. (default table)
        .TP
        \fB\-n\fR, \fB\-\-namespace\fR \fITEXT\fR
        Only pods of this namespace; without it, those of all namespaces.
        .TP
        \fB\-A\fR, \fB\-\-all\-namespaces\fR
        Pods of all namespaces, whatever \-\-namespace says. This is what happens without either.
        .TP
        \fB\-\-socket\fR \fIPATH\fR
        Socket of the running rubelet, if it is not the one in its root directory.
        .SS Start\-up and identity
        .TP
        \fB\-\-root\-dir\fR \fIPATH\fR
        Directory for pods, volumes and everything else that is kept. (default /var/lib/kubelet)
        .SS Program
        .TP
        \fB\-h\fR, \fB\-\-help\fR
        Show this text.
        .SH EXIT STATUS
        .TP
        .B 0
        Success.
        .TP
        .B 1
        A problem was found, or the command failed.
        .TP
        .B 2
        The command line is invalid.
        .SH ENVIRONMENT
        .TP
        .B NO_COLOR
        If it is set, output has no colours.
        .SH EXAMPLES
        List all pods:
        .PP
        .RS
        .nf
        rubelet pods
        .fi
        .RE
        .PP
        List those of one namespace:
        .PP
        .RS
        .nf
        rubelet pods \-n kube\-system
        .fi
        .RE
        .PP
        List them for a program:
        .PP
        .RS
        .nf
        rubelet pods \-o json
        .fi
        .RE
        .PP
        .SH SEE ALSO
        \fBrubelet\fR(8),
        \fBrubelet\-explain\fR(8),
        \fBrubelet\-top\fR(8),
        \fBrubelet\-events\fR(8),
        \fBrubelet\-logs\fR(8),
        \fBrubelet\-status\fR(8),
        \fBrubelet\-check\fR(8),
        \fBrubelet\-config\-show\fR(8),
        \fBrubelet\-config\-validate\fR(8),
        \fBrubelet\-version\fR(8),
        \fBrubelet\-help\fR(8),
        \fBrubelet\-completion\fR(8),
        \fBrubelet\-man\fR(8)
    "#]].assert_eq(page);
    let (name, page) = pages.first().expect("that of the agent");
    assert_eq!((name.as_str(), page), ("rubelet.8", &printed("man")));
    let missing: Vec<_> = table::run_flags().filter(|flag| !page.contains(&flag.name.replace('-', "\\-"))).collect();
    assert!(missing.is_empty());
}

#[test]
fn flg_01_every_flag_is_shown_with_its_value_and_headers_are_not() {
    let mut config = KubeletConfiguration { read_only_port: 10_255, ..KubeletConfiguration::default() };
    config.static_pod_url_header.insert("Authorization".into(), vec!["hush".into()]);
    let flags = KubeletFlags { sessions_need_create: true, ..KubeletFlags::default() };
    let shown = in_force(&config, &flags);
    assert_eq!(shown.len(), table::run_flags().count());
    for (name, value) in [
        ("read-only-port", "10255"),
        ("sessions-need-create", "true"),
        ("api-pod-cache", "false"),
        ("root-dir", "/var/lib/kubelet"),
        ("sync-frequency", "1m0s"),
        ("manifest-url-header", "CLASSIFIED"),
    ] {
        assert_eq!(shown.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[test]
fn every_flag_has_its_place_and_its_words() {
    let names: Vec<_> = table::run_flags().map(|flag| flag.name).collect();
    let own: Vec<_> = table::run_flags().filter(|flag| flag.group == flag::Group::Own).map(|flag| flag.name).collect();
    assert_eq!(own, ["api-pod-cache", "eviction-spares-page-cache", "sessions-need-create", "local-ui"]);
    assert_eq!(names.len() - own.len(), 149, "upstream has 149 on Linux");
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), names.len(), "no flag is there twice");
    for flag in table::run_flags() {
        assert!(flag.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{}", flag.name);
        assert!(!flag.help.is_empty() || flag.group == flag::Group::NoEffect, "{}", flag.name);
    }
}

#[test]
fn every_flag_of_a_field_writes_that_field() {
    let words = |kind: &Kind| -> Vec<&str> {
        match kind {
            Kind::Bool(_) => vec!["true", "false"],
            Kind::Int32(_) | Kind::Int64(_) => vec!["77"],
            Kind::Duration(_) => vec!["77s"],
            Kind::Text(_) | Kind::Path(_) | Kind::List(_) => vec!["seventy"],
            Kind::Map(_) | Kind::Pair(_) | Kind::Labels(_) => vec!["a=b"],
            Kind::Thresholds(_) => vec!["a<b"],
            Kind::Gates(_) => vec!["A=true"],
            Kind::Headers(_) => vec!["a:b"],
            Kind::ReservedMemory(_) => vec!["0:memory=1Gi"],
            Kind::Word { .. } => vec![
                "systemd",
                "static",
                "Static",
                "best-effort",
                "pod",
                "hairpin-veth",
                "Webhook",
                "json",
                "77",
                "77s",
                "a=7",
                "::1",
                "a=b:NoSchedule",
                "512",
            ],
            Kind::Help | Kind::Version => vec![],
        }
    };
    let json = |config: &KubeletConfiguration| serde_json::to_value(config).expect("serialises");
    for flag in table::run_flags() {
        let Some(field) = flag.config_field() else { continue };
        let before = KubeletConfiguration::legacy_defaults();
        let changed = words(&flag.kind).iter().any(|word| {
            let mut settings = Settings::over(before.clone());
            let _ = value::set(&flag.kind, &mut settings, word, Use::First);
            let path = format!("/{}", field.replace('.', "/"));
            json(&settings.config).pointer(&path) != json(&before).pointer(&path)
        });
        assert!(changed, "--{} does not write {field}", flag.name);
    }
}

#[test]
fn flags_are_logged_without_secrets() {
    let options = run("--manifest-url-header=Authorization:secret --storage-driver-password=secret --max-pods=5");
    assert_eq!(
        options.used(),
        ["--manifest-url-header=<masked>", "--storage-driver-password=<masked>", "--max-pods=5"]
    );
}

#[test]
fn flags_without_effect_are_known() {
    let options =
        run("--node-ip=10.0.0.1 --node-ip=10.0.0.2 --root-dir=/r --max-pods=5 --boot-id-file=/b --runtime-cgroups=/c");
    assert_eq!(options.unacted(), ["--runtime-cgroups"]);
    let known: Vec<_> = table::run_flags().map(|flag| flag.name).collect();
    assert!(ACTED_FLAGS.iter().all(|name| known.contains(name)));
}

#[test]
fn what_flags_set_is_known_by_field() {
    let options = run("--max-pods=5 --anonymous-auth=false --feature-gates=MemoryQoS=true,NodeSwap=true --root-dir=/x");
    let given = options.given();
    assert_eq!(
        given.iter().collect::<Vec<_>>(),
        ["authentication.anonymous.enabled", "featureGates.MemoryQoS", "featureGates.NodeSwap", "maxPods"]
    );
    assert!(Gate::from_name("MemoryQoS").is_some());
}
