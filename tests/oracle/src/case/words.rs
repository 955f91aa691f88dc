//! Words, numbers and amounts for the fields of a manifest: those that are right, those that are nearly right, and odd ones.

use serde_json::{Value, json};

use crate::rng::Rng;

/// Fields that most structs which have them cannot do without.
pub const NEEDED: [&str; 19] = [
    "name",
    "path",
    "key",
    "operator",
    "mountPath",
    "containerPort",
    "port",
    "image",
    "command",
    "topologyKey",
    "whenUnsatisfiable",
    "maxSkew",
    "type",
    "fieldPath",
    "resource",
    "resourceName",
    "ip",
    "action",
    "volumeID",
];

const ODD: [&str; 22] = [
    "", "a", "A", "a.b", "a-b", "-a", "a-", "a_b", "a/b", "/a", "a/../b", "..", ".", "/", "1", "é", "a b", "a:b",
    "a,b", "a=b", "$(A)", "a\n",
];

/// A text for a field of a type.
pub fn text(rng: &mut Rng, ty: &str, name: &str) -> String {
    match rng.below(20) {
        0 => (*rng.pick(&ODD)).to_owned(),
        1 if rng.chance(30) => rng.pick(&["a", "x.", "a-"]).repeat(1 + rng.below(140)),
        _ => (*rng.pick(fitting(ty, name))).to_owned(),
    }
}

/// What fits a type or a field.
fn fitting(ty: &str, name: &str) -> &'static [&'static str] {
    match ty.trim_start_matches("core.") {
        "AppArmorProfileType" | "SeccompProfileType" => &["RuntimeDefault", "Unconfined", "Localhost"],
        "AzureDataDiskCachingMode" => &["None", "ReadOnly", "ReadWrite"],
        "AzureDataDiskKind" => &["Shared", "Dedicated", "Managed"],
        "Capability" => &["NET_ADMIN", "ALL", "SYS_ADMIN"],
        "ConditionStatus" => &["True", "False", "Unknown"],
        "ContainerRestartPolicy" | "RestartPolicy" => &["Always", "OnFailure", "Never"],
        "ContainerRestartRuleAction" => &["Restart", "RestartAllContainers"],
        "ContainerRestartRuleOnExitCodesOperator" => &["In", "NotIn"],
        "DNSPolicy" => &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        "HostPathType" => &["", "Directory", "DirectoryOrCreate", "File", "Socket", "CharDevice", "BlockDevice"],
        "MountPropagationMode" => &["None", "HostToContainer", "Bidirectional"],
        "NodeInclusionPolicy" => &["Ignore", "Honor"],
        "NodeSelectorOperator" | "v1.LabelSelectorOperator" => &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
        "OSName" => &["linux", "linux", "linux", "windows"],
        "PersistentVolumeAccessMode" => &["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"],
        "PersistentVolumeMode" => &["Filesystem", "Block"],
        "PodConditionType" => &["Ready", "example.com/gate"],
        "PodFSGroupChangePolicy" => &["OnRootMismatch", "Always"],
        "PodPhase" => &["Pending", "Running", "Failed"],
        "PodQOSClass" => &["Guaranteed", "Burstable", "BestEffort"],
        "PodSELinuxChangePolicy" => &["Recursive", "MountOption"],
        "PreemptionPolicy" => &["PreemptLowerPriority", "Never"],
        "ProcMountType" => &["Default", "Unmasked"],
        "Protocol" => &["TCP", "UDP", "SCTP"],
        "PullPolicy" => &["Always", "IfNotPresent", "Never"],
        "RecursiveReadOnlyMode" => &["Disabled", "IfPossible", "Enabled"],
        "ResourceName" => &[
            "cpu",
            "memory",
            "ephemeral-storage",
            "hugepages-2Mi",
            "hugepages-1Gi",
            "example.com/gpu",
            "storage",
            "pods",
            "requests.cpu",
            "kubernetes.io/x",
        ],
        "ResourceResizeRestartPolicy" => &["NotRequired", "RestartContainer"],
        "Signal" => &["SIGTERM", "SIGKILL", "SIGRTMIN+1", "SIGUSR1"],
        "StorageMedium" => &["", "Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi", "HugePages-3Mi"],
        "SupplementalGroupsPolicy" => &["Merge", "Strict"],
        "TaintEffect" => &["NoSchedule", "PreferNoSchedule", "NoExecute", ""],
        "TerminationMessagePolicy" => &["File", "FallbackToLogsOnError"],
        "TolerationOperator" => &["Exists", "Equal", "Lt", "Gt", ""],
        "URIScheme" => &["HTTP", "HTTPS"],
        "UnsatisfiableConstraintAction" => &["DoNotSchedule", "ScheduleAnyway"],
        "v1.Time" => &[
            "2026-01-01T00:00:00Z",
            "2024-06-30T12:34:56+02:00",
            "2026-01-01T00:00:00.5Z",
            "2026-01-01",
            "",
            "1970-01-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
        ],
        _ => fitting_field(name),
    }
}

fn fitting_field(name: &str) -> &'static [&'static str] {
    match name {
        "annotations key" => &[
            "a",
            "example.com/Note",
            "kubernetes.io/config.source",
            "kubernetes.io/config.hash",
            "kubernetes.io/config.mirror",
            "kubernetes.io/config.seen",
            "container.apparmor.security.beta.kubernetes.io/c0",
            "container.apparmor.security.beta.kubernetes.io/none",
            "seccomp.security.alpha.kubernetes.io/pod",
            "container.seccomp.security.alpha.kubernetes.io/c0",
            "controller.kubernetes.io/pod-deletion-cost",
            "pod.beta.kubernetes.io/init-containers",
            "scheduler.alpha.kubernetes.io/tolerations",
        ],
        "annotations" => {
            &["1", "-5", "x y", "é<&>", "runtime/default", "localhost/p", "unconfined", "docker/default", "[]", "01"]
        }
        "apiVersion" => &["v1", "v1", "v2", ""],
        "conditionType" => &["example.com/gate", "Ready"],
        "fieldPath" => &[
            "metadata.name",
            "metadata.labels",
            "metadata.labels['a']",
            "metadata.annotations['Example.com/x']",
            "spec.nodeName",
            "status.podIP",
            "status.hostIPs",
            "spec.host",
            "metadata.uid",
            "status.phase",
        ],
        "hostname" | "subdomain" | "hostnameOverride" => &["h", "a.b", "a-b"],
        "image" | "reference" => &[
            "app",
            "app:latest",
            "app:1",
            "r.example:5000/a/b",
            "app@sha256:0123",
            " app",
            "App",
            "r.example/a:v1@sha256:0123456789012345678901234567890123456789012345678901234567890123",
        ],
        "ip" | "hostIP" | "nameservers" | "host" | "podIP" => {
            &["10.0.0.1", "fd00::1", "010.0.0.1", "10.0.0.256", "::ffff:1.2.3.4", "0.0.0.0", "FD00::1"]
        }
        "labels" | "matchLabels" | "nodeSelector" | "values" | "value" => &["a", "1", "A_b.c-d", "", "10"],
        "labels key" | "matchLabels key" | "nodeSelector key" | "key" | "matchLabelKeys" => {
            &["a", "app", "example.com/a", "Example.com/a", "kubernetes.io/os", "pod-template-hash"]
        }
        "localhostProfile" => &["p", "a/b", "../p", "/p", " p"],
        "mountPath" | "devicePath" => &["/a", "/b/c", "/a/", "a", "/x:y"],
        "name" | "volumeName" | "containerName" => &["c0", "v0", "v1", "A", "a-b", "http"],
        "namespace" | "namespaces" => &["default", "kube-system"],
        "nodeName" => &["node-1", "other"],
        "port" => &["http", "80", "dns", "a-b-c-d-e-f-g-h-i", "1a", "-a"],
        "priorityClassName" => &["system-node-critical", "system-cluster-critical", "high"],
        "resource" => &["limits.cpu", "requests.memory", "limits.ephemeral-storage", "limits.hugepages-2Mi", "cpu"],
        "schedulerName" => &["default-scheduler", "own"],
        "searches" => &["example.com", "example.com.", "a_b.c", ".", "svc"],
        "subPath" | "path" => &["a", "a/b", "/a", "../a", "a/..", "..a", "a/..b"],
        "subPathExpr" => &["$(A)", "a"],
        "topologyKey" => &["kubernetes.io/hostname", "zone"],
        "uid" => &["0123", "u-1"],
        "workingDir" | "terminationMessagePath" => &["/w", "w", "/dev/x"],
        _ => &["a", "b", "c0", "v0"],
    }
}

/// A number for a field.
pub fn number(rng: &mut Rng, name: &str) -> i64 {
    const ODD: [i64; 18] = [
        0,
        1,
        -1,
        2,
        80,
        65_535,
        65_536,
        511,
        512,
        600,
        3599,
        3600,
        86_401,
        2_147_483_647,
        2_147_483_648,
        -2_147_483_649,
        4_294_967_296,
        i64::MAX,
    ];
    let fitting: &[i64] = match name {
        "port" | "containerPort" | "hostPort" => &[80, 443, 8080, 65_535, 1],
        "defaultMode" | "mode" => &[0, 420, 256, 511],
        "priority" => &[0, 1, 2_000_000_000, 2_000_001_000, -5],
        "seconds" | "tolerationSeconds" | "terminationGracePeriodSeconds" => &[0, 1, 30, 60, -1],
        "runAsUser" | "runAsGroup" | "fsGroup" | "supplementalGroups" => &[0, 1000, 65_534, 2_147_483_647],
        "weight" => &[1, 50, 100, 101, 0],
        "expirationSeconds" | "maxExpirationSeconds" => &[3600, 600, 599, 4_294_967_296],
        "values" => &[0, 1, 42, 255, 256],
        _ => &[0, 1, 3, 5, 10],
    };
    if rng.chance(12) { *rng.pick(&ODD) } else { *rng.pick(fitting) }
}

/// An amount, in any spelling that JSON has for one.
pub fn quantity(rng: &mut Rng) -> Value {
    const TEXTS: [&str; 46] = [
        "0",
        "1",
        "2",
        "100m",
        "0.1",
        "0.5",
        "1.5",
        "1500m",
        "250m",
        "1n",
        "1u",
        "999u",
        "0.0001",
        "1.0",
        "01",
        "1.50",
        "1e1",
        "1E1",
        "1e3",
        "12e6",
        "1e-3",
        "1k",
        "3k",
        "1Ki",
        "64Mi",
        "100M",
        "1Gi",
        "1.5Gi",
        "1073741824",
        "2G",
        "1Ti",
        "4Pi",
        "1Ei",
        "9223372036854775807",
        "9223372036854775808",
        "99999999999999999999",
        "+1",
        "-1",
        "-0",
        ".5",
        "5.",
        "1 Gi",
        "x",
        "",
        " 1",
        "2Mi",
    ];
    match rng.below(14) {
        0 => rng.between(-1, 5000).into(),
        1 => json!(rng.pick(&[0.5, 0.1, 1.5, 1e3, 1.0, 0.0001, 2.5e-7])),
        2 if rng.chance(10) => json!(true),
        _ => (*rng.pick(&TEXTS)).into(),
    }
}
