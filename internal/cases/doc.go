// Package cases holds tests that answer known faults of programs of this kind,
// each through the configuration and the engine as a replay runs them.
package cases
