package kubelet

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/network/dns"
	"k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("GeneratePodHostNameAndDomain", oracle.Of(oracleHosts)) }

type oracleHostsCase struct {
	Pod           *v1.Pod      `json:"pod"`
	IPs           []string     `json:"ips"`
	ClusterDomain string       `json:"clusterDomain"`
	NodeHosts     string       `json:"nodeHosts"`
	Gates         oracle.Gates `json:"gates"`
}

// The names of a pod, and the hosts file that is made of them.
func oracleHosts(c oracleHostsCase) any {
	c.Gates.Set()
	kl := &Kubelet{dnsConfigurer: dns.NewConfigurer(nil, nil, nil, nil, c.ClusterDomain, "")}
	host, domain, err := kl.GeneratePodHostNameAndDomain(klog.Background(), c.Pod)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	file := managedHostsFileContent(c.IPs, host, domain, c.Pod.Spec.HostAliases)
	if c.Pod.Spec.HostNetwork {
		path := oracleFile(c.NodeHosts)
		if file, err = nodeHostsFileContent(path, c.Pod.Spec.HostAliases); err != nil {
			panic(err)
		}
	}
	answer := map[string]any{"host": host, "domain": domain, "file": string(file)}
	kernel, err := util.GetNodenameForKernel(host, domain, c.Pod.Spec.SetHostnameAsFQDN)
	if err != nil {
		answer["kernelError"] = err.Error()
	} else {
		answer["kernel"] = kernel
	}
	return answer
}
