package fakecloudflare

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An accessRule is one of the older kind: one address or network each, at once in
// force, for an account or for a zone.
type accessRule struct {
	id, mode, target, value, notes string
	prefix                         netip.Prefix // of the targets that are addresses
	created, modified              time.Time
}

const modeAllow = "whitelist"

func modes() []string {
	return []string{"block", "challenge", modeAllow, "js_challenge", "managed_challenge"}
}

type accessConfig struct {
	Target string `json:"target"`
	Value  string `json:"value"`
}

type accessJSON struct {
	ID            string       `json:"id"`
	Paused        bool         `json:"paused"`
	Modified      string       `json:"modified_on"`
	AllowedModes  []string     `json:"allowed_modes"`
	Mode          string       `json:"mode"`
	Notes         string       `json:"notes"`
	Configuration accessConfig `json:"configuration"`
	Scope         accessScope  `json:"scope"`
	Created       string       `json:"created_on"`
}

type accessScope struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// accessOf gives the rules a path is about, and what they belong to.
func (s *Server) accessOf(c *call) (set *accessSet, a *account, scope accessScope) {
	if z := s.zone(c); z != nil {
		return &z.access, z.account, accessScope{z.ID, "zone"}
	}
	a = s.account(c)
	return &a.access, a, accessScope{a.ID, "account"}
}

func (s *Server) showAccess(r *accessRule, scope accessScope) accessJSON {
	return accessJSON{
		ID: r.id, Modified: s.stamp(r.modified), Created: s.stamp(r.created), AllowedModes: modes(),
		Mode: r.mode, Notes: r.notes, Configuration: accessConfig{r.target, r.value}, Scope: scope,
	}
}

// Codes of refusals about access rules, as others saw them.
const (
	codeAccessNotFound  = 10001
	codeAccessDuplicate = 10009
	codeAccessFull      = 10010
	codeAccessInvalid   = 10014
)

func badAccess(what string) *answer {
	a := refuse(http.StatusBadRequest, codeAccessInvalid, "firewallaccessrules.api.%s", what)
	return &a
}

// readAccess checks what a rule is for, and writes it as the API keeps it.
func (s *Server) readAccess(cfg accessConfig) (value string, p netip.Prefix, no *answer) {
	address := func(want6 bool) {
		a, err := netip.ParseAddr(cfg.Value)
		if err != nil || a.Zone() != "" || a.Is4In6() || a.Is6() != want6 {
			no = badAccess("invalid_ip_value")
			return
		}
		p = netip.PrefixFrom(a, a.BitLen())
		if value = a.String(); want6 && s.opt.FullIPv6 {
			value = a.StringExpanded()
		}
	}
	switch cfg.Target {
	case "ip":
		address(false)
	case "ip6":
		address(true)
	case "ip_range":
		var err error
		p, err = netip.ParsePrefix(cfg.Value)
		lengths := []int{16, 24}
		if p.Addr().Is6() {
			lengths = []int{32, 48, 64, 128}
		}
		if err != nil || p.Addr().Is4In6() || p != p.Masked() || !slices.Contains(lengths, p.Bits()) {
			return "", p, badAccess("invalid_range_value")
		}
		if value = p.String(); p.Addr().Is6() && s.opt.FullIPv6 {
			value = p.Addr().StringExpanded() + "/" + strconv.Itoa(p.Bits())
		}
	case "asn":
		if !regexp.MustCompile(`^AS[0-9]+$`).MatchString(cfg.Value) {
			return "", p, badAccess("invalid_asn_value")
		}
		value = cfg.Value
	case "country":
		if !regexp.MustCompile(`^[A-Z][A-Z0-9]$`).MatchString(cfg.Value) {
			return "", p, badAccess("invalid_country_value")
		}
		value = cfg.Value
	default:
		return "", p, badAccess("invalid_target")
	}
	return value, p, no
}

type accessBody struct {
	Mode          string       `json:"mode"`
	Configuration accessConfig `json:"configuration"`
	Notes         string       `json:"notes"`
}

func (s *Server) createAccess(c *call) answer {
	set, a, scope := s.accessOf(c)
	var in accessBody
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	if !slices.Contains(modes(), in.Mode) {
		return *badAccess("invalid_mode")
	}
	value, p, no := s.readAccess(in.Configuration)
	if no != nil {
		return *no
	}
	r := &accessRule{
		mode: in.Mode, target: in.Configuration.Target, value: value, prefix: p, notes: in.Notes,
		created: c.now, modified: c.now,
	}
	if set.same(r) != nil {
		return refuse(http.StatusBadRequest, codeAccessDuplicate, "firewallaccessrules.api.duplicate_of_existing")
	}
	if a.rulesUsed >= s.opt.Limits.AccessRules {
		return refuse(http.StatusBadRequest, codeAccessFull, "firewallaccessrules.api.rule_limit_exceeded")
	}
	r.id = s.newID()
	set.add(r)
	a.rulesUsed++
	c.rec.Applied = true
	return ok(s.showAccess(r, scope))
}

func (s *Server) oneAccess(c *call) (r *accessRule, scope accessScope, no *answer) {
	set, _, scope := s.accessOf(c)
	if r = set.byID[c.vars["rule"]]; r == nil {
		a := refuse(http.StatusNotFound, codeAccessNotFound, "firewallaccessrules.api.not_found")
		no = &a
	}
	return r, scope, no
}

func (s *Server) getAccess(c *call) answer {
	r, scope, no := s.oneAccess(c)
	if no != nil {
		return *no
	}
	return ok(s.showAccess(r, scope))
}

// editAccess changes mode and notes; what a rule is for can't be changed.
func (s *Server) editAccess(c *call) answer {
	r, scope, no := s.oneAccess(c)
	if no != nil {
		return *no
	}
	var in struct {
		Mode, Notes   *string
		Configuration *accessConfig
	}
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	if in.Configuration != nil {
		if value, _, no := s.readAccess(*in.Configuration); no != nil || value != r.value || in.Configuration.Target != r.target {
			return *badAccess("configuration_is_fixed")
		}
	}
	if in.Mode != nil {
		if !slices.Contains(modes(), *in.Mode) {
			return *badAccess("invalid_mode")
		}
		r.mode = *in.Mode
	}
	if in.Notes != nil {
		r.notes = *in.Notes
	}
	r.modified = c.now
	c.rec.Applied = true
	return ok(s.showAccess(r, scope))
}

func (s *Server) deleteAccess(c *call) answer {
	r, _, no := s.oneAccess(c)
	if no != nil {
		return *no
	}
	set, a, _ := s.accessOf(c)
	set.drop(r)
	a.rulesUsed--
	c.rec.Applied = true
	return ok(map[string]string{"id": r.id})
}

// listAccess gives a page, newest first unless a direction is asked for. A zone's are
// listed with those of its account, which hold there too.
func (s *Server) listAccess(c *call) answer {
	set, a, scope := s.accessOf(c)
	all, wider := set.rules, map[*accessRule]bool{}
	if set != &a.access {
		all = slices.Concat(all, a.access.rules)
		for _, r := range a.access.rules {
			wider[r] = true
		}
	}
	var tests []func(*accessRule) bool
	filter := func(key string, test func(r *accessRule, want string) bool) {
		if want := c.query.Get(key); want != "" {
			tests = append(tests, func(r *accessRule) bool { return test(r, want) })
		}
	}
	filter("mode", func(r *accessRule, want string) bool { return r.mode == want })
	filter("configuration.target", func(r *accessRule, want string) bool { return r.target == want })
	filter("configuration.value", func(r *accessRule, want string) bool { return r.value == want })
	filter("notes", func(r *accessRule, want string) bool {
		return strings.Contains(strings.ToLower(r.notes), strings.ToLower(want))
	})
	var found []*accessRule
	for _, r := range all {
		hits := 0
		for _, t := range tests {
			if t(r) {
				hits++
			}
		}
		if hits == len(tests) || hits > 0 && c.query.Get("match") == "any" {
			found = append(found, r)
		}
	}
	if c.query.Get("direction") != "asc" {
		slices.Reverse(found)
	}
	page, info, no := paged(c, found, 20, 1000)
	if no != nil {
		return *no
	}
	out := []accessJSON{}
	for _, r := range page {
		of := scope
		if wider[r] {
			of = accessScope{a.ID, "account"}
		}
		out = append(out, s.showAccess(r, of))
	}
	got := ok(out)
	got.info = info
	return got
}

type pageInfo struct {
	Page       int `json:"page"`
	PerPage    int `json:"per_page"`
	Count      int `json:"count"`
	Total      int `json:"total_count"`
	TotalPages int `json:"total_pages"`
}

// paged cuts the page out that a request asks for; one after the last is empty.
func paged[T any](c *call, all []T, size, most int) ([]T, pageInfo, *answer) {
	number := func(key string, def int) int {
		text := c.query.Get(key)
		if text == "" {
			return def
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return -1
		}
		return n
	}
	page, size := number("page", 1), min(number("per_page", size), most)
	if page < 1 || size < 1 {
		no := refuse(http.StatusBadRequest, 6003, "Invalid page or per_page")
		return nil, pageInfo{}, &no
	}
	from := min((page-1)*size, len(all))
	out := all[from:min(from+size, len(all))]
	return out, pageInfo{page, size, len(out), len(all), (len(all) + size - 1) / size}, nil
}
