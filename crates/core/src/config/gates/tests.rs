//! GATE rows of section 1.5, and the rules of setting gates.

use super::*;

fn wishes(pairs: &[(&str, bool)]) -> BTreeMap<String, bool> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

fn check(names: &str, stage: GateStage, default: bool) {
    for name in names.split_whitespace() {
        let gate = Gate::from_name(name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!((gate.stage(), gate.on_by_default()), (stage, default), "{name}");
    }
}

#[test]
fn gate_ga_rows() {
    // The row calls the first by its constant; its name in files and flags is CustomCPUCFSQuotaPeriod.
    check(
        "CustomCPUCFSQuotaPeriod CPUManagerPolicyOptions CSIServiceAccountTokenSecrets DynamicResourceAllocation \
         DRAAdminAccess DRAPrioritizedList ExecProbeTimeout ImageMaximumGCAge ImageVolume InPlacePodVerticalScaling \
         KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesGet \
         KubeletPodResourcesDynamicResources KubeletTracing MutableCSINodeAllocatableCount NodeLogQuery NodeSwap \
         PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking ProcMountType \
         RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedDNSSearchValidation \
         RelaxedEnvironmentVariableValidation SELinuxChangePolicy SELinuxMountReadWriteOncePod SidecarContainers \
         SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport VolumeAttributesClass",
        GateStage::Ga,
        true,
    );
}

#[test]
fn gate_beta_on_rows() {
    check(
        "ComponentFlagz ComponentStatusz ContainerCheckpoint ContainerRestartRules CPUManagerPolicyBetaOptions \
         DRAConsumableCapacity DRAExtendedResource DRAResourceClaimDeviceStatus EnvFiles ExtendWebSocketsToKubelet \
         GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HostnameOverride \
         InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax \
         KubeletEnsureSecretPulledImages KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders \
         NodeDeclaredFeatures PLEGOnDemandRelist PodLevelResources PodReadyToStartContainersCondition \
         PreventStaticPodAPIReferences ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile ResourceHealthStatus \
         ResourceHealthStatusMessage RestartAllContainersOnContainerExits RotateKubeletServerCertificate \
         TopologyManagerPolicyBetaOptions",
        GateStage::Beta,
        true,
    );
}

#[test]
fn gate_beta_off_rows() {
    check(
        "ClusterTrustBundleProjection PodCertificateRequest LocalStorageCapacityIsolationFSQuotaMonitoring SELinuxMount",
        GateStage::Beta,
        false,
    );
}

#[test]
fn gate_alpha_off_rows() {
    // Upstream spells the image gate RuntimeClassInImageCriApi.
    check(
        "CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ContainerStopSignals DRANodeAllocatableResources \
         DRAWorkloadResourceClaims EventedPLEG ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs \
         InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace MemoryQoS PodAndContainerStatsFromCRI \
         PodLevelResourceManagers PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay \
         RuntimeClassInImageCriApi TaintTolerationComparisonOperators TopologyManagerPolicyAlphaOptions \
         UserNamespacesHostNetworkSupport",
        GateStage::Alpha,
        false,
    );
}

#[test]
fn gate_deprecated_rows() {
    check(
        "DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion KubeletPodResourcesListUseActivePods",
        GateStage::Deprecated,
        true,
    );
    check(
        "ChangeContainerStatusOnKubeletRestart GitRepoVolumeDriver KubeletRegistrationGetOnExistsOnly AllowDNSOnlyNodeCSR",
        GateStage::Deprecated,
        false,
    );
    let locked = |name| Gate::from_name(name).is_some_and(Gate::locked);
    assert!(locked("DisableNodeKubeProxyVersion") && locked("GitRepoVolumeDriver") && !locked("AllowDNSOnlyNodeCSR"));
}

#[test]
fn every_gate_is_found_by_its_name() {
    assert_eq!(Gate::ALL.len(), 240);
    for gate in Gate::ALL {
        assert_eq!(Gate::from_name(gate.as_str()), Some(*gate));
    }
    assert_eq!(Gate::from_name("AllAlpha"), None);
}

#[test]
fn defaults_meet_their_own_dependencies() {
    assert_eq!(FeatureGates::new(&BTreeMap::new()), Ok(FeatureGates::default()));
    let off: Vec<_> = FeatureGates::default().all().filter(|(name, _, on)| !on && *name == "KubeletPSI").collect();
    assert!(off.is_empty());
}

#[test]
fn gate_01_wishes_that_cannot_be_granted() {
    let table: [(&[(&str, bool)], &str); 7] = [
        (&[("MemoryQos", true)], "unrecognized feature gate: MemoryQos; did you mean MemoryQoS?"),
        (&[("Nonsense", true)], "unrecognized feature gate: Nonsense"),
        (&[("NodeSwap", false)], "cannot set feature gate NodeSwap to false, feature is locked to true"),
        (
            &[("GitRepoVolumeDriver", true)],
            "cannot set feature gate GitRepoVolumeDriver to true, feature is locked to false",
        ),
        (
            &[("GracefulNodeShutdown", false)],
            "GracefulNodeShutdownBasedOnPodPriority is enabled, but depends on features that are disabled: \
             GracefulNodeShutdown | WindowsGracefulNodeShutdown is enabled, but depends on features that are disabled: \
             GracefulNodeShutdown",
        ),
        (&[("NodeSwap", true), ("MemoryQoS", true)], ""),
        (
            &[("A", true), ("NodeSwap", false)],
            "unrecognized feature gate: A | cannot set feature gate NodeSwap to false, feature is locked to true",
        ),
    ];
    for (pairs, expected) in table {
        let errors = FeatureGates::new(&wishes(pairs)).err().unwrap_or_default();
        let shown = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
        assert_eq!(shown, expected, "{pairs:?}");
    }
}

#[test]
fn gate_01_umbrellas_set_what_is_not_set_by_name() {
    let gates = FeatureGates::lenient(&wishes(&[
        ("AllAlpha", true),
        ("AllBeta", false),
        ("EventedPLEG", false),
        ("PodLevelResources", true),
    ]));
    assert!(gates.enabled(Gate::MemoryQoS), "alpha: on by the umbrella");
    assert!(!gates.enabled(Gate::EventedPLEG), "alpha: off by name");
    assert!(!gates.enabled(Gate::PLEGOnDemandRelist), "beta: off by the umbrella");
    assert!(gates.enabled(Gate::PodLevelResources), "beta: on by name");
    assert!(gates.enabled(Gate::NodeSwap), "done: not touched");
}

#[test]
fn gate_01_the_metric_lists_every_gate_and_both_umbrellas() {
    let gates = FeatureGates::default();
    assert_eq!(gates.all().count(), 242);
    assert!(gates.all().any(|row| row == ("KubeletPSI", GateStage::Ga, true)));
    assert!(gates.all().any(|row| row == ("AllBeta", GateStage::Beta, false)));
}

#[test]
fn gates_that_go_away_are_warned_about() {
    let lines = gate_warnings(&wishes(&[("NodeSwap", true), ("AllowDNSOnlyNodeCSR", true), ("MemoryQoS", true)]));
    assert_eq!(
        lines,
        [
            "setting deprecated feature gate AllowDNSOnlyNodeCSR=true; the gate will be removed in a future release",
            "setting GA feature gate NodeSwap=true; the gate will be removed in a future release",
        ]
    );
    assert!(known_features().any(|line| line == "MemoryQoS=true|false (ALPHA - default=false)"));
    assert!(!known_features().any(|line| line.starts_with("NodeSwap")));
}
