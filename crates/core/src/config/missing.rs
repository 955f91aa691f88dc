//! Capabilities of upstream's kubelet that rubelet lacks: one table for the log at start-up and for `rubelet check`.
//!
//! A field is either in this table or in [`ACTED_FIELDS`](super::ACTED_FIELDS): it moves there when its capability is
//! implemented, and a test fails for a field that is in both or in neither.

/// One missing capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name, as a user would search for it.
    pub what: &'static str,
    /// What happens on a node without it.
    pub instead: &'static str,
    /// When upstream does it.
    pub when: When,
    /// The fields that enable or configure it.
    pub fields: &'static [&'static str],
}

/// When upstream's kubelet does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// With the defaults of a configuration file, or when a pod uses it.
    ByDefault,
    /// Only if a field asks for it. Such a field is reported at start when it is set.
    Asked,
}

const fn by_default(what: &'static str, instead: &'static str, fields: &'static [&'static str]) -> Missing {
    Missing { what, instead, when: When::ByDefault, fields }
}

const fn asked(what: &'static str, instead: &'static str, fields: &'static [&'static str]) -> Missing {
    Missing { what, instead, when: When::Asked, fields }
}

/// Every missing capability. The change that implements one removes its entry.
pub const MISSING: &[Missing] = &[
    by_default(
        "volumes beyond emptyDir, hostPath, configMap, secret, downwardAPI and projected (CSI, image, network file systems)",
        "a pod with another volume does not start",
        &["volumePluginDir", "volumeStatsAggPeriod"],
    ),
    by_default("device plugins and resource claims", "a pod that asks for a device does not run here", &[]),
    by_default("user namespaces for pods", "a pod with hostUsers: false does not start", &["userNamespaces"]),
    by_default("the pod-resources socket", "monitoring of devices finds no socket", &[]),
    by_default(
        "proof of a pod's right to an image that is on the node already",
        "every pod may use every image that is on the node",
        &["imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist"],
    ),
    by_default(
        "iptables chains (KUBE-IPTABLES-HINT, KUBE-KUBELET-CANARY)",
        "programs that look for these chains do not find them",
        &["makeIPTablesUtilChains", "iptablesMasqueradeBit", "iptablesDropBit"],
    ),
    asked("profiles of locks (/debug/pprof/block)", "they answer 501", &["enableContentionProfiling"]),
    asked(
        "CPU, memory and topology managers",
        "no container has exclusive CPUs or memory",
        &[
            "cpuManagerPolicy",
            "cpuManagerPolicyOptions",
            "cpuManagerReconcilePeriod",
            "memoryManagerPolicy",
            "reservedMemory",
            "reservedSystemCPUs",
            "topologyManagerPolicy",
            "topologyManagerScope",
            "topologyManagerPolicyOptions",
        ],
    ),
    asked(
        "protection of memory by cgroup v2 (MemoryQoS)",
        "requests of memory do not protect it",
        &["memoryThrottlingFactor", "memoryReservationPolicy", "qosReserved"],
    ),
    asked("a choice of key exchange groups", "the library's are used", &["tlsCurvePreferences"]),
    asked("hidden metrics of older releases", "they are not there", &["showHiddenMetricsForVersion"]),
    asked("a separate stream or buffer for log lines", "lines go to stderr at once", &["logging.options"]),
];

/// Fields that change nothing in upstream's kubelet either, or nothing on a node with a CRI runtime and an API server.
pub const WITHOUT_EFFECT_UPSTREAM: &[&str] = &["hairpinMode", "podCIDR", "contentType"];

/// The names of missing capabilities that upstream has by default.
pub fn missing_by_default() -> impl Iterator<Item = &'static Missing> {
    MISSING.iter().filter(|missing| missing.when == When::ByDefault)
}
