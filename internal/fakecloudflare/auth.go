package fakecloudflare

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

const codeAuthentication = 10000

// authenticate finds the token of a request, or the refusal of one that has none, or
// both where the token has ended. A
// path below zones is refused with other codes than one below accounts, as observed.
func (s *Server) authenticate(req *http.Request, now time.Time) (*Token, *answer) {
	no := func(a answer) (*Token, *answer) { return nil, &a }
	zones := strings.HasPrefix(req.URL.Path, prefix+"zones")
	if email, key := req.Header.Get("X-Auth-Email"), req.Header.Get("X-Auth-Key"); email != "" || key != "" {
		if g := s.opt.GlobalKey; g.Key != "" && g.Email == email && g.Key == key {
			return &Token{ID: "global-key", Owner: ""}, nil
		}
		return no(refuse(http.StatusForbidden, 9103, "Unknown X-Auth-Key or X-Auth-Email"))
	}
	head := req.Header.Get("Authorization")
	secret, bearer := strings.CutPrefix(head, "Bearer ")
	for i := range s.opt.Tokens {
		t := &s.opt.Tokens[i]
		if !bearer || t.Secret != secret {
			continue
		}
		if status := t.status(now); status != "active" {
			_, bad := no(refuse(http.StatusUnauthorized, codeAuthentication, "Authentication error"))
			return t, bad
		}
		return t, nil
	}
	switch wellFormed := bearer && regexp.MustCompile(`^[A-Za-z0-9_-]{40,}$`).MatchString(secret); {
	case head == "":
		return no(refuse(http.StatusBadRequest, 9106, "Missing X-Auth-Key, X-Auth-Email or Authorization headers"))
	case !wellFormed && zones:
		a := refuse(http.StatusBadRequest, 6003, "Invalid request headers")
		a.errs[0].Chain = []apiError{{Code: 6111, Message: "Invalid format for Authorization header"}}
		return no(a)
	case !wellFormed:
		return no(refuse(http.StatusBadRequest, 9106, "Authentication failed (status: 400)"))
	case zones:
		return no(refuse(http.StatusForbidden, 9109, "Invalid access token"))
	}
	return no(refuse(http.StatusUnauthorized, codeAuthentication, "Authentication error"))
}

func (t *Token) status(now time.Time) string {
	if !t.Expires.IsZero() && !now.Before(t.Expires) {
		return "expired"
	}
	if t.Status == "" {
		return "active"
	}
	return t.Status
}

// may says whether a token has the permission of a route and reaches the account or
// zone its path names. Permission to edit is permission to read.
func (s *Server) may(t *Token, r route, vars map[string]string) bool {
	if id, has := vars["account"]; has && (s.accounts[id] == nil || !t.reaches(id)) {
		return false
	}
	if id, has := vars["zone"]; has && (s.zones[id] == nil || !t.reaches(s.zones[id].account.ID)) {
		return false
	}
	return t.has(permissionFor(r.perm, vars))
}

// forbidden is the refusal of what may denies: a zone nobody told the token of has a
// code of its own.
func (s *Server) forbidden(vars map[string]string) answer {
	if id, has := vars["zone"]; has && s.zones[id] == nil {
		return refuse(http.StatusForbidden, 9109, "Unauthorized to access requested resource")
	}
	return refuse(http.StatusForbidden, codeAuthentication, "Authentication error")
}

// permissionFor tells access rules of a zone from those of an account: they share
// their routes but not their permission.
func permissionFor(p Permission, vars map[string]string) Permission {
	if _, inZone := vars["zone"]; inZone {
		switch p {
		case AccessRead:
			return ZoneAccessRead
		case AccessEdit:
			return ZoneAccessEdit
		}
	}
	return p
}

func (t *Token) has(p Permission) bool {
	if p == "" || p == anyState || t.Permissions == nil || slices.Contains(t.Permissions, p) {
		return true
	}
	edit := Permission(strings.TrimSuffix(string(p), "Read") + "Edit")
	return strings.HasSuffix(string(p), "Read") && slices.Contains(t.Permissions, edit)
}
