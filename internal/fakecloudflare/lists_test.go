package fakecloudflare_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/rules"

	"github.com/tailban/tailban/internal/fakecloudflare"
)

func (b *bench) newList(name, description string) (*rules.ListNewResponse, error) {
	var p rules.ListNewParams
	p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
	p.Kind.Value, p.Kind.Present = rules.ListNewParamsKindIP, true
	p.Name.Value, p.Name.Present = name, true
	p.Description.Value, p.Description.Present = description, true
	return b.ls.New(b.Context(), p)
}

func (b *bench) getList(id string) (*rules.ListGetResponse, error) {
	var p rules.ListGetParams
	p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
	return b.ls.Get(b.Context(), id, p)
}

func (b *bench) deleteList(id string) error {
	var p rules.ListDeleteParams
	p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
	_, err := b.ls.Delete(b.Context(), id, p)
	return err
}

func TestListsAreMadeDescribedAndDeleted(t *testing.T) {
	run(t, fakecloudflare.Options{Limits: fakecloudflare.Limits{Lists: 2}}, func(b *bench) {
		for _, name := range []string{"", "Upper", "with-dash", strings.Repeat("x", 51)} {
			_, err := b.newList(name, "")
			b.refused(err, http.StatusBadRequest, 10010)
		}
		_, err := b.newList("banned", "")
		b.refused(err, http.StatusBadRequest, 10011)
		second, err := b.newList(strings.Repeat("x", 50), "the second")
		if err != nil || second.Description != "the second" || second.Kind != "ip" || len(second.ID) != 32 {
			b.Fatalf("made %+v, %v", second, err)
		}
		_, err = b.newList("third", "")
		b.refused(err, http.StatusBadRequest, 10014)

		var u rules.ListUpdateParams
		u.AccountID.Value, u.AccountID.Present = fakecloudflare.AccountID, true
		u.Description.Value, u.Description.Present = "changed", true
		if got, err := b.ls.Update(b.Context(), second.ID, u); err != nil || got.Description != "changed" || got.Name != second.Name {
			b.Errorf("updated %+v, %v", got, err)
		}

		b.done(b.add(items{{"192.0.2.1", ""}}))
		if got, err := b.getList(b.list); err != nil || got.NumItems != 0 {
			b.Errorf("accepted: %+v, %v", got, err)
		}
		time.Sleep(time.Minute)
		if got, err := b.getList(b.list); err != nil || got.NumItems != 1 {
			b.Errorf("done: %+v, %v", got, err)
		}

		if err := b.deleteList(second.ID); err != nil {
			b.Error(err)
		}
		_, err = b.getList(second.ID)
		b.refused(err, http.StatusNotFound, 10001)

		var l rules.ListListParams
		l.AccountID.Value, l.AccountID.Present = fakecloudflare.AccountID, true
		all, err := b.ls.List(b.Context(), l)
		if err != nil || len(all.Result) != 1 || all.Result[0].ID != b.list {
			b.Errorf("lists: %+v, %v", all, err)
		}
	})
}

func TestAListThatRulesNameIsNotDeleted(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		// One of the two is beyond this double's part of the language, and counts all the same.
		for _, e := range []string{"(ip.src in $banned)", `lower(http.host) matches "a" and ip.src in $banned`} {
			if _, err := b.s.AddForeignRule(fakecloudflare.ZoneID, fakecloudflare.Rule{Action: "block", Expression: e}); err != nil {
				b.Fatal(err)
			}
		}
		if got, err := b.getList(b.list); err != nil || got.NumReferencingFilters != 2 {
			b.Errorf("list: %+v, %v", got, err)
		}
		b.refused(b.deleteList(b.list), http.StatusBadRequest, 10015)
		for _, r := range b.s.Rules(fakecloudflare.ZoneID) {
			b.s.RemoveRule(fakecloudflare.ZoneID, r.ID)
		}
		if err := b.deleteList(b.list); err != nil {
			b.Error(err)
		}
	})
}

func TestAnOperationOnAListThatIsDeletedFails(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		op := b.done(b.add(items{{"192.0.2.1", ""}}))
		b.s.DeleteList("banned")
		time.Sleep(time.Minute)
		if state, text := b.state(op); state != "failed" || text == "" {
			b.Errorf("state %s, error %q", state, text)
		}
	})
}
