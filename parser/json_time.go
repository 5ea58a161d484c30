package parser

import "bytes"

// jsonTimeForm is how a log writes its times.
type jsonTimeForm uint8

const (
	jsonTimeAny jsonTimeForm = iota
	jsonTimeRFC3339
	jsonTimeLocal // the same, perhaps without its offset
	jsonTimeCLF
	jsonTimeEpoch // unit by magnitude
	jsonTimeSeconds
	jsonTimeMillis
	jsonTimeMicros
	jsonTimeNanos
)

func parseJSONTimeForm(s string) (jsonTimeForm, bool) {
	switch s {
	case "":
		return jsonTimeAny, true
	case "rfc3339":
		return jsonTimeRFC3339, true
	case "local":
		return jsonTimeLocal, true
	case "clf":
		return jsonTimeCLF, true
	case "epoch":
		return jsonTimeEpoch, true
	case "s":
		return jsonTimeSeconds, true
	case "ms":
		return jsonTimeMillis, true
	case "us":
		return jsonTimeMicros, true
	case "ns":
		return jsonTimeNanos, true
	}
	return 0, false
}

// jsonTime reads times of one form.
type jsonTime struct {
	form  jsonTimeForm
	clf   clfClock
	local *localClock // nil: times have their offset
}

// parse returns the instant in nanoseconds since the epoch.
func (t *jsonTime) parse(v jsonValue) (ns int64, ok bool) {
	form := t.form
	if form == jsonTimeAny {
		form = guessJSONTime(v)
	}
	switch form {
	case jsonTimeRFC3339, jsonTimeLocal:
		return parseISO(v.text, t.local)
	case jsonTimeCLF:
		if len(v.text) != clfTimeLen {
			return 0, false
		}
		return t.clf.parse(v.text)
	}
	return parseJSONEpoch(v.text, form)
}

// guessJSONTime tells forms apart by where their first separator stands.
func guessJSONTime(v jsonValue) jsonTimeForm {
	switch b := v.text; {
	case !v.number && len(b) > 4 && b[4] == '-':
		return jsonTimeRFC3339
	case !v.number && len(b) > 2 && b[2] == '/':
		return jsonTimeCLF
	}
	return jsonTimeEpoch
}

// maxEpochDigits is the length of maxEpoch in nanoseconds. Numbers of that
// length that do not fit 64 bits come out below zero.
const maxEpochDigits = 19

// parseJSONEpoch reads a count of seconds, or parts of them, with decimals or
// without. Digits beyond the nanosecond are cut off.
func parseJSONEpoch(b []byte, form jsonTimeForm) (ns int64, ok bool) {
	whole, part, point := bytes.Cut(b, []byte("."))
	n, ok1 := digits(whole)
	_, ok2 := digits(part)
	if !ok1 || !ok2 || len(whole) == 0 || point && len(part) == 0 || len(whole) > maxEpochDigits {
		return 0, false
	}
	unit := epochUnit(int64(n), form)
	if int64(n) < minEpoch*(1e9/unit) || int64(n) > maxEpoch*(1e9/unit) {
		return 0, false
	}
	if len(part) > 9 {
		part = part[:9]
	}
	return int64(n)*unit + int64(fraction(part))*unit/1e9, true
}

// epochUnit returns the nanoseconds in one of what n counts.
func epochUnit(n int64, form jsonTimeForm) int64 {
	switch {
	case form == jsonTimeSeconds || form == jsonTimeEpoch && n < 1e11:
		return 1e9
	case form == jsonTimeMillis || form == jsonTimeEpoch && n < 1e14:
		return 1e6
	case form == jsonTimeMicros || form == jsonTimeEpoch && n < 1e17:
		return 1e3
	}
	return 1
}
