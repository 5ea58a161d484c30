package prove

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// server is a DNS server on loopback, for the zones of a test.
type server struct {
	*testing.T
	at string

	mu     sync.Mutex
	zone   map[string][]string // what a question ("PTR 5.113.0.203.in-addr.arpa.") is answered with; none: there is no such name
	rcode  map[string]int
	silent map[string]chan struct{} // no answer before it is closed
	asked  map[string]int
}

func newServer(t *testing.T) *server {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{
		T: t, at: conn.LocalAddr().String(), zone: map[string][]string{}, rcode: map[string]int{},
		silent: map[string]chan struct{}{}, asked: map[string]int{},
	}
	d := &dns.Server{PacketConn: conn, Handler: s}
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := d.ActivateAndServe(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		s.mu.Lock()
		for _, c := range s.silent {
			close(c)
		}
		s.silent = map[string]chan struct{}{}
		s.mu.Unlock()
		if err := d.Shutdown(); err != nil {
			t.Error(err)
		}
		ended.Wait()
	})
	return s
}

// resolver asks that server alone.
func (s *server) resolver() Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.at)
	}}
}

// ptr gives an address its names, and host a name its addresses.
func (s *server) ptr(address string, names ...string) {
	s.set("PTR "+reversed(address), names...)
}

func (s *server) host(name string, addresses ...string) {
	for _, a := range addresses {
		kind := "AAAA"
		if netip.MustParseAddr(a).Is4() {
			kind = "A"
		}
		s.mu.Lock()
		s.zone[kind+" "+name+"."] = append(s.zone[kind+" "+name+"."], a)
		s.mu.Unlock()
	}
}

func (s *server) set(question string, answers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone[question] = answers
}

// fail has a question answered by a code.
func (s *server) fail(question string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rcode[question] = code
}

// silence has a question not answered.
func (s *server) silence(question string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent[question] = make(chan struct{})
}

func (s *server) times(question string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[question]
}

func reversed(address string) string {
	name, err := dns.ReverseAddr(address)
	if err != nil {
		panic(err)
	}
	return name
}

func (s *server) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	q := r.Question[0]
	question := dns.TypeToString[q.Qtype] + " " + strings.ToLower(q.Name)
	s.mu.Lock()
	s.asked[question]++
	silent, code, answers := s.silent[question], s.rcode[question], s.zone[question]
	s.mu.Unlock()
	if silent != nil {
		<-silent
	}
	m := new(dns.Msg)
	m.SetReply(r)
	switch {
	case code != 0:
		m.Rcode = code
	case len(answers) == 0:
		m.Rcode = dns.RcodeNameError
	}
	for _, a := range answers {
		if q.Qtype == dns.TypePTR {
			a = dns.Fqdn(a)
		}
		rr, err := dns.NewRR(fmt.Sprintf("%s 60 IN %s %s", q.Name, dns.TypeToString[q.Qtype], a))
		if err != nil {
			s.Error(err)
			return
		}
		m.Answer = append(m.Answer, rr)
	}
	m.Truncate(dns.MinMsgSize)
	if err := w.WriteMsg(m); err != nil {
		s.Log(err) // whoever asked may have given up
	}
}
