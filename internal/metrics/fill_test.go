package metrics

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
)

// filler fills a value with numbers and times that are each there only once, and
// notes which field has which.
type filler struct {
	next   int64
	fields map[int64]string
}

// fill has lists of one element, and pointers that lead somewhere.
func (f *filler) fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(f.number(path), 0)))
			return
		}
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), strings.TrimPrefix(path+"."+name, "."))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), path)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(f.number(path))
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(uint64(f.number(path)))
	case reflect.Float64:
		v.SetFloat(float64(f.number(path)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("text")
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]uint64{detector.StepCounted.String(): uint64(f.number(path))}))
	}
}

func (f *filler) number(path string) int64 {
	f.next++
	f.fields[f.next] = path
	return f.next
}

// untold are numbers and times of a status that are no metrics: what belongs to a
// single file, what the configuration says, and what another metric says as well.
func untold() []string {
	return []string{
		"PID", "Now", "Started",
		"Problems.Since",
		"Jails.Held.Since", "Jails.Held.Until", "Jails.Limit", "Jails.Window", "Jails.Ban",
		"Logs.Unparsed", "Logs.Files.Offset", "Logs.Files.Behind", "Logs.Files.Last",
		"Actions.Edge.Leases.Since",
		"Notify.Since",
		"Lists.Since", "Lists.Waiting.Since", "Lists.Waiting.Added", "Lists.Waiting.Removed",
	}
}

// Every number of a status is a metric, or is meant not to be one.
func TestEveryNumberIsTold(t *testing.T) {
	t.Parallel()
	f := &filler{next: 1_000_000, fields: map[int64]string{}}
	s := &Snapshot{Status: &control.Status{}}
	f.fill(reflect.ValueOf(s.Status).Elem(), "")
	s.Status.Logs[0].NoAnswer = false // of such there are fewer
	f.fill(reflect.ValueOf(&s.Sockets).Elem(), "Sockets")
	f.fill(reflect.ValueOf(&s.Process).Elem(), "Process")
	text := string(Text(s))
	for n, path := range f.fields {
		told := strings.Contains(text, fmt.Sprintf(" %d\n", n))
		if excepted := slices.Contains(untold(), path); told == excepted {
			t.Errorf("%s: it is told: %v, and excepted: %v", path, told, excepted)
		}
	}
	if len(f.fields) < 80 {
		t.Errorf("only %d fields were filled", len(f.fields))
	}
}
