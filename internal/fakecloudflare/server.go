package fakecloudflare

import (
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// A Server is one Cloudflare. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	opt      Options
	routes   []route
	rng      *rand.Rand // ids and jitter
	accounts map[string]*account
	zones    map[string]*zone
	owners   map[string]*window // requests by the owner of their token
	faults   faults
	log      requestLog
}

// An account and what it holds.
type account struct {
	Account
	lists     []*list
	ops       []*operation // in the order of their acceptance; the last keptOps of the done ones
	writes    window       // requests that changed items
	changes   window       // the items they changed
	access    accessSet
	rulesUsed int // access rules of the account and of its zones
}

type zone struct {
	Zone
	account *account
	rules   *ruleset // nil until somebody makes it
	access  accessSet
}

// New makes a double with empty lists and no rules.
func New(o Options) *Server {
	o.fill()
	s := &Server{
		opt:      o,
		routes:   routes(),
		rng:      rand.New(rand.NewPCG(o.Seed, 1)),
		accounts: make(map[string]*account),
		zones:    make(map[string]*zone),
		owners:   make(map[string]*window),
		faults:   newFaults(o.Seed),
	}
	for _, a := range o.Accounts {
		acc := &account{Account: a}
		s.accounts[a.ID] = acc
		for _, z := range a.Zones {
			s.zones[z.ID] = &zone{Zone: z, account: acc}
		}
	}
	return s
}

// Handler serves the API under /client/v4/.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Change sets options while the double is in use. Accounts, Seed and LogSize stay as
// they were at New.
func (s *Server) Change(f func(*Options)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.opt
	f(&o)
	o.fill()
	o.Accounts, o.Seed, o.LogSize = s.opt.Accounts, s.opt.Seed, s.opt.LogSize
	s.opt = o
}

// lock takes the lock and does what is due by now.
func (s *Server) lock() (now time.Time) {
	s.mu.Lock()
	now = s.opt.Now()
	for _, a := range s.accounts {
		s.settle(a, now)
	}
	return now
}

// newID gives an id in Cloudflare's form: 32 hexadecimal digits.
func (s *Server) newID() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(s.rng.Uint32())
	}
	return hex.EncodeToString(b[:])
}

// stamp is a time as answers have it.
func (s *Server) stamp(t time.Time) string {
	return t.Add(s.opt.Skew).UTC().Format("2006-01-02T15:04:05.000000Z")
}
