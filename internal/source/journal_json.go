package source

import (
	"bufio"
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// journalReader takes what journalctl -o json writes: an object on each line
// (systemd's "Journal JSON Format"). Of it only the cursor and the message are
// kept, the latter up to a limit, whatever its length and wherever they stand:
// no entry takes more memory than that.
type journalReader struct {
	r       *bufio.Reader
	key     sink
	cursor  sink
	message sink
	has     bool // a message
}

const (
	maxJournalKey    = 64
	maxJournalCursor = 1024
)

var errRecord = errors.New("no journal entry in JSON")

// errLineEnd is errRecord where the end of the line has been read already.
var errLineEnd = errors.New("journal entry ends early")

func newJournalReader(r io.Reader, limit int) *journalReader {
	return &journalReader{
		r:   bufio.NewReaderSize(r, 64<<10),
		key: sink{max: maxJournalKey}, cursor: sink{max: maxJournalCursor}, message: sink{max: limit},
	}
}

// sink keeps the beginning of a value.
type sink struct {
	buf  []byte
	max  int
	over bool // there was more
}

func (s *sink) reset() { s.buf, s.over = s.buf[:0], false }

func (s *sink) put(c byte) {
	switch {
	case s == nil:
	case len(s.buf) < s.max:
		s.buf = append(s.buf, c)
	default:
		s.over = true
	}
}

func (s *sink) putRune(r rune) {
	var u [utf8.UTFMax]byte
	for _, c := range u[:utf8.EncodeRune(u[:], r)] {
		s.put(c)
	}
}

// next reads an entry, which is then in cursor, message and has. errRecord says
// that a line was none, or had no cursor; the next can be read all the same.
// Other errors are the reader's; an entry without its end is lost.
func (j *journalReader) next() error {
	j.cursor.reset()
	j.message.reset()
	j.has = false
	c, err := j.r.ReadByte()
	for err == nil && isSpace(c) {
		c, err = j.r.ReadByte()
	}
	if err != nil {
		return err
	}
	err = errRecord
	if c == '{' {
		err = j.object()
	}
	switch err {
	case nil:
		if err := j.rest(); err != nil {
			return err
		}
		if len(j.cursor.buf) == 0 || j.cursor.over {
			return errRecord
		}
		return nil
	case errLineEnd:
		return errRecord
	case errRecord:
		if err := j.rest(); err != nil {
			return err
		}
	}
	return err
}

// rest skips what is left of the line.
func (j *journalReader) rest() error {
	for {
		_, err := j.r.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// token reads the next byte that is no space. An entry has one line: a line feed
// that isn't escaped ends it.
func (j *journalReader) token() (byte, error) {
	for {
		c, err := j.r.ReadByte()
		switch {
		case err != nil:
			return 0, err
		case c == '\n':
			return 0, errLineEnd
		case !isSpace(c):
			return c, nil
		}
	}
}

// object reads what follows an opening brace.
func (j *journalReader) object() error {
	c, err := j.token()
	if err != nil || c == '}' {
		return err
	}
	for {
		if c != '"' {
			return errRecord
		}
		j.key.reset()
		if err := j.text(&j.key); err != nil {
			return err
		}
		if c, err = j.token(); err != nil {
			return err
		}
		if c != ':' {
			return errRecord
		}
		if c, err = j.token(); err != nil {
			return err
		}
		if err := j.field(string(j.key.buf), c); err != nil {
			return err
		}
		if c, err = j.token(); err != nil || c == '}' {
			return err
		}
		if c != ',' {
			return errRecord
		}
		if c, err = j.token(); err != nil {
			return err
		}
	}
}

// field reads the value of a key; c is its first byte.
func (j *journalReader) field(key string, c byte) error {
	switch {
	case key == "MESSAGE":
		j.message.reset()
		var err error
		j.has, err = j.value(c, &j.message)
		return err
	case key == "__CURSOR" && c == '"':
		j.cursor.reset()
		return j.text(&j.cursor)
	default:
		return j.skip(c)
	}
}

// value reads what a field can be: text; a list of bytes, if it isn't UTF-8;
// null, if it was too long (not with --all); or a list of these, if the entry
// has the field several times: then the first counts. It returns whether there
// was any.
func (j *journalReader) value(c byte, into *sink) (bool, error) {
	switch c {
	case '"':
		return true, j.text(into)
	case '[':
	default:
		return false, j.skip(c)
	}
	c, err := j.token()
	if err != nil {
		return false, err
	}
	if c == ']' {
		return true, nil // an empty list of bytes
	}
	if '0' <= c && c <= '9' {
		return true, j.numbers(c, into)
	}
	for has := false; ; {
		switch {
		case !has && c == '"':
			has, err = true, j.text(into)
		case !has && c == '[':
			has, err = j.list(into)
		default:
			err = j.skip(c)
		}
		if err != nil {
			return has, err
		}
		if c, err = j.token(); err != nil || c == ']' {
			return has, err
		}
		if c != ',' {
			return has, errRecord
		}
		if c, err = j.token(); err != nil {
			return has, err
		}
	}
}

// list reads a list of bytes behind its opening bracket.
func (j *journalReader) list(into *sink) (bool, error) {
	c, err := j.token()
	if err != nil || c == ']' {
		return true, err
	}
	return true, j.numbers(c, into)
}

// numbers reads a list of bytes from the first digit on.
func (j *journalReader) numbers(c byte, into *sink) error {
	for {
		n, digits := 0, 0
		for '0' <= c && c <= '9' {
			n, digits = n*10+int(c-'0'), digits+1
			if n > 255 {
				return errRecord
			}
			var err error
			if c, err = j.r.ReadByte(); err != nil {
				return err
			}
		}
		if digits == 0 {
			return j.wrong(c)
		}
		into.put(byte(n))
		if isSpace(c) && c != '\n' {
			var err error
			if c, err = j.token(); err != nil {
				return err
			}
		}
		switch c {
		case ']':
			return nil
		case ',':
		default:
			return j.wrong(c)
		}
		var err error
		if c, err = j.token(); err != nil {
			return err
		}
	}
}

// wrong is the error about a byte that was read and does not belong there.
func (j *journalReader) wrong(c byte) error {
	if c == '\n' {
		return errLineEnd
	}
	return errRecord
}

// skip reads a value of any kind from its first byte on, and drops it.
func (j *journalReader) skip(c byte) error {
	depth := 0
	for {
		switch c {
		case '"':
			if err := j.text(nil); err != nil {
				return err
			}
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth < 0 {
				return errRecord
			}
		case ',', ':':
			if depth == 0 {
				return errRecord
			}
		default:
			if err := j.literal(); err != nil {
				return err
			}
		}
		if depth == 0 {
			return nil
		}
		var err error
		if c, err = j.token(); err != nil {
			return err
		}
	}
}

// literal skips the rest of a number, true, false or null.
func (j *journalReader) literal() error {
	for {
		c, err := j.r.ReadByte()
		if err != nil {
			return err
		}
		switch c {
		case ',', ']', '}', ':', '"', ' ', '\t', '\r', '\n':
			return j.r.UnreadByte()
		}
	}
}

// text reads a string behind its opening quote.
func (j *journalReader) text(into *sink) error {
	for {
		c, err := j.r.ReadByte()
		switch {
		case err != nil:
			return err
		case c == '"':
			return nil
		case c == '\n':
			return errLineEnd
		case c != '\\':
			into.put(c)
		default:
			if err := j.escape(into); err != nil {
				return err
			}
		}
	}
}

// unescape returns the byte that a letter stands for behind a backslash.
func unescape(c byte) (byte, bool) {
	switch c {
	case '"', '\\', '/':
		return c, true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	return 0, false
}

// escape reads what follows a backslash.
func (j *journalReader) escape(into *sink) error {
	c, err := j.r.ReadByte()
	if err != nil {
		return err
	}
	if u, ok := unescape(c); ok {
		into.put(u)
		return nil
	}
	if c != 'u' {
		return j.wrong(c)
	}
	r, err := j.hex4()
	if err != nil {
		return err
	}
	for utf16.IsSurrogate(r) {
		// Half of a pair; the other half must follow.
		p, err := j.r.Peek(2)
		if err != nil || p[0] != '\\' || p[1] != 'u' {
			r = utf8.RuneError
			break
		}
		_, _ = j.r.Discard(2) // were peeked
		low, err := j.hex4()
		if err != nil {
			return err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			r = pair
			break
		}
		into.putRune(utf8.RuneError)
		r = low
	}
	into.putRune(r)
	return nil
}

func (j *journalReader) hex4() (rune, error) {
	var r rune
	for range 4 {
		c, err := j.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, j.wrong(c)
		}
		r = r<<4 | rune(c)
	}
	return r, nil
}
