package notify

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const page = "../../docs/notify.md"

// block is the page's only one in a language.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks in %s", page, len(found), language)
	}
	return string(found[0][1])
}

// The sample has the keys that messages have, in their order.
func TestDocumentedMessage(t *testing.T) {
	t.Parallel()
	sample := block(t, "json")
	d := json.NewDecoder(strings.NewReader(sample))
	d.DisallowUnknownFields()
	var j JSON
	if err := d.Decode(&j); err != nil {
		t.Fatal(err)
	}
	if total := j.Counts[Ban] + j.Counts[Alarm]; j.Version != 1 || total != j.Omitted+len(j.Events) {
		t.Errorf("the sample counts %d events, and has %d and %d", total, len(j.Events), j.Omitted)
	}
	ev := Event{
		Time: j.Events[0].Time, Kind: Ban, Target: ban(0).Target, Client: j.Events[0].Client, Jail: "sign-in", Until: j.Events[0].Until,
		Offence: 2, Count: 11, Limit: 10, Window: time.Minute,
	}
	if err := ev.Target.UnmarshalText([]byte(j.Events[0].Target)); err != nil {
		t.Fatal(err)
	}
	var digest digest
	digest.add(ev)
	got := jsonBody(&Options{}, "", &digest).Events
	want, err := json.Marshal(j.Events)
	if text := encode(got); err != nil || !bytes.Equal(text, want) {
		t.Errorf("the sample's event is\n%s\nand would be\n%s", want, text)
	}
	if keys := keysOf(t, sample); !slices.Equal(keys, keysOf(t, string(encode(j)))) {
		t.Errorf("the sample's keys are %v", keys)
	}
}

// keysOf are the keys of the object on top, in order.
func keysOf(t *testing.T, text string) (keys []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	depth, key := 0, false
	for {
		x, err := d.Token()
		if err == io.EOF {
			return keys
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x {
		case json.Delim('{'), json.Delim('['):
			depth++
			key = depth == 1
			continue
		case json.Delim('}'), json.Delim(']'):
			depth--
			key = depth == 1
			continue
		}
		if depth == 1 {
			if key {
				keys = append(keys, x.(string))
			}
			key = !key
		}
	}
}

// The page names each kind of event.
func TestDocumentedKinds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Kinds() {
		if !strings.Contains(string(text), `"`+string(k)+`"`) && !strings.Contains(string(text), "`"+string(k)+"`") {
			t.Errorf("the configuration's page doesn't name the event %s", k)
		}
	}
}

// What the page has for those who take messages tells ours from forged ones.
func TestDocumentedCheckOfSignatures(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3: ", err)
	}
	url, got := taker(t)
	p := posterTo(t, url, func(o *Options) { o.Key = Secret{Text: keyPrefix + testKey} })
	if a := p.post(t.Context(), sample(p)); a.err != nil {
		t.Fatal(a.err)
	}
	header, body := got()
	headers := map[string]string{}
	for _, name := range []string{headerID, headerTimestamp, headerSignature} {
		headers[name] = header.Get(name)
	}
	input := encode(map[string]any{"key": testKey, "headers": headers, "body": string(body)})
	cmd := exec.Command(python, "-c", block(t, "python")+`
import json, sys
x = json.load(sys.stdin)
key, h, b = x["key"], x["headers"], x["body"].encode()
print(verified(key, h, b), verified("whsec_" + key, h, b), verified(key, h, b + b" "),
      verified(base64.b64encode(b"another key than that one").decode(), h, b), verified(key, h, b, time.time() + 400),
      verified(key, h | {"webhook-id": "msg_y"}, b), verified(key, h | {"webhook-signature": "v2,x v1,"}, b))
`)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if want := "True True False False False False False\n"; err != nil || string(out) != want {
		t.Errorf("%v: it says %q, want %q", err, out, want)
	}
}
