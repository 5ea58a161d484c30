package fakecloudflare_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/accounts"
	"github.com/cloudflare/cloudflare-go/v7/ips"
	"github.com/cloudflare/cloudflare-go/v7/option"
	"github.com/cloudflare/cloudflare-go/v7/rules"
	"github.com/cloudflare/cloudflare-go/v7/user"
	"github.com/cloudflare/cloudflare-go/v7/zones"

	"github.com/tailban/tailban/internal/fakecloudflare"
)

func TestTokensAndPermissions(t *testing.T) {
	hour := time.Now().Add(time.Hour)
	o := fakecloudflare.Options{
		Now:       time.Now,
		GlobalKey: fakecloudflare.GlobalKey{Email: "a@example.com", Key: "key"},
		Tokens: []fakecloudflare.Token{
			{Secret: "all", ID: "1"},
			{Secret: "lists", ID: "2", Permissions: []fakecloudflare.Permission{fakecloudflare.ListsEdit}},
			{Secret: "read", ID: "3", Permissions: []fakecloudflare.Permission{fakecloudflare.ListsRead, fakecloudflare.ZoneAccessEdit}},
			{Secret: "ended", ID: "4", Expires: hour.Add(-2 * time.Hour)},
			{Secret: "disabled", ID: "5", Status: "disabled"},
			{Secret: "elsewhere", ID: "6", Accounts: []string{"another"}},
		},
	}
	s := fakecloudflare.New(o)
	s.AddList("banned", "")
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	const (
		lists  = "/accounts/" + fakecloudflare.AccountID + "/rules/lists"
		sets   = "/zones/" + zone + "/rulesets"
		access = "/accounts/" + fakecloudflare.AccountID + "/firewall/access_rules/rules"
		inZone = "/zones/" + zone + "/firewall/access_rules/rules"
	)
	wellFormed := "Bearer " + strings.Repeat("x", 40)
	for _, c := range []struct {
		method, path, auth string
		status             int
		code               string
	}{
		{"GET", lists, "Bearer all", 200, ""},
		{"GET", lists, "Bearer lists", 200, ""},
		{"GET", lists, "Bearer read", 200, ""},
		{"GET", sets, "Bearer all", 200, ""},
		{"GET", inZone, "Bearer read", 200, ""},
		{"GET", lists, "", 400, "9106"},
		{"GET", lists, "Bearer", 400, "9106"},
		{"GET", lists, "Bearer bad token", 400, "9106"},
		{"GET", sets, "Bearer bad token", 400, "6003"},
		{"GET", lists, wellFormed, 401, "10000"},
		{"GET", sets, wellFormed, 403, "9109"},
		{"GET", lists, "Bearer ended", 401, "10000"},
		{"GET", lists, "Bearer disabled", 401, "10000"},
		{"GET", lists, "Bearer elsewhere", 403, "10000"},
		{"GET", sets, "Bearer elsewhere", 403, "10000"},
		{"GET", "/zones/00/rulesets", "Bearer all", 403, "9109"},
		{"GET", "/accounts/00/rules/lists", "Bearer all", 403, "10000"},
		{"POST", lists, "Bearer read", 403, "10000"},
		{"GET", sets, "Bearer lists", 403, "10000"},
		{"GET", access, "Bearer read", 403, "10000"},
		{"PATCH", lists, "Bearer all", 405, "10405"},
		{"GET", "/accounts/" + fakecloudflare.AccountID + "/nothing", "Bearer all", 404, "7003"},
		{"POST", lists, "Bearer all", 400, "10012"},
		{"GET", "/ips", "", 200, ""},
	} {
		status, body := call(t, srv, c.method, c.path, c.auth)
		if status != c.status || !strings.Contains(body, `"code":`+c.code) && c.code != "" || strings.Contains(body, `"success":true`) != (status == 200) {
			t.Errorf("%s %s as %q: %d %s, want %d %s", c.method, c.path, c.auth, status, body, c.status, c.code)
		}
	}
	for _, key := range []string{"key", "wrong"} {
		req := httptest.NewRequest("GET", "/client/v4"+lists, nil)
		req.Header.Set("X-Auth-Email", "a@example.com")
		req.Header.Set("X-Auth-Key", key)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, req)
		if (w.Code == 200) != (key == "key") {
			t.Errorf("global key %q: %d", key, w.Code)
		}
	}
}

// call makes a request over a real connection.
func call(t *testing.T, srv *httptest.Server, method, path, auth string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+"/client/v4"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.Header.Get("Cf-Ray") == "" || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		t.Errorf("%s %s: headers %v", method, path, res.Header)
	}
	return res.StatusCode, string(data)
}

// The SDK sees a broken connection as such, over a real one as well as in memory.
func TestABrokenConnection(t *testing.T) {
	s := fakecloudflare.New(fakecloudflare.Options{Delay: time.Nanosecond})
	list := s.AddList("banned", "")
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	b := &bench{t, s, rules.NewListService(append(sdk(s), option.WithBaseURL(srv.URL+"/client/v4/"), option.WithHTTPClient(srv.Client()))...), list}
	s.FailNext("POST", "", fakecloudflare.ResetAfter)
	if _, err := b.add(items{{"192.0.2.1", ""}}); err == nil {
		t.Error("no error")
	}
	if got := b.addresses(); len(got) != 1 {
		t.Errorf("items %v", got)
	}
}

func TestWhatCheckReads(t *testing.T) {
	o := fakecloudflare.Options{
		Accounts: []fakecloudflare.Account{
			{ID: fakecloudflare.AccountID, Name: "Example", Zones: []fakecloudflare.Zone{{ID: zone, Name: "example.com"}, {ID: "z2", Name: "example.net"}}},
			{ID: "a2", Name: "Second", Zones: []fakecloudflare.Zone{{ID: "z3", Name: "example.org"}}},
		},
		Tokens: []fakecloudflare.Token{
			{Secret: fakecloudflare.Secret, ID: "user"},
			{Secret: "of-account", ID: "account", OfAccount: true, Accounts: []string{fakecloudflare.AccountID},
				Permissions: []fakecloudflare.Permission{fakecloudflare.ListsEdit}},
			{Secret: "ended", ID: "ended", Expires: time.Now().Add(-time.Hour)},
		},
	}
	s := fakecloudflare.New(o)
	b := &bench{t, s, rules.NewListService(sdk(s)...), ""}
	ctx := t.Context()

	if v, err := user.NewTokenService(sdk(s)...).Verify(ctx); err != nil || v.ID != "user" || v.Status != "active" {
		t.Errorf("verified %+v, %v", v, err)
	}
	if v, err := user.NewTokenService(sdkAs(s, "ended")...).Verify(ctx); err != nil || v.Status != "expired" || v.ExpiresOn.IsZero() {
		t.Errorf("verified %+v, %v", v, err)
	}
	_, err := user.NewTokenService(sdkAs(s, "of-account")...).Verify(ctx)
	b.refused(err, http.StatusUnauthorized, 1000)
	var vp accounts.TokenVerifyParams
	vp.AccountID.Value, vp.AccountID.Present = fakecloudflare.AccountID, true
	if v, err := accounts.NewTokenService(sdkAs(s, "of-account")...).Verify(ctx, vp); err != nil || v.ID != "account" {
		t.Errorf("verified %+v, %v", v, err)
	}

	if all, err := accounts.NewAccountService(sdk(s)...).List(ctx, accounts.AccountListParams{}); err != nil || len(all.Result) != 2 {
		t.Errorf("accounts %+v, %v", all, err)
	}
	var ap accounts.AccountGetParams
	ap.AccountID.Value, ap.AccountID.Present = fakecloudflare.AccountID, true
	if a, err := accounts.NewAccountService(sdk(s)...).Get(ctx, ap); err != nil || a.Name != "Example" {
		t.Errorf("account %+v, %v", a, err)
	}
	_, err = accounts.NewAccountService(sdkAs(s, "of-account")...).Get(ctx, ap)
	b.refused(err, http.StatusForbidden, 10000)

	names := func(opts []option.RequestOption, set func(*zones.ZoneListParams)) string {
		t.Helper()
		var p zones.ZoneListParams
		set(&p)
		all := zones.NewZoneService(opts...).ListAutoPaging(ctx, p)
		var out []string
		for all.Next() {
			out = append(out, all.Current().Name)
		}
		if all.Err() != nil {
			t.Error(all.Err())
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		got, want string
	}{
		{names(sdk(s), func(*zones.ZoneListParams) {}), "example.com example.net example.org"},
		{names(sdk(s), func(p *zones.ZoneListParams) { p.PerPage.Value, p.PerPage.Present = 1, true }), "example.com example.net example.org"},
		{names(sdk(s), func(p *zones.ZoneListParams) { p.Name.Value, p.Name.Present = "example.net", true }), "example.net"},
		{names(sdk(s), func(p *zones.ZoneListParams) {
			p.Account.Value.ID.Value, p.Account.Value.ID.Present, p.Account.Present = "a2", true, true
		}), "example.org"},
		{names(sdkAs(s, "of-account"), func(*zones.ZoneListParams) {}), ""},
	} {
		if c.got != c.want {
			t.Errorf("zones %q, want %q", c.got, c.want)
		}
	}
	var zp zones.ZoneGetParams
	zp.ZoneID.Value, zp.ZoneID.Present = "z3", true
	if z, err := zones.NewZoneService(sdk(s)...).Get(ctx, zp); err != nil || z.Name != "example.org" || z.Account.ID != "a2" {
		t.Errorf("zone %+v, %v", z, err)
	}
	if nets, err := ips.NewIPService(sdk(s)...).List(ctx, ips.IPListParams{}); err != nil || nets.Etag == "" || nets.IPV4CIDRs == nil {
		t.Errorf("networks %+v, %v", nets, err)
	}
}
