package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Headers of a signed message, of the Standard Webhooks specification:
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
const (
	headerID        = "webhook-id"        // the same for each try
	headerTimestamp = "webhook-timestamp" // seconds since 1970, of this try
	headerSignature = "webhook-signature"
)

// keyPrefix may stand before a key.
const keyPrefix = "whsec_"

// minKey is how long a key must be, in bytes.
const minKey = 24

// CheckKey tells what is wrong with a signing key.
func CheckKey(s string) error {
	_, err := parseKey(s)
	return err
}

// parseKey reads a signing key: base64 of at least 24 bytes, as the
// specification has it with whsec_ before it.
func parseKey(s string) ([]byte, error) {
	const hint = ": openssl rand -base64 32 makes one"
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, keyPrefix))
	if err != nil {
		return nil, errors.New("is not base64" + hint)
	}
	if len(key) < minKey {
		return nil, fmt.Errorf("is a key of %d bytes, and %d are the least%s", len(key), minKey, hint)
	}
	return key, nil
}

// signature is the value of the header: version 1, an HMAC with SHA-256 over the
// message's id, the time and the body, joined by dots.
func signature(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
