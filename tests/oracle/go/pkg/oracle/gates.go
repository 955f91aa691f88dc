package oracle

import (
	"encoding/json"
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	_ "k8s.io/kubernetes/pkg/features" // upstream's gates and their defaults
)

// Gates are feature gates that differ from their defaults: name to on or off.
type Gates map[string]bool

var defaults, current = map[string]bool{}, map[string]bool{}

// Set puts the gates of a case in force, and those of the case before back to their defaults. Gates are global in upstream,
// so cases are answered one after another.
func (g Gates) Set() {
	change := map[string]bool{}
	for name := range current {
		if _, wanted := g[name]; !wanted && current[name] != defaults[name] {
			change[name] = defaults[name]
		}
	}
	for name, on := range g {
		if _, known := defaults[name]; !known {
			defaults[name] = enabled(name)
			current[name] = defaults[name]
		}
		if current[name] != on {
			change[name] = on
		}
	}
	if len(change) == 0 {
		return
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(change); err != nil {
		panic(err)
	}
	for name, on := range change {
		current[name] = on
	}
}

func enabled(name string) bool {
	for feature := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if string(feature) == name {
			return utilfeature.DefaultFeatureGate.Enabled(feature)
		}
	}
	panic(fmt.Sprintf("upstream has no gate %s", name))
}

// Raw keeps a piece of JSON as it is.
type Raw = json.RawMessage
