package incidentwindow

import (
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

func resource(pairs ...string) pcommon.Resource {
	made := pcommon.NewResource()
	for i := 0; i < len(pairs); i += 2 {
		made.Attributes().PutStr(pairs[i], pairs[i+1])
	}
	return made
}

func TestAWindowIsAboutOneRunAndEnds(t *testing.T) {
	start := time.Now()
	windows := NewWindows()
	windows.Notice(resource("train.run.id", "a", "service.instance.id", "rank-0"), start)
	peer := resource("train.run.id", "a", "service.instance.id", "rank-1")
	if !windows.Open(peer, start.Add(time.Minute), time.Minute) || windows.Open(peer, start.Add(time.Minute+1), time.Minute) {
		t.Error("a peer's window is a minute long")
	}
	for _, other := range []pcommon.Resource{resource("train.run.id", "b"), resource("service.instance.id", "a"), resource()} {
		if windows.Open(other, start, time.Minute) {
			t.Errorf("%v is another run", other.Attributes().AsRaw())
		}
	}
	windows.NoticeNode(start)
	if !windows.Open(resource("train.run.id", "b"), start, time.Minute) {
		t.Error("the node is everybody's")
	}
}

func TestRunsAreBounded(t *testing.T) {
	start := time.Now()
	windows := NewWindows()
	windows.NoticeNode(start.Add(time.Hour))
	for i := range 3 * most {
		windows.Notice(resource("train.run.id", fmt.Sprint(i)), start.Add(time.Duration(i)))
	}
	if len(windows.last) != most {
		t.Errorf("%d runs are remembered", len(windows.last))
	}
	if _, newest := windows.last[fmt.Sprintf("train.run.id=%d", 3*most-1)]; !newest {
		t.Error("the oldest go first")
	}
	if _, known := windows.last[node]; !known {
		t.Error("the node was noticed last")
	}
}
