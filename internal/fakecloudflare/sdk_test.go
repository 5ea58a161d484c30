package fakecloudflare_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/cloudflare/cloudflare-go/v7/option"
	"github.com/cloudflare/cloudflare-go/v7/rules"

	"github.com/tailban/tailban/internal/fakecloudflare"
)

// sdk gives the options for services of the real SDK that call a double in memory.
func sdk(s *fakecloudflare.Server) []option.RequestOption { return sdkAs(s, fakecloudflare.Secret) }

func sdkAs(s *fakecloudflare.Server, secret string) []option.RequestOption {
	return []option.RequestOption{
		option.WithBaseURL("https://cloudflare.test/client/v4/"),
		option.WithAPIToken(secret),
		option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: s.Transport()}),
	}
}

// A bench is a double with one list, "banned", and the SDK's services for it.
type bench struct {
	*testing.T
	s    *fakecloudflare.Server
	ls   *rules.ListService
	list string
}

// run calls f with a bench, and a clock that moves only when it sleeps.
func run(t *testing.T, o fakecloudflare.Options, f func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakecloudflare.New(o)
		f(&bench{t, s, rules.NewListService(sdk(s)...), s.AddList("banned", "of a test")})
	})
}

type items = [][2]string // address, comment

func (b *bench) add(add items) (operation string, err error) { return b.addWith(b.Context(), add) }

func (b *bench) addWith(ctx context.Context, add items) (operation string, err error) {
	var p rules.ListItemNewParams
	p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
	for _, i := range add {
		var it rules.ListItemNewParamsBodyListsListItemIPComment
		it.IP.Value, it.IP.Present = i[0], true
		it.Comment.Value, it.Comment.Present = i[1], true
		p.Body = append(p.Body, it)
	}
	res, err := b.ls.Items.New(ctx, b.list, p)
	if err != nil {
		return "", err
	}
	return res.OperationID, nil
}

func (b *bench) replace(with items) (operation string, err error) {
	var p rules.ListItemUpdateParams
	p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
	for _, i := range with {
		var it rules.ListItemUpdateParamsBodyListsListItemIPComment
		it.IP.Value, it.IP.Present = i[0], true
		it.Comment.Value, it.Comment.Present = i[1], true
		p.Body = append(p.Body, it)
	}
	res, err := b.ls.Items.Update(b.Context(), b.list, p)
	if err != nil {
		return "", err
	}
	return res.OperationID, nil
}

func (b *bench) remove(ids ...string) (operation string, err error) {
	var p rules.ListItemDeleteParams
	p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
	p.Items.Present = true
	for _, id := range ids {
		var it rules.ListItemDeleteParamsItem
		it.ID.Value, it.ID.Present = id, true
		p.Items.Value = append(p.Items.Value, it)
	}
	res, err := b.ls.Items.Delete(b.Context(), b.list, p)
	if err != nil {
		return "", err
	}
	return res.OperationID, nil
}

// state asks for an operation, and gives the error text of one that failed, too.
func (b *bench) state(operation string) (state, failure string) {
	b.Helper()
	var p rules.ListBulkOperationGetParams
	p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
	op, err := b.ls.BulkOperations.Get(b.Context(), operation, p)
	if err != nil {
		b.Fatal(err)
	}
	return string(op.Status), op.Error
}

// done gives the operation's id, or ends the test.
func (b *bench) done(operation string, err error) string {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	return operation
}

// refused checks the HTTP status and the code of a refusal by the API.
func (b *bench) refused(err error, status int, code int64) {
	b.Helper()
	var e *rules.Error
	if !errors.As(err, &e) {
		b.Fatalf("want a refusal by the API, got %v", err)
	}
	var got int64
	if len(e.Errors) > 0 {
		got = e.Errors[0].Code
	}
	if e.StatusCode != status || got != code {
		b.Errorf("refused with %d/%d, want %d/%d: %v", e.StatusCode, got, status, code, err)
	}
}

// addresses gives what the list holds, as text.
func (b *bench) addresses() []string {
	out := []string{}
	for _, it := range b.s.Items("banned") {
		out = append(out, it.IP)
	}
	return out
}
