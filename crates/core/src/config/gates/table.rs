//! Every gate that a kubelet v1.36 binary registers, with its default. Gates of other components are among them because
//! a file shared by a whole cluster may set them: they are accepted and not used here.
//!
//! `locked` gates can be set only to their default.
//!
//! upstream: pkg/features/kube_features.go, and the gates of apiserver, apiextensions-apiserver, client-go,
//! component-base (logs, metrics, zpages) that it pulls in (v1.36).

use super::GateStage;

gates! {
    APIResponseCompression: Beta, true;
    APIServerIdentity: Beta, true;
    APIServerTracing: Ga, true, locked;
    APIServingWithRoutine: Alpha, false;
    AggregatedDiscoveryRemoveBetaType: Deprecated, true, locked;
    AllowDNSOnlyNodeCSR: Deprecated, false;
    AllowInsecureKubeletCertificateSigningRequests: Deprecated, false;
    AllowOverwriteTerminationGracePeriodSeconds: Deprecated, false, locked;
    AllowParsingUserUIDFromCertAuth: Beta, true;
    AllowServiceExternalIPs: Ga, true;
    AllowUnsafeMalformedObjectDeletion: Alpha, false;
    AnonymousAuthConfigurableEndpoints: Ga, true, locked;
    AnyVolumeDataSource: Ga, true, locked;
    AtomicFIFO: Beta, true;
    AuthorizeNodeWithSelectors: Ga, true, locked;
    AuthorizePodWebsocketUpgradeCreatePermission: Beta, true;
    AuthorizeWithSelectors: Ga, true, locked;
    BtreeWatchCache: Ga, true, locked;
    CBORServingAndStorage: Alpha, false;
    CPUManagerPolicyAlphaOptions: Alpha, false;
    CPUManagerPolicyBetaOptions: Beta, true;
    CPUManagerPolicyOptions: Ga, true, locked;
    CRDObservedGenerationTracking: Beta, true;
    CRDValidationRatcheting: Ga, true, locked;
    CRIListStreaming: Alpha, false;
    CSIServiceAccountTokenSecrets: Ga, true, locked;
    CSIVolumeHealth: Alpha, false;
    ChangeContainerStatusOnKubeletRestart: Deprecated, false;
    ClearingNominatedNodeNameAfterBinding: Beta, true;
    ClientsAllowCARotation: Beta, true;
    ClientsAllowCBOR: Alpha, false;
    ClientsAllowTLSCacheGC: Beta, true;
    ClientsPreferCBOR: Alpha, false;
    CloudControllerManagerWatchBasedRoutesReconciliation: Alpha, false;
    CloudControllerManagerWebhook: Alpha, false;
    ClusterTrustBundle: Beta, false;
    ClusterTrustBundleProjection: Beta, false;
    ComponentFlagz: Beta, true;
    ComponentStatusz: Beta, true;
    ConcurrentWatchObjectDecode: Beta, false;
    ConsistentListFromCache: Ga, true, locked;
    ConstrainedImpersonation: Beta, true;
    ContainerCheckpoint: Beta, true;
    ContainerRestartRules: Beta, true;
    ContainerStopSignals: Alpha, false;
    ContextualLogging: Beta, true;
    ControllerManagerReleaseLeaderElectionLockOnExit: Alpha, false;
    CoordinatedLeaderElection: Beta, false;
    CrossNamespaceVolumeDataSource: Alpha, false;
    CustomCPUCFSQuotaPeriod: Ga, true;
    CustomResourceFieldSelectors: Ga, true, locked;
    DRAAdminAccess: Ga, true, locked;
    DRAConsumableCapacity: Beta, true;
    DRADeviceBindingConditions: Beta, true;
    DRADeviceTaintRules: Beta, false;
    DRADeviceTaints: Beta, true;
    DRAExtendedResource: Beta, true;
    DRAListTypeAttributes: Alpha, false;
    DRANodeAllocatableResources: Alpha, false;
    DRAPartitionableDevices: Beta, true;
    DRAPrioritizedList: Ga, true;
    DRAResourceClaimDeviceStatus: Beta, true;
    DRAResourceClaimGranularStatusAuthorization: Beta, true;
    DRAResourcePoolStatus: Alpha, false;
    DRASchedulerFilterTimeout: Beta, true;
    DRAWorkloadResourceClaims: Alpha, false;
    DeclarativeValidation: Ga, true, locked;
    DeclarativeValidationBeta: Beta, true;
    DeclarativeValidationTakeover: Deprecated, false;
    DeploymentReplicaSetTerminatingReplicas: Beta, true;
    DetectCacheInconsistency: Beta, true;
    DisableAllocatorDualWrite: Ga, true, locked;
    DisableCPUQuotaWithExclusiveCPUs: Deprecated, true;
    DisableNodeKubeProxyVersion: Deprecated, true, locked;
    DynamicResourceAllocation: Ga, true, locked;
    EnvFiles: Beta, true;
    EventedPLEG: Alpha, false;
    ExecProbeTimeout: Ga, true, locked;
    ExtendWebSocketsToKubelet: Beta, true;
    ExternalServiceAccountTokenSigner: Ga, true, locked;
    GangScheduling: Alpha, false;
    GenericWorkload: Alpha, false;
    GitRepoVolumeDriver: Deprecated, false, locked;
    GracefulNodeShutdown: Beta, true;
    GracefulNodeShutdownBasedOnPodPriority: Beta, true;
    HPAConfigurableTolerance: Beta, true;
    HPAScaleToZero: Alpha, false;
    HostnameOverride: Beta, true;
    ImageMaximumGCAge: Ga, true, locked;
    ImageVolume: Ga, true, locked;
    ImageVolumeWithDigest: Alpha, false;
    InOrderInformers: Ga, true, locked;
    InOrderInformersBatchProcess: Beta, true;
    InPlacePodLevelResourcesVerticalScaling: Beta, true;
    InPlacePodVerticalScaling: Ga, true, locked;
    InPlacePodVerticalScalingExclusiveCPUs: Alpha, false;
    InPlacePodVerticalScalingExclusiveMemory: Alpha, false;
    InPlacePodVerticalScalingInitContainers: Beta, true;
    InformerResourceVersion: Ga, true;
    JobBackoffLimitPerIndex: Ga, true, locked;
    JobManagedBy: Ga, true, locked;
    JobPodReplacementPolicy: Ga, true, locked;
    JobSuccessPolicy: Ga, true, locked;
    KMSv1: Deprecated, false;
    KubeletCgroupDriverFromCRI: Ga, true, locked;
    KubeletCrashLoopBackOffMax: Beta, true;
    KubeletEnsureSecretPulledImages: Beta, true;
    KubeletFineGrainedAuthz: Ga, true, locked;
    KubeletInUserNamespace: Alpha, false;
    KubeletPSI: Ga, true, locked;
    KubeletPodResourcesDynamicResources: Ga, true, locked;
    KubeletPodResourcesGet: Ga, true, locked;
    KubeletPodResourcesListUseActivePods: Deprecated, true;
    KubeletRegistrationGetOnExistsOnly: Deprecated, false;
    KubeletSeparateDiskGC: Beta, true;
    KubeletServiceAccountTokenForCredentialProviders: Beta, true;
    KubeletTracing: Ga, true, locked;
    ListFromCacheSnapshot: Beta, true;
    LocalStorageCapacityIsolationFSQuotaMonitoring: Beta, false;
    LogarithmicScaleDown: Ga, true, locked;
    LoggingAlphaOptions: Alpha, false;
    LoggingBetaOptions: Beta, true;
    ManifestBasedAdmissionControlConfig: Alpha, false;
    MatchLabelKeysInPodAffinity: Ga, true, locked;
    MatchLabelKeysInPodTopologySpread: Beta, true;
    MatchLabelKeysInPodTopologySpreadSelectorMerge: Beta, true;
    MaxUnavailableStatefulSet: Beta, false;
    MemoryQoS: Alpha, false;
    MultiCIDRServiceAllocator: Ga, true, locked;
    MutableCSINodeAllocatableCount: Ga, true, locked;
    MutablePVNodeAffinity: Alpha, false;
    MutablePodResourcesForSuspendedJobs: Beta, true;
    MutableSchedulingDirectivesForSuspendedJobs: Beta, true;
    MutatingAdmissionPolicy: Ga, true;
    NFTablesProxyMode: Ga, true, locked;
    NativeHistograms: Alpha, false;
    NodeDeclaredFeatures: Beta, true;
    NodeInclusionPolicyInPodTopologySpread: Ga, true, locked;
    NodeLogQuery: Ga, true, locked;
    NodeSwap: Ga, true, locked;
    NominatedNodeNameForExpectation: Beta, true;
    OpenAPIEnums: Beta, true;
    OpportunisticBatching: Beta, true;
    OrderedNamespaceDeletion: Ga, true, locked;
    PLEGOnDemandRelist: Beta, true;
    PersistentVolumeClaimUnusedSinceTime: Alpha, false;
    PodAndContainerStatsFromCRI: Alpha, false;
    PodCertificateRequest: Beta, false;
    PodDeletionCost: Beta, true;
    PodLevelResourceManagers: Alpha, false;
    PodLevelResources: Beta, true;
    PodLifecycleSleepAction: Ga, true, locked;
    PodLifecycleSleepActionAllowZero: Ga, true, locked;
    PodLogsQuerySplitStreams: Alpha, false;
    PodObservedGenerationTracking: Ga, true, locked;
    PodReadyToStartContainersCondition: Beta, true;
    PodSchedulingReadiness: Ga, true, locked;
    PodTopologyLabelsAdmission: Beta, true;
    PodsAPI: Alpha, false;
    PortForwardWebsockets: Beta, true;
    PreferSameTrafficDistribution: Ga, true, locked;
    PreventStaticPodAPIReferences: Beta, true;
    ProcMountType: Ga, true, locked;
    QOSReserved: Alpha, false;
    RecoverVolumeExpansionFailure: Ga, true, locked;
    RecursiveReadOnlyMounts: Ga, true, locked;
    ReduceDefaultCrashLoopBackOffDecay: Alpha, false;
    RelaxedDNSSearchValidation: Ga, true, locked;
    RelaxedEnvironmentVariableValidation: Ga, true, locked;
    RelaxedServiceNameValidation: Beta, true;
    ReloadKubeletClientCAFile: Beta, true;
    ReloadKubeletServerCertificateFile: Beta, true;
    RemoteRequestHeaderUID: Beta, true;
    ResilientWatchCacheInitialization: Ga, true, locked;
    ResourceHealthStatus: Beta, true;
    ResourceHealthStatusMessage: Beta, true;
    RestartAllContainersOnContainerExits: Beta, true;
    RetryGenerateName: Ga, true, locked;
    RotateKubeletServerCertificate: Beta, true;
    RuntimeClassInImageCriApi: Alpha, false;
    SELinuxChangePolicy: Ga, true, locked;
    SELinuxMount: Beta, false;
    SELinuxMountReadWriteOncePod: Ga, true, locked;
    SchedulerAsyncAPICalls: Beta, false;
    SchedulerAsyncPreemption: Beta, true;
    SchedulerPopFromBackoffQ: Beta, true;
    SchedulerQueueingHints: Ga, true, locked;
    SeparateCacheWatchRPC: Deprecated, false, locked;
    SeparateTaintEvictionController: Ga, true, locked;
    ServiceAccountNodeAudienceRestriction: Beta, true;
    ServiceAccountTokenJTI: Ga, true, locked;
    ServiceAccountTokenNodeBinding: Ga, true, locked;
    ServiceAccountTokenNodeBindingValidation: Ga, true, locked;
    ServiceAccountTokenPodNodeInfo: Ga, true, locked;
    ServiceCIDRStatusFieldWiping: Deprecated, true;
    ShardedListAndWatch: Alpha, false;
    SidecarContainers: Ga, true, locked;
    SizeBasedListCostEstimate: Beta, true;
    StaleControllerConsistencyDaemonSet: Beta, true;
    StaleControllerConsistencyJob: Beta, true;
    StaleControllerConsistencyReplicaSet: Beta, true;
    StaleControllerConsistencyStatefulSet: Beta, true;
    StatefulSetSemanticRevisionComparison: Beta, true;
    StorageCapacityScoring: Alpha, false;
    StorageNamespaceIndex: Deprecated, true;
    StorageVersionAPI: Alpha, false;
    StorageVersionHash: Beta, true;
    StorageVersionMigrator: Beta, false;
    StreamingCollectionEncodingToJSON: Ga, true, locked;
    StreamingCollectionEncodingToProtobuf: Ga, true, locked;
    StrictIPCIDRValidation: Beta, true;
    StructuredAuthenticationConfiguration: Ga, true, locked;
    StructuredAuthenticationConfigurationEgressSelector: Beta, true;
    StructuredAuthenticationConfigurationJWKSMetrics: Beta, true;
    SupplementalGroupsPolicy: Ga, true, locked;
    SystemdWatchdog: Ga, true, locked;
    TaintTolerationComparisonOperators: Alpha, false;
    TokenRequestServiceAccountUIDValidation: Beta, true;
    TopologyAwareWorkloadScheduling: Alpha, false;
    TopologyManagerPolicyAlphaOptions: Alpha, false;
    TopologyManagerPolicyBetaOptions: Beta, true;
    TopologyManagerPolicyOptions: Ga, true, locked;
    TranslateStreamCloseWebsocketRequests: Beta, true;
    UnauthenticatedHTTP2DOSMitigation: Beta, true;
    UnknownVersionInteroperabilityProxy: Beta, true;
    UnlockWhileProcessingFIFO: Beta, true;
    UserNamespacesHostNetworkSupport: Alpha, false;
    UserNamespacesSupport: Ga, true, locked;
    VolumeAttributesClass: Ga, true, locked;
    VolumeLimitScaling: Alpha, false;
    WatchCacheInitializationPostStartHook: Beta, true;
    WatchList: Beta, true;
    WatchListClient: Beta, true;
    WinDSR: Ga, true, locked;
    WinOverlay: Ga, true, locked;
    WindowsCPUAndMemoryAffinity: Alpha, false;
    WindowsGracefulNodeShutdown: Beta, true;
    WindowsHostNetwork: Deprecated, false;
    WorkloadAwarePreemption: Alpha, false;
    WorkloadWithJob: Alpha, false;
}

/// Gates that may only be on while others are.
pub(super) const DEPENDENCIES: &[(Gate, &[Gate])] = &[
    (Gate::AuthorizeNodeWithSelectors, &[Gate::AuthorizeWithSelectors]),
    (Gate::ClusterTrustBundleProjection, &[Gate::ClusterTrustBundle]),
    (Gate::DRAAdminAccess, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAConsumableCapacity, &[Gate::DynamicResourceAllocation]),
    (Gate::DRADeviceBindingConditions, &[Gate::DynamicResourceAllocation, Gate::DRAResourceClaimDeviceStatus]),
    (Gate::DRADeviceTaintRules, &[Gate::DRADeviceTaints]),
    (Gate::DRADeviceTaints, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAExtendedResource, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAListTypeAttributes, &[Gate::DynamicResourceAllocation]),
    (Gate::DRANodeAllocatableResources, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAPartitionableDevices, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAPrioritizedList, &[Gate::DynamicResourceAllocation]),
    (
        Gate::DRAResourceClaimGranularStatusAuthorization,
        &[Gate::DynamicResourceAllocation, Gate::DRAResourceClaimDeviceStatus],
    ),
    (Gate::DRAResourcePoolStatus, &[Gate::DynamicResourceAllocation]),
    (Gate::DRASchedulerFilterTimeout, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAWorkloadResourceClaims, &[Gate::DynamicResourceAllocation, Gate::GenericWorkload]),
    (Gate::DeclarativeValidationTakeover, &[Gate::DeclarativeValidation]),
    (Gate::DisableAllocatorDualWrite, &[Gate::MultiCIDRServiceAllocator]),
    (Gate::ExtendWebSocketsToKubelet, &[Gate::NodeDeclaredFeatures]),
    (Gate::GangScheduling, &[Gate::GenericWorkload]),
    (Gate::GracefulNodeShutdownBasedOnPodPriority, &[Gate::GracefulNodeShutdown]),
    (Gate::ImageVolumeWithDigest, &[Gate::ImageVolume]),
    (
        Gate::InPlacePodLevelResourcesVerticalScaling,
        &[Gate::InPlacePodVerticalScaling, Gate::PodLevelResources, Gate::NodeDeclaredFeatures],
    ),
    (Gate::InPlacePodVerticalScalingExclusiveCPUs, &[Gate::InPlacePodVerticalScaling]),
    (Gate::InPlacePodVerticalScalingExclusiveMemory, &[Gate::InPlacePodVerticalScaling]),
    (Gate::InPlacePodVerticalScalingInitContainers, &[Gate::InPlacePodVerticalScaling, Gate::NodeDeclaredFeatures]),
    (Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge, &[Gate::MatchLabelKeysInPodTopologySpread]),
    (Gate::PodCertificateRequest, &[Gate::AuthorizeNodeWithSelectors]),
    (Gate::PodLevelResourceManagers, &[Gate::PodLevelResources]),
    (Gate::PodLifecycleSleepActionAllowZero, &[Gate::PodLifecycleSleepAction]),
    (Gate::ProcMountType, &[Gate::UserNamespacesSupport]),
    (Gate::ResourceHealthStatus, &[Gate::DynamicResourceAllocation]),
    (Gate::ResourceHealthStatusMessage, &[Gate::ResourceHealthStatus]),
    (Gate::RestartAllContainersOnContainerExits, &[Gate::ContainerRestartRules, Gate::NodeDeclaredFeatures]),
    (Gate::ServiceAccountTokenNodeBinding, &[Gate::ServiceAccountTokenNodeBindingValidation]),
    (Gate::StaleControllerConsistencyDaemonSet, &[Gate::AtomicFIFO]),
    (Gate::StaleControllerConsistencyJob, &[Gate::AtomicFIFO]),
    (Gate::StaleControllerConsistencyReplicaSet, &[Gate::AtomicFIFO]),
    (Gate::StaleControllerConsistencyStatefulSet, &[Gate::AtomicFIFO]),
    (Gate::StorageVersionAPI, &[Gate::APIServerIdentity]),
    (Gate::StructuredAuthenticationConfigurationEgressSelector, &[Gate::StructuredAuthenticationConfiguration]),
    (Gate::StructuredAuthenticationConfigurationJWKSMetrics, &[Gate::StructuredAuthenticationConfiguration]),
    (Gate::TopologyAwareWorkloadScheduling, &[Gate::GenericWorkload]),
    (Gate::UnknownVersionInteroperabilityProxy, &[Gate::APIServerIdentity]),
    (Gate::UserNamespacesHostNetworkSupport, &[Gate::UserNamespacesSupport, Gate::NodeDeclaredFeatures]),
    (Gate::WindowsGracefulNodeShutdown, &[Gate::GracefulNodeShutdown]),
    (Gate::WorkloadAwarePreemption, &[Gate::GangScheduling]),
    (Gate::WorkloadWithJob, &[Gate::GenericWorkload]),
];
