// Package incidentwindow is a policy of the tail sampler: while something goes wrong in a run, all traces of its processes on this node are
// kept. What goes wrong is seen by the processor in the folder notice. A trace's own spans cannot tell: ranks that wait for the one that
// failed have traces without an error.
package incidentwindow

import (
	"context"
	"errors"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor/pkg/samplingpolicy"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Config says how long a window is.
type Config struct {
	// Wait is the decision_wait of the sampler: traces that began up to so long before an error are still undecided when it comes.
	Wait time.Duration `mapstructure:"wait"`
	// After an error traces are kept that begin up to so much later; 0 switches windows off.
	After time.Duration `mapstructure:"after"`
}

// Validate refuses what cannot be.
func (c *Config) Validate() error {
	if c.Wait < 0 || c.After < 0 {
		return errors.New("wait and after must not be negative")
	}
	return nil
}

// Extension holds what the processors notice and the policies ask for.
type Extension struct {
	component.StartFunc
	component.ShutdownFunc
	*Windows
	config *Config
}

// NewFactory of the extension.
func NewFactory() extension.Factory {
	return extension.NewFactory(
		component.MustNewType("incident_window"),
		func() component.Config { return &Config{Wait: 30 * time.Second, After: 5 * time.Minute} },
		func(_ context.Context, _ extension.Settings, config component.Config) (extension.Extension, error) {
			return &Extension{Windows: NewWindows(), config: config.(*Config)}, nil
		},
		component.StabilityLevelDevelopment,
	)
}

// NewEvaluator of a policy of the tail sampler.
func (e *Extension) NewEvaluator(string, map[string]any) (samplingpolicy.Evaluator, error) {
	return &evaluator{windows: e.Windows, config: e.config}, nil
}

type evaluator struct {
	windows *Windows
	config  *Config
}

// Evaluate keeps a trace when any of its processes belongs to a run in which something went wrong.
func (e *evaluator) Evaluate(_ context.Context, _ pcommon.TraceID, trace *samplingpolicy.TraceData) (samplingpolicy.Decision, error) {
	if e.config.After == 0 {
		return samplingpolicy.NotSampled, nil
	}
	now := time.Now()
	spans := trace.ReceivedBatches.ResourceSpans()
	for i := range spans.Len() {
		if e.windows.Open(spans.At(i).Resource(), now, e.config.Wait+e.config.After) {
			return samplingpolicy.Sampled, nil
		}
	}
	return samplingpolicy.NotSampled, nil
}

// IsStateful because other data decides.
func (*evaluator) IsStateful() bool {
	return true
}
