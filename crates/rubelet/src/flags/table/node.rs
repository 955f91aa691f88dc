//! Start-up, identity, the cluster.

use rubelet_core::config::{node_ips, parse_taints};

use super::{Flag, Group, Kind};

pub(super) static FLAGS: &[Flag] = &[
    Flag::new(
        "config",
        Group::Start,
        Kind::Path(|s| &mut s.flags.config),
        "KubeletConfiguration file (YAML or JSON). Flags win over it. With a file, its own, stricter defaults hold.",
    ),
    Flag::new(
        "config-dir",
        Group::Start,
        Kind::Path(|s| &mut s.flags.config_dir),
        "Directory of drop-ins: every *.conf below it is merged over --config, in lexical order.",
    ),
    Flag::new(
        "kubeconfig",
        Group::Start,
        Kind::Path(|s| &mut s.flags.kubeconfig),
        "How to reach the API server. Without it the node is standalone and runs static pods only.",
    ),
    Flag::new(
        "bootstrap-kubeconfig",
        Group::Start,
        Kind::Path(|s| &mut s.flags.bootstrap_kubeconfig),
        "How to ask for a client certificate while the file named by --kubeconfig does not exist.",
    ),
    Flag::new(
        "root-dir",
        Group::Start,
        Kind::Path(|s| &mut s.flags.root_dir),
        "Directory for pods, volumes and everything else that is kept.",
    ),
    Flag::new(
        "cert-dir",
        Group::Start,
        Kind::Path(|s| &mut s.flags.cert_dir),
        "Directory for certificates; not used if --tls-cert-file and --tls-private-key-file are given.",
    ),
    Flag::new(
        "hostname-override",
        Group::Start,
        Kind::Text(|s| &mut s.flags.hostname_override),
        "Name of the node instead of the host's.",
    ),
    Flag::new(
        "node-ip",
        Group::Start,
        Kind::Word {
            value_name: "IP[,IP]",
            set: |s, word| {
                node_ips(word).map_err(|e| e.to_string())?;
                word.clone_into(&mut s.flags.node_ip);
                Ok(())
            },
            show: |s| s.flags.node_ip.clone(),
        },
        "Address of the node, or one of each family. 0.0.0.0 or :: choose a family and nothing more.",
    ),
    Flag::new(
        "node-labels",
        Group::Start,
        Kind::Labels(|s| &mut s.flags.node_labels),
        "Labels to register with. In kubernetes.io and k8s.io only the well-known ones, and those in \
         kubelet.kubernetes.io and node.kubernetes.io.",
    ),
    Flag::new(
        "provider-id",
        Group::Start,
        Kind::Text(|s| &mut s.config.provider_id),
        "Identity of this machine at its provider.",
    )
    .also("providerID"),
    Flag::new(
        "cloud-provider",
        Group::Start,
        Kind::Word {
            value_name: "NAME",
            set: |s, word| {
                if !matches!(word, "" | "external") {
                    return Err("must be empty or external: the built-in providers were removed".into());
                }
                word.clone_into(&mut s.flags.cloud_provider);
                Ok(())
            },
            show: |s| s.flags.cloud_provider.clone(),
        },
        "Empty, or external if a cloud controller finishes the node's registration.",
    ),
    Flag::new(
        "lock-file",
        Group::Start,
        Kind::Path(|s| &mut s.flags.lock_file),
        "File to lock, so that only one kubelet runs. (Alpha)",
    ),
    Flag::new(
        "exit-on-lock-contention",
        Group::Start,
        Kind::Bool(|s| &mut s.flags.exit_on_lock_contention),
        "Exit as soon as another process opens --lock-file.",
    ),
    Flag::new(
        "feature-gates",
        Group::Start,
        Kind::Gates(|s| &mut s.config.feature_gates),
        "Features to turn on or off; merged with those of the file. --feature-gates=help lists them.",
    )
    .field("featureGates"),
    Flag::new(
        "register-node",
        Group::Cluster,
        Kind::Bool(|s| &mut s.config.register_node),
        "Register the node with the API server.",
    )
    .field("registerNode"),
    Flag::new(
        "register-with-taints",
        Group::Cluster,
        Kind::Word {
            value_name: "K=V:EFFECT,…",
            set: |s, word| {
                s.config.register_with_taints = parse_taints(word).map_err(|e| e.to_string())?;
                Ok(())
            },
            show: |_| String::new(),
        },
        "Taints to register with.",
    )
    .field("registerWithTaints"),
    Flag::new(
        "node-status-update-frequency",
        Group::Cluster,
        Kind::Duration(|s| &mut s.config.node_status_update_frequency),
        "How often the node's status is computed.",
    )
    .field("nodeStatusUpdateFrequency"),
    Flag::new(
        "node-status-max-images",
        Group::Cluster,
        Kind::Int32(|s| &mut s.config.node_status_max_images),
        "Most images listed in the node's status; -1 for all.",
    )
    .field("nodeStatusMaxImages"),
    Flag::new(
        "kube-api-content-type",
        Group::Cluster,
        Kind::Text(|s| &mut s.config.content_type),
        "Encoding of requests to the API server.",
    )
    .field("contentType"),
    Flag::new(
        "kube-api-qps",
        Group::Cluster,
        Kind::Int32(|s| &mut s.config.kube_api_qps),
        "Requests to the API server per second, events and heartbeats apart.",
    )
    .field("kubeAPIQPS"),
    Flag::new(
        "kube-api-burst",
        Group::Cluster,
        Kind::Int32(|s| &mut s.config.kube_api_burst),
        "Requests allowed at once above --kube-api-qps.",
    )
    .field("kubeAPIBurst"),
    Flag::new(
        "event-qps",
        Group::Cluster,
        Kind::Int32(|s| &mut s.config.event_record_qps),
        "Events sent per second; 0 for no limit.",
    )
    .field("eventRecordQPS"),
    Flag::new(
        "event-burst",
        Group::Cluster,
        Kind::Int32(|s| &mut s.config.event_burst),
        "Events allowed at once above --event-qps.",
    )
    .field("eventBurst"),
];
