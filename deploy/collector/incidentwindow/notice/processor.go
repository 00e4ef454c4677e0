// Package notice is a processor that passes everything on and tells the extension incident_window what goes wrong: exceptions, failed
// spans, and named events that are errors (an exit that failed, a kernel fault). Plain error lines are no reason to keep more.
package notice

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processorhelper"

	"firstfault/incidentwindow"
)

const exception = "exception"

type noticing struct {
	windows *incidentwindow.Windows
}

// NewFactory of the processor.
func NewFactory() processor.Factory {
	return processor.NewFactory(
		component.MustNewType("incident_notice"),
		func() component.Config { return &struct{}{} },
		processor.WithLogs(newLogs, component.StabilityLevelDevelopment),
		processor.WithTraces(newTraces, component.StabilityLevelDevelopment),
	)
}

func newLogs(ctx context.Context, set processor.Settings, config component.Config, next consumer.Logs) (processor.Logs, error) {
	own := &noticing{}
	return processorhelper.NewLogs(ctx, set, config, next, own.logs, own.options()...)
}

func newTraces(ctx context.Context, set processor.Settings, config component.Config, next consumer.Traces) (processor.Traces, error) {
	own := &noticing{}
	return processorhelper.NewTraces(ctx, set, config, next, own.traces, own.options()...)
}

func (n *noticing) options() []processorhelper.Option {
	return []processorhelper.Option{
		processorhelper.WithStart(n.start),
		processorhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
	}
}

func (n *noticing) start(_ context.Context, host component.Host) error {
	for _, found := range host.GetExtensions() {
		if own, ok := found.(*incidentwindow.Extension); ok {
			n.windows = own.Windows
			return nil
		}
	}
	return errors.New("incident_notice needs the extension incident_window; name it in service.extensions")
}

func (n *noticing) logs(_ context.Context, data plog.Logs) (plog.Logs, error) {
	for i := range data.ResourceLogs().Len() {
		resource := data.ResourceLogs().At(i)
		run, node := logsTell(resource)
		if run {
			n.windows.Notice(resource.Resource(), time.Now())
		}
		if node {
			n.windows.NoticeNode(time.Now())
		}
	}
	return data, nil
}

func logsTell(resource plog.ResourceLogs) (run, node bool) {
	for i := range resource.ScopeLogs().Len() {
		records := resource.ScopeLogs().At(i).LogRecords()
		for j := range records.Len() {
			record := records.At(j)
			name := record.EventName()
			if strings.HasPrefix(name, "node.") {
				// What others send under such a name never gets here (filter/claims).
				node = true
				continue
			}
			_, raised := record.Attributes().Get("exception.type")
			run = run || raised || name == exception || (name != "" && record.SeverityNumber() >= plog.SeverityNumberError)
		}
	}
	return run, node
}

func (n *noticing) traces(_ context.Context, data ptrace.Traces) (ptrace.Traces, error) {
	for i := range data.ResourceSpans().Len() {
		resource := data.ResourceSpans().At(i)
		if spansTell(resource) {
			n.windows.Notice(resource.Resource(), time.Now())
		}
	}
	return data, nil
}

func spansTell(resource ptrace.ResourceSpans) bool {
	for i := range resource.ScopeSpans().Len() {
		spans := resource.ScopeSpans().At(i).Spans()
		for j := range spans.Len() {
			span := spans.At(j)
			if span.Status().Code() == ptrace.StatusCodeError {
				return true
			}
			for k := range span.Events().Len() {
				if span.Events().At(k).Name() == exception {
					return true
				}
			}
		}
	}
	return false
}
