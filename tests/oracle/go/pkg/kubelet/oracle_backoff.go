package kubelet

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"
	kubeletconfiginternal "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/oracle"
	"k8s.io/utils/clock"
)

func init() { oracle.Register("Backoff", oracle.Of(oracleBackoff)) }

type oracleBackoffCase struct {
	Image bool                `json:"image"`
	Max   *int64              `json:"max"`
	Gates oracle.Gates        `json:"gates"`
	Steps []oracleBackoffStep `json:"steps"`
}

// A step at a moment, about what happened at another; moments in milliseconds.
type oracleBackoffStep struct {
	Do    string `json:"do"`
	Key   string `json:"key"`
	Now   int64  `json:"now"`
	Event int64  `json:"event"`
}

type oracleClock struct {
	clock.Clock
	now time.Time
}

func (c *oracleClock) Now() time.Time                   { return c.now }
func (c *oracleClock) Since(ts time.Time) time.Duration { return c.now.Sub(ts) }

// The delay after each step, and whether the key waits.
func oracleBackoff(c oracleBackoffCase) any {
	c.Gates.Set()
	var backoff *flowcontrol.Backoff
	if c.Image {
		backoff = flowcontrol.NewBackOff(imageBackOffPeriod, MaxImageBackOff)
	} else {
		config := &kubeletconfiginternal.KubeletConfiguration{}
		if c.Max != nil {
			config.CrashLoopBackOff.MaxContainerRestartPeriod = &metav1.Duration{Duration: time.Duration(*c.Max) * time.Millisecond}
		}
		most, base := newCrashLoopBackOff(config)
		backoff = flowcontrol.NewBackOff(base, most)
		// As NewMainKubelet has it, in a closure.
		backoff.HasExpiredFunc = func(eventTime time.Time, lastUpdate time.Time, _ time.Duration) bool {
			return eventTime.Sub(lastUpdate) > 600*time.Second
		}
	}
	clock := &oracleClock{}
	backoff.Clock = clock
	answers := []map[string]any{}
	for _, step := range c.Steps {
		clock.now = time.UnixMilli(step.Now)
		event := time.UnixMilli(step.Event)
		answer := map[string]any{}
		switch step.Do {
		case "next":
			backoff.Next(step.Key, event)
		case "reset":
			backoff.Reset(step.Key)
		case "gc":
			backoff.GC()
		case "since":
			answer["waits"] = backoff.IsInBackOffSince(step.Key, event)
		case "update":
			answer["waits"] = backoff.IsInBackOffSinceUpdate(step.Key, clock.now)
		}
		answer["delay"] = backoff.Get(step.Key).Milliseconds()
		answers = append(answers, answer)
	}
	return answers
}
