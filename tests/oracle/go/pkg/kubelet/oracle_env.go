package kubelet

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	clientset "k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	envutil "k8s.io/kubernetes/pkg/kubelet/util/env"
	"k8s.io/kubernetes/pkg/oracle"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

func init() {
	oracle.Register("makeEnvironmentVariables", oracle.Of(oracleEnv))
	oracle.Register("Expand", oracle.Of(oracleExpand))
	oracle.Register("ParseEnv", oracle.Of(oracleEnvFile))
}

// Objects that cannot be fetched have a reason in place of their data; those that are not listed do not exist.
type oracleEnvCase struct {
	Pod         *v1.Pod                      `json:"pod"`
	Services    []*v1.Service                `json:"services"`
	Synced      bool                         `json:"synced"`
	API         bool                         `json:"api"`
	HostIPs     []net.IP                     `json:"hostIPs"`
	PodIPs      []string                     `json:"podIPs"`
	Allocatable v1.ResourceList              `json:"allocatable"`
	ConfigMaps  map[string]map[string]string `json:"configMaps"`
	Secrets     map[string]map[string][]byte `json:"secrets"`
	Failing     map[string]string            `json:"failing"`
}

type oracleServices []*v1.Service

func (s oracleServices) List(labels.Selector) ([]*v1.Service, error) { return s, nil }

type oracleNodes struct {
	corelisters.NodeLister
	node *v1.Node
}

func (n oracleNodes) Get(string) (*v1.Node, error) { return n.node, nil }

type oracleObjects struct {
	configmap.Manager
	c oracleEnvCase
}

func (o oracleObjects) GetConfigMap(_, name string) (*v1.ConfigMap, error) {
	if why, failing := o.c.Failing[name]; failing {
		return nil, errors.New(why)
	}
	data, found := o.c.ConfigMaps[name]
	if !found {
		return nil, apierrors.NewNotFound(v1.Resource("configmap"), name)
	}
	return &v1.ConfigMap{Data: data}, nil
}

type oracleSecrets struct {
	secret.Manager
	c oracleEnvCase
}

func (o oracleSecrets) GetSecret(_, name string) (*v1.Secret, error) {
	if why, failing := o.c.Failing[name]; failing {
		return nil, errors.New(why)
	}
	data, found := o.c.Secrets[name]
	if !found {
		return nil, apierrors.NewNotFound(v1.Resource("secret"), name)
	}
	return &v1.Secret{Data: data}, nil
}

// The environment of the pod's first container, by name.
func oracleEnv(c oracleEnvCase) any {
	node := &v1.Node{Status: v1.NodeStatus{Allocatable: c.Allocatable}}
	for _, ip := range c.HostIPs {
		node.Status.Addresses = append(node.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
	}
	kl := &Kubelet{
		serviceHasSynced: func() bool { return c.Synced },
		nodeIPs:          c.HostIPs,
		configMapManager: oracleObjects{c: c},
		secretManager:    oracleSecrets{c: c},
		nodeLister:       oracleNodes{node: node},
	}
	if c.Services != nil {
		kl.serviceLister = oracleServices(c.Services)
	}
	if c.API {
		kl.kubeClient = struct{ clientset.Interface }{}
	}
	// The kubelet hands over the addresses of the pod's status, which for a pod on the node's network are the node's.
	ips := c.PodIPs
	if c.Pod.Spec.HostNetwork {
		ips = nil
		for _, ip := range c.HostIPs {
			ips = append(ips, ip.String())
		}
	}
	first := ""
	if len(ips) > 0 {
		first = ips[0]
	}
	list, err := kl.makeEnvironmentVariables(context.Background(), c.Pod, &c.Pod.Spec.Containers[0], first, ips, nil)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	env := map[string]string{}
	for _, variable := range list {
		env[variable.Name] = variable.Value
	}
	return map[string]any{"env": env}
}

type oracleExpandCase struct {
	Text string            `json:"text"`
	Env  map[string]string `json:"env"`
}

func oracleExpand(c oracleExpandCase) any {
	return expansion.Expand(c.Text, expansion.MappingFuncFor(c.Env))
}

type oracleEnvFileCase struct {
	Text string `json:"text"`
	Key  string `json:"key"`
}

var oraclePath = ""

// The path of a file with that content, the same each time.
func oracleFile(content string) string {
	if oraclePath == "" {
		dir, err := os.MkdirTemp("", "oracle")
		if err != nil {
			panic(err)
		}
		oraclePath = filepath.Join(dir, "file")
	}
	if err := os.WriteFile(oraclePath, []byte(content), 0o600); err != nil {
		panic(err)
	}
	return oraclePath
}

// What is wrong with a file is not shown to people, so that a fault is a fault.
func oracleEnvFile(c oracleEnvFileCase) any {
	value, err := envutil.ParseEnv(oracleFile(c.Text), c.Key)
	if err != nil {
		return map[string]any{"fault": true}
	}
	return map[string]any{"value": value}
}
