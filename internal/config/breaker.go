package config

import "time"

// Defaults and bounds of [breaker].
const (
	DefaultBreakerShare    = 0.2
	DefaultBreakerCoolDown = time.Hour

	minCoolDown = time.Minute
	maxCoolDown = 30 * day
)

// readBreaker reads [breaker].
func readBreaker(top *section, c *Config) {
	c.BreakerShare, c.BreakerCoolDown = DefaultBreakerShare, DefaultBreakerCoolDown
	s, ok := top.sub("breaker")
	if !ok {
		return
	}
	if n, ok := s.get("max_share"); ok {
		c.BreakerShare, _ = n.share()
	}
	if n, ok := s.get("cool_down"); ok {
		c.BreakerCoolDown, _ = n.duration(minCoolDown, maxCoolDown)
	}
	s.finish()
}

// share returns a share from 0 to 1.
func (n node) share() (float64, bool) {
	var f float64
	switch v := n.v.(type) {
	case float64:
		f = v
	case int64:
		f = float64(v)
	default:
		n.bad("must be a share from 0 to 1, like 0.2")
		return 0, false
	}
	if !(f >= 0 && f <= 1) {
		n.bad("must be a share from 0 to 1, like 0.2")
		return 0, false
	}
	return f, true
}
