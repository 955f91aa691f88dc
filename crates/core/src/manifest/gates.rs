//! The feature gates that change what a valid pod is.

use std::collections::BTreeSet;

/// A gate that some rule of this module asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// `restartPolicy` and `restartPolicyRules` on containers.
    ContainerRestartRules,
    /// `fileKeyRef` in environment variables.
    EnvFiles,
    /// `resizePolicy` may go with pod-level resources.
    InPlacePodLevelResourcesVerticalScaling,
    /// `matchLabelKeys` in topology spread constraints.
    MatchLabelKeysInPodTopologySpread,
    /// `matchLabelKeys` are merged into the selector, so they must not be in it already.
    MatchLabelKeysInPodTopologySpreadSelectorMerge,
    /// The pod deletion cost annotation must be a number.
    PodDeletionCost,
    /// `spec.resources`.
    PodLevelResources,
    /// Static pods may not name API objects.
    PreventStaticPodApiReferences,
    /// The restart rule action that restarts the whole pod.
    RestartAllContainersOnContainerExits,
    /// SELinux change policies other than `Recursive`.
    SeLinuxMount,
    /// IP addresses must be canonical.
    StrictIpCidrValidation,
    /// `Lt` and `Gt` in tolerations.
    TaintTolerationComparisonOperators,
    /// User namespaces together with the host's network.
    UserNamespacesHostNetworkSupport,
}

impl Gate {
    pub(super) const ALL: [Self; 13] = [
        Self::ContainerRestartRules,
        Self::EnvFiles,
        Self::InPlacePodLevelResourcesVerticalScaling,
        Self::MatchLabelKeysInPodTopologySpread,
        Self::MatchLabelKeysInPodTopologySpreadSelectorMerge,
        Self::PodDeletionCost,
        Self::PodLevelResources,
        Self::PreventStaticPodApiReferences,
        Self::RestartAllContainersOnContainerExits,
        Self::SeLinuxMount,
        Self::StrictIpCidrValidation,
        Self::TaintTolerationComparisonOperators,
        Self::UserNamespacesHostNetworkSupport,
    ];

    /// Upstream's spelling, as in `--feature-gates`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ContainerRestartRules => "ContainerRestartRules",
            Self::EnvFiles => "EnvFiles",
            Self::InPlacePodLevelResourcesVerticalScaling => "InPlacePodLevelResourcesVerticalScaling",
            Self::MatchLabelKeysInPodTopologySpread => "MatchLabelKeysInPodTopologySpread",
            Self::MatchLabelKeysInPodTopologySpreadSelectorMerge => "MatchLabelKeysInPodTopologySpreadSelectorMerge",
            Self::PodDeletionCost => "PodDeletionCost",
            Self::PodLevelResources => "PodLevelResources",
            Self::PreventStaticPodApiReferences => "PreventStaticPodAPIReferences",
            Self::RestartAllContainersOnContainerExits => "RestartAllContainersOnContainerExits",
            Self::SeLinuxMount => "SELinuxMount",
            Self::StrictIpCidrValidation => "StrictIPCIDRValidation",
            Self::TaintTolerationComparisonOperators => "TaintTolerationComparisonOperators",
            Self::UserNamespacesHostNetworkSupport => "UserNamespacesHostNetworkSupport",
        }
    }

    /// Whether it is on unless somebody says otherwise.
    /// upstream: features/kube_features.go (v1.36)
    #[must_use]
    pub fn on_by_default(self) -> bool {
        match self {
            Self::SeLinuxMount | Self::TaintTolerationComparisonOperators | Self::UserNamespacesHostNetworkSupport => {
                false
            }
            Self::ContainerRestartRules
            | Self::EnvFiles
            | Self::InPlacePodLevelResourcesVerticalScaling
            | Self::MatchLabelKeysInPodTopologySpread
            | Self::MatchLabelKeysInPodTopologySpreadSelectorMerge
            | Self::PodDeletionCost
            | Self::PodLevelResources
            | Self::PreventStaticPodApiReferences
            | Self::RestartAllContainersOnContainerExits
            | Self::StrictIpCidrValidation => true,
        }
    }
}

/// Which gates are on. The default is that of v1.36.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates(BTreeSet<Gate>);

impl Default for Gates {
    fn default() -> Self {
        Self::new(Gate::on_by_default)
    }
}

impl Gates {
    /// Asks `on` once for each gate; use [`Gate::name`] to look it up in the node's configuration.
    pub fn new(on: impl Fn(Gate) -> bool) -> Self {
        Self(Gate::ALL.into_iter().filter(|gate| on(*gate)).collect())
    }

    pub(super) fn on(&self, gate: Gate) -> bool {
        self.0.contains(&gate)
    }
}
