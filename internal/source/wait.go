package source

import "context"

// waitAll waits for each of list that isn't nil. It returns false if ctx is done
// first.
func waitAll(ctx context.Context, list []<-chan struct{}) bool {
	for _, c := range list {
		if !wait(ctx, c) {
			return false
		}
	}
	return true
}

// wait waits for c, unless that is nil. It returns false if ctx is done first.
func wait(ctx context.Context, c <-chan struct{}) bool {
	if c == nil {
		return true
	}
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
