package dns

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() { oracle.Register("GetPodDNS", oracle.Of(oracleDNS)) }

type oracleDNSCase struct {
	Pod           *v1.Pod  `json:"pod"`
	ClusterDNS    []net.IP `json:"clusterDNS"`
	ClusterDomain string   `json:"clusterDomain"`
	ResolvConf    *string  `json:"resolvConf"`
	NodeIPs       []net.IP `json:"nodeIPs"`
}

// The file that upstream reads; one process answers one case after another.
var oracleResolvConf = ""

func oracleDNS(c oracleDNSCase) any {
	recorder := record.NewFakeRecorder(16)
	path := ""
	if c.ResolvConf != nil {
		if oracleResolvConf == "" {
			dir, err := os.MkdirTemp("", "oracle")
			if err != nil {
				panic(err)
			}
			oracleResolvConf = filepath.Join(dir, "resolv.conf")
		}
		path = oracleResolvConf
		if err := os.WriteFile(path, []byte(*c.ResolvConf), 0o600); err != nil {
			panic(err)
		}
	}
	node := &v1.ObjectReference{Kind: "Node", Name: "n"}
	configurer := NewConfigurer(recorder, node, c.NodeIPs, c.ClusterDNS, c.ClusterDomain, path)
	config, err := configurer.GetPodDNS(context.Background(), c.Pod)
	answer := map[string]any{"events": oracleEvents(recorder)}
	if err != nil {
		answer["error"] = err.Error()
	} else {
		// Options come out of a map.
		sort.Strings(config.Options)
		answer["servers"], answer["searches"], answer["options"] = config.Servers, config.Searches, config.Options
	}
	return answer
}

func oracleEvents(recorder *record.FakeRecorder) []string {
	events := []string{}
	for len(recorder.Events) > 0 {
		events = append(events, <-recorder.Events)
	}
	return events
}
