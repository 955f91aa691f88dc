//! Static pods, runtime, images, DNS and logs of pods.

use rubelet_core::config::{Choice, HairpinMode};

use super::{Flag, Group, Kind};

pub(super) static FLAGS: &[Flag] = &[
    Flag::new(
        "pod-manifest-path",
        Group::StaticPods,
        Kind::Path(|s| &mut s.config.static_pod_path),
        "File or directory of manifests; names that start with a dot are ignored.",
    )
    .field("staticPodPath"),
    Flag::new(
        "file-check-frequency",
        Group::StaticPods,
        Kind::Duration(|s| &mut s.config.file_check_frequency),
        "How often manifests are read again even if nothing seemed to change.",
    )
    .field("fileCheckFrequency"),
    Flag::new(
        "manifest-url",
        Group::StaticPods,
        Kind::Text(|s| &mut s.config.static_pod_url),
        "URL of further manifests.",
    )
    .field("staticPodURL"),
    Flag::new(
        "manifest-url-header",
        Group::StaticPods,
        Kind::Headers(|s| &mut s.config.static_pod_url_header),
        "Headers sent to --manifest-url.",
    )
    .field("staticPodURLHeader"),
    Flag::new(
        "http-check-frequency",
        Group::StaticPods,
        Kind::Duration(|s| &mut s.config.http_check_frequency),
        "How often --manifest-url is fetched.",
    )
    .field("httpCheckFrequency"),
    Flag::new(
        "container-runtime-endpoint",
        Group::Runtime,
        Kind::Text(|s| &mut s.config.container_runtime_endpoint),
        "Socket of the CRI runtime.",
    )
    .field("containerRuntimeEndpoint"),
    Flag::new(
        "image-service-endpoint",
        Group::Runtime,
        Kind::Text(|s| &mut s.config.image_service_endpoint),
        "Socket of the CRI image service; empty for the runtime's.",
    )
    .field("imageServiceEndpoint"),
    Flag::new(
        "runtime-request-timeout",
        Group::Runtime,
        Kind::Duration(|s| &mut s.config.runtime_request_timeout),
        "How long a call to the runtime may take; pulls, logs, exec and attach apart.",
    )
    .field("runtimeRequestTimeout"),
    Flag::new(
        "runtime-cgroups",
        Group::Runtime,
        Kind::Text(|s| &mut s.flags.runtime_cgroups),
        "Cgroup that the runtime runs in.",
    ),
    Flag::new(
        "sync-frequency",
        Group::Pods,
        Kind::Duration(|s| &mut s.config.sync_frequency),
        "Longest time between two syncs of an unchanged pod.",
    )
    .field("syncFrequency"),
    Flag::new("max-pods", Group::Pods, Kind::Int32(|s| &mut s.config.max_pods), "Most pods on this node.")
        .field("maxPods"),
    Flag::new(
        "pods-per-core",
        Group::Pods,
        Kind::Int32(|s| &mut s.config.pods_per_core),
        "Most pods per cpu, within --max-pods; 0 for no such limit.",
    )
    .field("podsPerCore"),
    Flag::new(
        "pod-max-pids",
        Group::Pods,
        Kind::Int64(|s| &mut s.config.pod_pids_limit),
        "Most processes per pod; -1 for what the node can hold.",
    )
    .field("podPidsLimit"),
    Flag::new("pod-cidr", Group::Pods, Kind::Text(|s| &mut s.config.pod_cidr), "Pod addresses of a standalone node.")
        .field("podCIDR"),
    Flag::new(
        "cluster-dns",
        Group::Pods,
        Kind::List(|s| &mut s.config.cluster_dns),
        "Name servers of pods with DNS policy ClusterFirst.",
    )
    .field("clusterDNS"),
    Flag::new(
        "cluster-domain",
        Group::Pods,
        Kind::Text(|s| &mut s.config.cluster_domain),
        "Domain that pods search besides the host's.",
    )
    .field("clusterDomain"),
    Flag::new(
        "resolv-conf",
        Group::Pods,
        Kind::Path(|s| &mut s.config.resolv_conf),
        "Resolver file that pods' own is built on; empty for none.",
    )
    .field("resolvConf"),
    Flag::new(
        "hairpin-mode",
        Group::Pods,
        Kind::Word {
            value_name: "MODE",
            set: |s, word| {
                s.config.hairpin_mode = word.parse::<HairpinMode>().map_err(|e| e.to_string())?;
                Ok(())
            },
            show: |s| s.config.hairpin_mode.word().to_owned(),
        },
        "promiscuous-bridge, hairpin-veth or none; CRI runtimes do their own networking.",
    )
    .field("hairpinMode"),
    Flag::new(
        "allowed-unsafe-sysctls",
        Group::Pods,
        Kind::List(|s| &mut s.config.allowed_unsafe_sysctls),
        "Sysctls that pods may set although they can hurt the node; a trailing * matches a prefix.",
    )
    .field("allowedUnsafeSysctls"),
    Flag::new(
        "seccomp-default",
        Group::Pods,
        Kind::Bool(|s| &mut s.flags.seccomp_default),
        "Give pods that name no seccomp profile the runtime's.",
    ),
    Flag::new(
        "container-log-max-size",
        Group::Pods,
        Kind::Text(|s| &mut s.config.container_log_max_size),
        "Size at which a container's log is rotated.",
    )
    .field("containerLogMaxSize"),
    Flag::new(
        "container-log-max-files",
        Group::Pods,
        Kind::Int32(|s| &mut s.config.container_log_max_files),
        "Log files kept per container; 2 or more.",
    )
    .field("containerLogMaxFiles"),
    Flag::new(
        "enable-controller-attach-detach",
        Group::Pods,
        Kind::Bool(|s| &mut s.config.enable_controller_attach_detach),
        "Leave attaching of volumes to the control plane.",
    )
    .field("enableControllerAttachDetach"),
    Flag::new(
        "volume-plugin-dir",
        Group::Pods,
        Kind::Path(|s| &mut s.config.volume_plugin_dir),
        "Directory of exec volume plugins.",
    )
    .field("volumePluginDir"),
    Flag::new(
        "volume-stats-agg-period",
        Group::Pods,
        Kind::Duration(|s| &mut s.config.volume_stats_agg_period),
        "How often volume use is measured; negative for never.",
    )
    .field("volumeStatsAggPeriod"),
    Flag::new(
        "local-storage-capacity-isolation",
        Group::Pods,
        Kind::Bool(|s| &mut s.config.local_storage_capacity_isolation),
        "Account and limit local storage of pods.",
    )
    .field("localStorageCapacityIsolation"),
    Flag::new(
        "registry-qps",
        Group::Images,
        Kind::Int32(|s| &mut s.config.registry_pull_qps),
        "Image pulls per second; 0 for no limit.",
    )
    .field("registryPullQPS"),
    Flag::new(
        "registry-burst",
        Group::Images,
        Kind::Int32(|s| &mut s.config.registry_burst),
        "Image pulls allowed at once above --registry-qps.",
    )
    .field("registryBurst"),
    Flag::new(
        "serialize-image-pulls",
        Group::Images,
        Kind::Bool(|s| &mut s.config.serialize_image_pulls),
        "Pull one image at a time.",
    )
    .field("serializeImagePulls"),
    Flag::new(
        "image-credential-provider-config",
        Group::Images,
        Kind::Path(|s| &mut s.flags.image_credential_provider_config),
        "Configuration of credential provider plugins: a file, or a directory of files.",
    ),
    Flag::new(
        "image-credential-provider-bin-dir",
        Group::Images,
        Kind::Path(|s| &mut s.flags.image_credential_provider_bin_dir),
        "Directory of credential provider plugins.",
    ),
    Flag::new(
        "minimum-image-ttl-duration",
        Group::Images,
        Kind::Duration(|s| &mut s.config.image_minimum_gc_age),
        "Youngest unused image that may be removed.",
    )
    .field("imageMinimumGCAge"),
    Flag::new(
        "image-gc-high-threshold",
        Group::Images,
        Kind::Int32(|s| &mut s.config.image_gc_high_threshold_percent),
        "Disk use in percent at which image removal starts; 100 for never.",
    )
    .field("imageGCHighThresholdPercent"),
    Flag::new(
        "image-gc-low-threshold",
        Group::Images,
        Kind::Int32(|s| &mut s.config.image_gc_low_threshold_percent),
        "Disk use in percent at which image removal stops.",
    )
    .field("imageGCLowThresholdPercent"),
];
