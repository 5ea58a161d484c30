package cloudflare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/firewall"
	"github.com/cloudflare/cloudflare-go/v7/option"
	"github.com/cloudflare/cloudflare-go/v7/rules"

	"github.com/tailban/tailban/internal/sleep"
)

// DefaultAPI is where Cloudflare's API is.
const DefaultAPI = "https://api.cloudflare.com/client/v4"

// Permissions that a token needs, as Cloudflare's pages name them.
const needsLists = "Account > Account Filter Lists > Edit"

const (
	requestTimeout = 30 * time.Second
	perPage        = 500 // items of a page; what others have been seen to get
	maxPages       = 2000
)

// client makes single calls of the API. Only what it reads is tried again.
type client struct {
	api     string
	account string
	token   func() (string, error)
	gate    *gate
	http    *http.Client
	lists   *rules.ListService
	access  *firewall.AccessRuleService
}

func newClient(o *Options, l *ledger) *client {
	base := o.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	c := &client{api: o.API, account: o.Account, token: o.Token, gate: newGate(l, o.now)}
	c.http = &http.Client{
		Transport:     &transport{base: base, gate: c.gate},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	opts := []option.RequestOption{option.WithBaseURL(o.API + "/"), option.WithMaxRetries(0), option.WithHTTPClient(c.http)}
	c.lists, c.access = rules.NewListService(opts...), firewall.NewAccessRuleService(opts...)
	return c
}

// call is what a call is for, which permission it needs, and whether it changes
// anything.
type call struct {
	step, needs string
	zone        string // that the permission has to be for; "": for the account
	write       bool
}

func reading(step string) call { return call{step: step, needs: needsLists} }
func writing(step string) call { return call{step: step, needs: needsLists, write: true} }

// call makes one call of Cloudflare's library with the token as it is now.
func (c *client) call(ctx context.Context, x call, f func(context.Context, option.RequestOption) error) error {
	return c.withToken(ctx, x, func(ctx context.Context, token string) error { return f(ctx, option.WithAPIToken(token)) })
}

// withToken makes one call with the token as it is now. What only reads is tried again a
// few times.
func (c *client) withToken(ctx context.Context, x call, f func(ctx context.Context, token string) error) (err error) {
	for wait := firstAgain; ; wait *= 3 {
		err = c.once(ctx, x, f)
		if x.write || wait > lastAgain || !is(err, Temporary) && !is(err, Busy) {
			return err
		}
		var e *Error
		if errors.As(err, &e) && e.After > 0 || !sleep.For(ctx, wait) {
			return err
		}
	}
}

// Pauses before something is read again.
const firstAgain, lastAgain = time.Second, 3 * time.Second

func (c *client) once(ctx context.Context, x call, f func(ctx context.Context, token string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	token, err := c.token()
	if err != nil {
		return fmt.Errorf("cloudflare: %s: %w", x.step, err)
	}
	req := request{token: token, needs: x.needs, zone: x.zone, write: x.write}
	if err := c.gate.admit(ctx, req); err != nil {
		return c.told(err, x, token)
	}
	err = f(ctx, token)
	if err == nil {
		c.gate.succeeded(req)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var e *Error
	if errors.As(err, &e) {
		e.Needs = x.needs
		c.gate.failed(e, req)
	}
	return c.told(err, x, token)
}

// told makes an error fit to be shown. What is no Error may hold anything of the
// request.
func (c *client) told(err error, x call, token string) error {
	var e *Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		e = &Error{Kind: Temporary, Err: plainError(err, token)}
	}
	told := *e
	told.Step = x.step
	return &told
}

// list is an account list.
type list struct {
	id     string
	kind   string
	items  int // in it
	usedBy int // filters and rules that use it
}

// findList finds a list by its name; nil: there is none. all is how many items
// the account's lists hold together.
func (c *client) findList(ctx context.Context, name string) (found *list, all int, err error) {
	err = c.call(ctx, reading("look for the list"), func(ctx context.Context, auth option.RequestOption) error {
		var p rules.ListListParams
		p.AccountID.Value, p.AccountID.Present = c.account, true
		page, err := c.lists.List(ctx, p, auth)
		if err != nil {
			return err
		}
		for _, l := range page.Result {
			all += int(l.NumItems)
			if l.Name == name {
				found = &list{id: l.ID, kind: string(l.Kind), items: int(l.NumItems), usedBy: int(l.NumReferencingFilters)}
			}
		}
		return nil
	})
	return found, all, err
}

// listSize is how many items a list has.
func (c *client) listSize(ctx context.Context, id string) (n int, err error) {
	err = c.call(ctx, reading("look at the list"), func(ctx context.Context, auth option.RequestOption) error {
		var p rules.ListGetParams
		p.AccountID.Value, p.AccountID.Present = c.account, true
		l, err := c.lists.Get(ctx, id, p, auth)
		if err != nil {
			return err
		}
		n = int(l.NumItems)
		return nil
	})
	return n, err
}

// newList creates a list of addresses.
func (c *client) newList(ctx context.Context, name, description string) (l *list, err error) {
	err = c.call(ctx, writing("create the list"), func(ctx context.Context, auth option.RequestOption) error {
		var p rules.ListNewParams
		p.AccountID.Value, p.AccountID.Present = c.account, true
		p.Kind.Value, p.Kind.Present = rules.ListNewParamsKindIP, true
		p.Name.Value, p.Name.Present = name, true
		p.Description.Value, p.Description.Present = description, true
		made, err := c.lists.New(ctx, p, auth)
		if err != nil {
			return err
		}
		l = &list{id: made.ID, kind: string(made.Kind)}
		return nil
	})
	return l, err
}

// rawItem is an item as the API has it.
type rawItem struct{ id, ip, comment string }

// items lists the items of a list whose address begins with a text; "": all.
func (c *client) items(ctx context.Context, listID, search string) (all []rawItem, err error) {
	cursor := ""
	for range maxPages {
		was := cursor
		err := c.call(ctx, reading("list items"), func(ctx context.Context, auth option.RequestOption) error {
			var p rules.ListItemListParams
			p.AccountID.Value, p.AccountID.Present = c.account, true
			p.PerPage.Value, p.PerPage.Present = perPage, true
			p.Cursor.Value, p.Cursor.Present = cursor, cursor != ""
			p.Search.Value, p.Search.Present = search, search != ""
			page, err := c.lists.Items.List(ctx, listID, p, auth)
			if err != nil {
				return err
			}
			cursor = page.ResultInfo.Cursors.After
			for _, x := range page.Result {
				all = append(all, rawItem{x.ID, x.IP, x.Comment})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		switch cursor {
		case "":
			return all, nil
		case was:
			return nil, &Error{Step: "list items", Kind: Temporary, Status: http.StatusOK, Message: "a page leads to itself"}
		}
	}
	return nil, &Error{Step: "list items", Kind: Temporary, Message: fmt.Sprintf("more than %d pages", maxPages)}
}

// add has items added, or their comments changed.
func (c *client) add(ctx context.Context, listID string, items []rawItem) (operation string, err error) {
	err = c.call(ctx, writing("add items"), func(ctx context.Context, auth option.RequestOption) error {
		var p rules.ListItemNewParams
		p.AccountID.Value, p.AccountID.Present = c.account, true
		for _, x := range items {
			var it rules.ListItemNewParamsBodyListsListItemIPComment
			it.IP.Value, it.IP.Present = x.ip, true
			it.Comment.Value, it.Comment.Present = x.comment, true
			p.Body = append(p.Body, it)
		}
		res, err := c.lists.Items.New(ctx, listID, p, auth)
		if err != nil {
			return err
		}
		operation = res.OperationID
		return nil
	})
	return operation, err
}

// remove has items removed.
func (c *client) remove(ctx context.Context, listID string, ids []string) (operation string, err error) {
	err = c.call(ctx, writing("remove items"), func(ctx context.Context, auth option.RequestOption) error {
		var p rules.ListItemDeleteParams
		p.AccountID.Value, p.AccountID.Present = c.account, true
		p.Items.Present = true
		for _, id := range ids {
			var it rules.ListItemDeleteParamsItem
			it.ID.Value, it.ID.Present = id, true
			p.Items.Value = append(p.Items.Value, it)
		}
		res, err := c.lists.Items.Delete(ctx, listID, p, auth)
		if err != nil {
			return err
		}
		operation = res.OperationID
		return nil
	})
	return operation, err
}

// operation says how a bulk operation is doing. failed is what it failed for.
func (c *client) operation(ctx context.Context, id string) (done bool, failed string, err error) {
	err = c.call(ctx, reading("ask for an operation"), func(ctx context.Context, auth option.RequestOption) error {
		var p rules.ListBulkOperationGetParams
		p.AccountID.Value, p.AccountID.Present = c.account, true
		res, err := c.lists.BulkOperations.Get(ctx, id, p, auth)
		if err != nil {
			return err
		}
		switch string(res.Status) {
		case "completed":
			done = true
		case "failed":
			done, failed = true, orUnknown(said(res.Error, ""))
		}
		return nil
	})
	return done, failed, err
}
