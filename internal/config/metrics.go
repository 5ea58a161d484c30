package config

import "net/netip"

// Metrics says where a daemon's metrics can be scraped. Zero: nowhere.
type Metrics struct {
	Socket  bool           // at the control sockets
	Address netip.AddrPort // where they are served; invalid: nowhere
	Exposed bool           // Address is one that other machines may reach
}

// String returns where, as the configuration says it.
func (m Metrics) String() string {
	switch {
	case m.Socket:
		return metricsSocket
	case m.Address.IsValid():
		return m.Address.String()
	}
	return ""
}

const metricsSocket = "socket"

func readMetrics(top *section, c *Config) {
	m := &c.Metrics
	exposed, told := top.get("metrics_exposed")
	if told {
		m.Exposed, _ = exposed.flag()
	}
	n, ok := top.get("metrics")
	sound := !ok || n.metrics(m)
	if sound && m.Exposed && (!m.Address.IsValid() || m.Address.Addr().IsLoopback()) {
		exposed.bad("is for an address in metrics that other machines can reach")
	}
}

// metrics reads where they can be scraped. Others than this machine may only if that
// is said besides: they tell of jails, of what is banned, and of what fails.
func (n node) metrics(m *Metrics) (ok bool) {
	text, ok := n.text()
	if !ok {
		return false
	}
	if m.Socket = text == metricsSocket; m.Socket {
		return true
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Port() == 0 {
		n.bad(`must be an address and a port, like "127.0.0.1:10911" or "[::1]:10911", or "socket"`)
		return false
	}
	m.Address = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	if ok = m.Address.Addr().IsLoopback() || m.Exposed; !ok {
		n.bad("can be reached by other machines: take an address of this one alone, like 127.0.0.1, or say metrics_exposed = true")
	}
	return ok
}
