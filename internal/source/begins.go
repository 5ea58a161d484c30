package source

// Telling reports whether what the file begins with is enough to tell it from
// any other, where the number of its device can't, as that may have changed.
func (p Position) Telling() bool { return p.HeadLen >= convincing }

// Begins reports whether data, the first bytes of a file, can be of the file
// that the position was taken from. It takes HeadLen bytes of them.
func (p Position) Begins(data []byte) bool {
	return p.HeadLen == 0 || p.HeadLen > 0 && int64(len(data)) >= p.HeadLen && hashHead(data[:p.HeadLen]) == p.Head
}
