package cases

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/tailban/tailban/internal/corpus"
)

// answered are the known faults that concern formats, times, the configuration,
// files and restarts: the ids of a collection that lies beside a developer's
// checkout, and the test of ours whose outcome is what is right there.
func answered() []answer {
	return []answer{
		{"c01", wholeAddress, "an address is a whole column"},
		{"c06", lineFeedInUserName, "a line feed in a user name"},
		{"c10", headerOfAStranger, "a header that no trusted proxy wrote"},
		{"c11", clientBehindTwoProxies, "the client, and not its proxy"},
		{"c12", olderCaddy, "an older name of a field"},
		{"c15", proxyWithoutHeader, "a proxy whose clients can't be told apart"},
		{"c17", nanosecondsAndZone, "nanoseconds, and Z"},
		{"c18", localTime, "local time without a zone"},
		{"c19", clockSetBack, "the hour that comes twice"},
		{"c21", lateLine, "the time of the beginning of a long request"},
		{"c24", dayBeforeMonth, "the day before the month"},
		{"c26", ringOfLines, "a log of a few lines, written anew for each"},
		{"c27", bothBeginAlike, "old and new file begin alike"},
		{"c29", packedWhileWatched, "a file that vanishes while it is watched"},
		{"c30", linkIsMoved, "a link that is moved"},
		{"c32", halfALine, "half a line"},
		{"c33", filesThatAppear, "files that appear later"},
		{"c34", veryLongLines, "very long lines"},
		{"c35", tailOfTheOldFile, "rotated before it was read to its end"},
		{"c38", notUTF8, "bytes that are no UTF-8"},
		{"c39", carriageReturns, "carriage returns"},
		{"c41", byteOrderMark, "byte order marks"},
		{"c43", longBans, "bans longer than a firewall takes"},
		{"c45", banGoesOn, "a restart during a ban"},
		{"c47", restartsAreNoOffences, "restarts are no offences"},
		{"c51", neighboursInANetwork, "addresses of one network"},
	}
}

type answer struct {
	id   string
	test func(*testing.T)
	name string
}

// elsewhere are the faults of other parts.
func elsewhere() map[string]string {
	const (
		filters = "logs of other programs and free patterns, which are not read yet"
		later   = "an interface of a content network, which there is no action for yet"
		actions = "bans that an action can't take: TestBanThatFailsIsTriedAgain in internal/daemon"
	)
	return map[string]string{
		"c02": filters, "c03": filters, "c05": filters, "c07": filters, "c08": filters, "c22": filters, "c23": filters, "c36": filters,
		"c48": later, "c50": actions,
	}
}

func TestCases(t *testing.T) {
	for _, c := range answered() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t)
		})
	}
}

// No case of the collection is forgotten, and none is made up.
func TestEveryCaseHasItsPlace(t *testing.T) {
	f, err := os.Open(corpus.Path(t, "corpus", "cases", "open.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	place := map[string]int{}
	for _, c := range answered() {
		place[c.id]++
	}
	for id := range elsewhere() {
		place[id]++
	}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var c struct{ ID, Kind, Right string }
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if place[c.ID] != 1 {
			t.Errorf("%s (%s) stands in %d places, want one: right is %q", c.ID, c.Kind, place[c.ID], c.Right)
		}
		delete(place, c.ID)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	for id := range place {
		t.Errorf("there is no case %s", id)
	}
}
