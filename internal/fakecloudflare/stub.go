package fakecloudflare

type accessRule struct{}
type ruleset struct{}
