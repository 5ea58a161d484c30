package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readBans decodes Bans ban by ban: there may be a hundred thousand, and the
// decoder would keep the whole text of them at a time.
func readBans(r io.Reader) (*Bans, error) {
	d := json.NewDecoder(r)
	b := &Bans{Bans: []Ban{}}
	if err := delim(d, '{'); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch key {
		case "now":
			err = d.Decode(&b.Now)
		case "total":
			err = d.Decode(&b.Total)
		case "bans":
			err = readEach(d, &b.Bans)
		default:
			var pass json.RawMessage
			err = d.Decode(&pass)
		}
		if err != nil {
			return nil, noEOF(err)
		}
	}
	if err := delim(d, '}'); err != nil {
		return nil, noEOF(err)
	}
	return b, nil
}

func readEach(d *json.Decoder, bans *[]Ban) error {
	if err := delim(d, '['); err != nil {
		return err
	}
	for d.More() {
		var one Ban
		if err := d.Decode(&one); err != nil {
			return err
		}
		*bans = append(*bans, one)
	}
	return delim(d, ']')
}

func delim(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("expected %v at byte %d, got %v", want, d.InputOffset(), got)
	}
	return nil
}

// noEOF makes an end inside a value an error that says so.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
