package cm

import (
	v1 "k8s.io/api/core/v1"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() {
	oracle.Register("ResourceConfigForPod", oracle.Of(oraclePodConfig))
	oracle.Register("MilliCPUToShares", oracle.Of(oracleCPU))
	oracle.Register("setCPUCgroupConfig", oracle.Of(oracleLevels))
	oracle.Register("getCgroupConfigInternal", oracle.Of(oracleNodeConfig))
}

type oracleConfig struct {
	Shares    *uint64          `json:"shares"`
	Quota     *int64           `json:"quota"`
	Period    *uint64          `json:"period"`
	Memory    *int64           `json:"memory"`
	Pids      *int64           `json:"pids"`
	HugePages map[string]int64 `json:"hugepages"`
}

// Huge pages are answered by the size of a page as the kernel spells it.
func oracleConfigOf(config *ResourceConfig) oracleConfig {
	pages := map[string]int64{}
	for size, limit := range config.HugePageLimit {
		unit, err := v1helper.HugePageUnitSizeFromByteSize(size)
		if err != nil {
			panic(err)
		}
		pages[unit] += limit
	}
	return oracleConfig{config.CPUShares, config.CPUQuota, config.CPUPeriod, config.Memory, config.PidsLimit, pages}
}

type oraclePodConfigCase struct {
	Pod    *v1.Pod `json:"pod"`
	Quota  bool    `json:"quota"`
	Period uint64  `json:"period"`
}

func oraclePodConfig(c oraclePodConfigCase) any {
	config := ResourceConfigForPod(c.Pod, c.Quota, c.Period, false, kubeletconfig.NoneMemoryReservationPolicy)
	return map[string]any{
		"config":   oracleConfigOf(config),
		"class":    v1qos.GetPodQOS(c.Pod),
		"computed": v1qos.ComputePodQOS(c.Pod),
	}
}

type oracleCPUCase struct {
	Milli  int64  `json:"milli"`
	Period int64  `json:"period"`
	Shares uint64 `json:"shares"`
}

func oracleCPU(c oracleCPUCase) any {
	return map[string]any{
		"shares": MilliCPUToShares(c.Milli),
		"quota":  MilliCPUToQuota(c.Milli, c.Period),
		"weight": getCPUWeight(&c.Shares),
	}
}

type oracleLevelsCase struct {
	Pods []*v1.Pod `json:"pods"`
}

func oracleLevels(c oracleLevelsCase) any {
	m := &qosContainerManagerImpl{activePods: func() []*v1.Pod { return c.Pods }}
	configs := map[v1.PodQOSClass]*CgroupConfig{
		v1.PodQOSBurstable:  {ResourceParameters: &ResourceConfig{}},
		v1.PodQOSBestEffort: {ResourceParameters: &ResourceConfig{}},
	}
	if err := m.setCPUCgroupConfig(configs); err != nil {
		return err.Error()
	}
	return map[string]any{
		"burstable":  oracleConfigOf(configs[v1.PodQOSBurstable].ResourceParameters),
		"bestEffort": oracleConfigOf(configs[v1.PodQOSBestEffort].ResourceParameters),
	}
}

type oracleNodeConfigCase struct {
	Allocatable v1.ResourceList `json:"allocatable"`
}

func oracleNodeConfig(c oracleNodeConfigCase) any {
	return oracleConfigOf(getCgroupConfigInternal(c.Allocatable, false))
}
