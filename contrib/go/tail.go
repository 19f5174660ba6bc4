package kubegc

import (
	"io"
	"sync"
)

// maxTail is how much of the log an error can show.
const maxTail = 4 << 10

// A tail keeps the end of what is written to it, and passes all of it on.
type tail struct {
	mutex sync.Mutex
	end   []byte
	next  io.Writer
}

// Write never fails: a log that cannot be written must not end the collector.
func (t *tail) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.next != nil {
		_, _ = t.next.Write(p)
	}
	t.end = append(t.end, p...)
	if extra := len(t.end) - maxTail; extra > 0 {
		t.end = append([]byte(nil), t.end[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.end)
}
