package source

// Container is an outer format: how a runtime wraps lines of a container.
type Container string

const (
	Docker Container = "docker" // one JSON object a line, of Docker's json-file
	CRI    Container = "cri"    // time, stream, P or F, of Kubernetes' runtimes
)
