package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// events decodes what a journal wrote.
func events(t *testing.T, out *bytes.Buffer) []event {
	t.Helper()
	var list []event
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("line %q: %v", lines.Text(), err)
		}
		list = append(list, e)
	}
	return list
}

func TestATermIsStartedAndStoppedOnceInOrder(t *testing.T) {
	var out bytes.Buffer
	term := &term{lease: "l", journal: newJournal(&out, "me")}
	term.start()
	term.stop()

	got := events(t, &out)
	if len(got) != 2 || got[0].Event != "started" || got[1].Event != "stopped" {
		t.Fatalf("found %+v, expected started, then stopped", got)
	}
	for _, e := range got {
		if e.Lease != "l" || e.Identity != "me" || e.Wall == 0 || e.Mono == 0 {
			t.Errorf("a field is missing in %+v", e)
		}
	}
	if got[1].Mono < got[0].Mono {
		t.Errorf("stopped at %d, before started at %d", got[1].Mono, got[0].Mono)
	}
}

func TestATermThatNeverBeganIsNotStopped(t *testing.T) {
	var out bytes.Buffer
	term := &term{lease: "l", journal: newJournal(&out, "me")}
	term.stop()
	term.start() // the goroutine that client-go started came too late
	if got := events(t, &out); len(got) != 0 {
		t.Fatalf("found %+v, expected nothing", got)
	}
}

func TestNumberedLeasesAreAddedToNamedOnes(t *testing.T) {
	o, err := parse([]string{"--lease", "a", "--leases", "2", "--prefix", "p"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.leases, " "); got != "a p-0 p-1" {
		t.Fatalf("found leases %q, expected a p-0 p-1", got)
	}
	if o.identity == "" {
		t.Fatal("no default identity")
	}
}

func TestAllBadOptionsAreToldAtOnce(t *testing.T) {
	_, err := parse([]string{"--leases", "-1", "--act-every", "-1s", "--on-lost", "panic", "extra"})
	if err == nil {
		t.Fatal("bad options were accepted")
	}
	for _, part := range []string{`"extra"`, "--leases", "no lease named", "--act-every", `"panic"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not named in: %v", part, err)
		}
	}
}
