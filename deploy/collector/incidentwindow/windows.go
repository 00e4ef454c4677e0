package incidentwindow

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// most runs are remembered; a sender that makes up more of them pushes out the oldest.
const most = 4096

// node stands for everything on this node.
const node = ""

// Windows knows when something last went wrong in each run on this node.
type Windows struct {
	mutex sync.Mutex
	last  map[string]time.Time
}

// NewWindows returns an empty one.
func NewWindows() *Windows {
	return &Windows{last: map[string]time.Time{}}
}

// Notice that something went wrong in the run that a resource belongs to.
func (w *Windows) Notice(resource pcommon.Resource, now time.Time) {
	w.notice(runOf(resource), now)
}

// NoticeNode notes that something went wrong on the node itself, which is about all of its runs.
func (w *Windows) NoticeNode(now time.Time) {
	w.notice(node, now)
}

func (w *Windows) notice(run string, now time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if _, known := w.last[run]; !known && len(w.last) >= most {
		w.forgetOldest()
	}
	w.last[run] = now
}

// Open tells whether something went wrong in the resource's run, or on the node, no longer ago than `within`.
func (w *Windows) Open(resource pcommon.Resource, now time.Time, within time.Duration) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, run := range [...]string{runOf(resource), node} {
		if last, known := w.last[run]; known && now.Sub(last) <= within {
			return true
		}
	}
	return false
}

func (w *Windows) forgetOldest() {
	var oldest string
	var when time.Time
	for run, last := range w.last {
		if when.IsZero() || last.Before(when) {
			oldest, when = run, last
		}
	}
	delete(w.last, oldest)
}

// runOf names the run, or the process where it names none.
func runOf(resource pcommon.Resource) string {
	for _, key := range [...]string{"train.run.id", "service.instance.id"} {
		if value, ok := resource.Attributes().Get(key); ok && value.AsString() != "" {
			return key + "=" + value.AsString()
		}
	}
	return "nobody"
}
