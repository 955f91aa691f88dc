package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/oracle"
)

func init() {
	oracle.Register("tryDecodeSinglePod", oracle.Of(oracleStaticPod))
	oracleZone()
	// As the kubelet does when it starts.
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
}

// The zone of the node shows in the UID of a manifest that holds a time. It is that of a node whose /etc/localtime is UTC,
// whatever the machine says on which this runs.
func oracleZone() {
	header := "TZif2" + strings.Repeat("\x00", 15+4*4) + "\x00\x00\x00\x01" + "\x00\x00\x00\x04"
	body := "\x00\x00\x00\x00" + "\x00" + "\x00" + "UTC\x00"
	zone, err := time.LoadLocationFromTZData("Local", []byte(header+body+header+body+"\nUTC0\n"))
	if err != nil {
		panic(err)
	}
	time.Local = zone
}

type oracleStaticPodCase struct {
	Manifest json.RawMessage `json:"manifest"`
	YAML     bool            `json:"yaml"`
	Source   string          `json:"source"`
	File     bool            `json:"file"`
	Node     string          `json:"node"`
	Gates    oracle.Gates    `json:"gates"`
}

// A text that does not begin like JSON is read as YAML, and has other numbers.
func (c oracleStaticPodCase) text() []byte {
	if c.YAML {
		return append([]byte("--- "), c.Manifest...)
	}
	return c.Manifest
}

// Gives a pod of this node its defaults, and keeps it: a refusal does not say in a form to compare what is at fault.
func (c oracleStaticPodCase) defaults(last **api.Pod) defaultFunc {
	return func(logger klog.Logger, pod *api.Pod) error {
		*last = pod
		return applyDefaults(logger, pod, c.Source, c.File, types.NodeName(c.Node))
	}
}

func oracleStaticPod(c oracleStaticPodCase) any {
	c.Gates.Set()
	var last *api.Pod
	parsed, pod, err := tryDecodeSinglePod(klog.Background(), c.text(), c.defaults(&last))
	if err != nil {
		return oracleRefusal(parsed, last, err)
	}
	return map[string]any{"pod": pod}
}

// Places in lists and maps: upstream's faults name them here and there.
var oraclePlace = regexp.MustCompile(`\[[^]]*\]`)

func oracleRefusal(parsed bool, pod *api.Pod, err error) any {
	switch {
	case !parsed:
		return map[string]any{"malformed": true}
	case strings.HasPrefix(err.Error(), "invalid pod: name is needed"):
		return map[string]any{"invalid": []string{"metadata.name Required value"}}
	case !strings.HasPrefix(err.Error(), "invalid pod: "):
		return map[string]any{"reference": err.Error()}
	}
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, &pod.ObjectMeta, nil)
	found := map[string]bool{}
	for _, fault := range validation.ValidatePodCreate(pod, opts) {
		found[fmt.Sprintf("%s %s", oraclePlace.ReplaceAllString(fault.Field, ""), fault.Type)] = true
	}
	faults := []string{}
	for fault := range found {
		faults = append(faults, fault)
	}
	sort.Strings(faults)
	return map[string]any{"invalid": faults}
}
