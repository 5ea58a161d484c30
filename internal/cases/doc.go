// Package cases holds tests that answer known faults of programs of this kind,
// each through the configuration and the engine as a replay runs them, or
// through a whole daemon where it is about files that change and restarts.
package cases
