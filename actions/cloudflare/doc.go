// Package cloudflare enforces bans at Cloudflare's edge, by the items of an
// account list that a rule of the site blocks or, where there can be no list, by access
// rules.
//
// A ban in a list is no call: bans are gathered, and written in bulk within budgets of
// requests and of changed items. What is written carries two tags in its comment:
// the product's, by which any of us may remove it once its time is over, and the
// instance's, who alone changes it before. What has no tag of ours is left alone.
package cloudflare
