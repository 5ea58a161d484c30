package fakecloudflare

import (
	"net/http"
	"slices"
	"strings"
)

// verifyUser and verifyAccount answer for tokens of their own kind only.
func (s *Server) verifyUser(c *call) answer    { return s.verify(c, !c.token.OfAccount) }
func (s *Server) verifyAccount(c *call) answer { return s.verify(c, c.token.OfAccount) }

func (s *Server) verify(c *call, kind bool) answer {
	if !kind {
		return refuse(http.StatusUnauthorized, 1000, "Invalid API Token")
	}
	out := map[string]string{"id": c.token.ID, "status": c.token.status(c.now)}
	if !c.token.Expires.IsZero() {
		out["expires_on"] = s.stamp(c.token.Expires)
	}
	a := ok(out)
	if out["status"] == "active" {
		a.messages = []apiError{{Code: 10000, Message: "This API Token is valid and active"}}
	}
	return a
}

type accountJSON struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Type     string         `json:"type"`
	Settings map[string]any `json:"settings"`
	Created  string         `json:"created_on"`
}

func showAccount(a Account) accountJSON {
	return accountJSON{a.ID, a.Name, "standard", map[string]any{"enforce_twofactor": false}, "2024-01-01T00:00:00Z"}
}

func (t *Token) reaches(account string) bool {
	return t.Accounts == nil || slices.Contains(t.Accounts, account)
}

// listAccounts and listZones show what a token may read; without the permission that
// is nothing, and no error.
func (s *Server) listAccounts(c *call) answer {
	var found []accountJSON
	for _, a := range s.opt.Accounts {
		if c.token.has(AccountSettings) && c.token.reaches(a.ID) && strings.Contains(a.Name, c.query.Get("name")) {
			found = append(found, showAccount(a))
		}
	}
	return pageOf(c, found)
}

func pageOf[T any](c *call, found []T) answer {
	page, info, no := paged(c, found, 20, 50)
	if no != nil {
		return *no
	}
	if page == nil {
		page = []T{}
	}
	a := ok(page)
	a.info = info
	return a
}

func (s *Server) getAccount(c *call) answer { return ok(showAccount(s.account(c).Account)) }

type zoneJSON struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Status      string            `json:"status"`
	Paused      bool              `json:"paused"`
	Type        string            `json:"type"`
	Account     map[string]string `json:"account"`
	Owner       map[string]string `json:"owner"`
	Plan        map[string]any    `json:"plan"`
	Meta        map[string]any    `json:"meta"`
	DevMode     int               `json:"development_mode"`
	NameServers []string          `json:"name_servers"`
	Permissions []string          `json:"permissions"`
	Created     string            `json:"created_on"`
	Modified    string            `json:"modified_on"`
	Activated   string            `json:"activated_on"`
	OriginalNS  []string          `json:"original_name_servers"`
	OriginalReg *string           `json:"original_registrar"`
	OriginalDNS *string           `json:"original_dnshost"`
}

func showZone(a Account, z Zone) zoneJSON {
	const day = "2024-01-01T00:00:00Z"
	who := map[string]string{"id": a.ID, "name": a.Name}
	return zoneJSON{
		ID: z.ID, Name: z.Name, Status: "active", Type: "full", Account: who,
		Owner:       map[string]string{"id": a.ID, "name": a.Name, "type": "organization"},
		Plan:        map[string]any{"id": "0feeeeeeeeeeeeeeeeeeeeeeeeeeeeee", "name": "Free Website", "legacy_id": "free"},
		Meta:        map[string]any{"phishing_detected": false},
		NameServers: []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}, Permissions: []string{},
		Created: day, Modified: day, Activated: day,
	}
}

func (s *Server) listZones(c *call) answer {
	var found []zoneJSON
	name, account := c.query.Get("name"), c.query.Get("account.id")
	for _, a := range s.opt.Accounts {
		if !c.token.has(ZoneRead) || !c.token.reaches(a.ID) || account != "" && account != a.ID {
			continue
		}
		for _, z := range a.Zones {
			if name == "" || name == z.Name {
				found = append(found, showZone(a, z))
			}
		}
	}
	return pageOf(c, found)
}

func (s *Server) getZone(c *call) answer {
	z := s.zone(c)
	return ok(showZone(z.account.Account, z.Zone))
}

// ips gives Cloudflare's networks, of which this double knows a few.
func (s *Server) ips(c *call) answer {
	const etag = "38f79d050aa027e3be3865e495dcc9bc"
	if c.req.Header.Get("If-None-Match") == etag {
		return answer{status: http.StatusNotModified, noBody: true}
	}
	a := ok(map[string]any{
		"etag":       etag,
		"ipv4_cidrs": []string{"173.245.48.0/20", "103.21.244.0/22", "104.16.0.0/13"},
		"ipv6_cidrs": []string{"2400:cb00::/32", "2606:4700::/32", "2a06:98c0::/29"},
	})
	a.header = map[string]string{"ETag": etag}
	return a
}
