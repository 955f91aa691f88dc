// Command oracle lets upstream's own functions answer cases: JSON lines in, JSON lines out, no network.
package main

import (
	"flag"
	"io"

	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/kubelet" // and with it every package below it that registers handlers
	"k8s.io/kubernetes/pkg/oracle"
)

func main() {
	// Upstream logs its decisions; nobody reads that here, and formatting it would take most of the time.
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
	oracle.Main()
}
