// Package e2e holds tests of the whole way: a real web server, the built
// program, the real kernel, all in network namespaces of their own.
package e2e
