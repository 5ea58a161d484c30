# make run            show the main job, safely, in network namespaces
# make run LOG=FILE   watch a log of yours; decides and logs, bans nobody
# make run-cloudflare bans at Cloudflare's edge, safely: nginx (Debian's nginx-light)
#                     behind a stand-in for the edge, and a double of the API
# make test           all tests (as root also those with the real kernel)
# make dist           the Debian package and its checksum, in dist/ (GOARCH=arm64 make dist)
# make install        program, unit, its user and example configuration, under $(DESTDIR)$(PREFIX);
#                     the user is made only if DESTDIR is empty

GO      ?= go
GOTEST  ?= $(GO) test
PREFIX  ?= /usr/local
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

export CGO_ENABLED ?= 0

.PHONY: all build run run-cloudflare test bench profile bench-live fuzz dist install clean

all: build

build:
	$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o tailban .

run: build
ifdef LOG
	./tailban run --observe $(LOG)
else
	$(GO) run ./internal/demo ./tailban jails.toml.example
endif

run-cloudflare: build
	$(GO) run ./internal/demo cloudflare ./tailban internal/demo/cloudflare.toml

# What takes longest comes first. All is compiled as for a package, as some tests make
# one, but without default.pgo, for which it would be compiled anew for each program.
test: export GOFLAGS := $(GOFLAGS) -pgo=off -trimpath
test: export CGO_ENABLED := 0
test:
	$(GOTEST) ./internal/daemon ./actions ./internal/e2e ./internal/source ./...

# The throughput of a log beside simpler programs; then what single parts take.
# BENCH="-log FILE" is for a log of yours, in nginx's stock "main" format.
bench:
	$(GO) run ./internal/bench $(BENCH)
	$(GO) test -run '^$$' -bench . ./parser ./detector ./internal/replay ./internal/source ./actions

# What the compiler is told of where the time goes (go help build, -pgo), by the
# log that bench measures: it makes a few per cent of difference.
profile:
	$(GO) run ./internal/bench -profile default.pgo $(BENCH)

# The running daemon: from a line to the ban in the kernel, 200,000 lines a second,
# and at rest. As root, on a machine that does nothing else.
bench-live:
	$(GO) test -run '^$$' -bench LiveLatency -benchtime 500x ./internal/e2e
	$(GO) test -run '^$$' -bench 'LiveFlood|LiveRest' -benchtime 1x ./internal/e2e

# Every fuzz target for FUZZTIME each.
FUZZTIME ?= 10s
fuzz:
	.ci/fuzz $(FUZZTIME)

# By the version that git tells, or VERSION=1.2.3, in place of that of another version.
# The tool that writes the package is fetched by Go. PGO=off is without default.pgo.
dist:
	arch=$$($(GO) env GOARCH); rm -f dist/tailban_*_$$arch.deb; GOARCH=$$($(GO) env GOHOSTARCH) \
		$(GO) run ./internal/dist -arch "$$arch" $(if $(filter command,$(origin VERSION)),-version "$(VERSION)") $(if $(filter command,$(origin PGO)),-pgo "$(PGO)")

# As root there may be no Go in the path: then what "make" has built is installed.
install: $(if $(shell command -v $(GO) 2>/dev/null),build)
	@test -x tailban || { echo 'there is no tailban to install: run "make" first, as a user who has Go' >&2; exit 1; }
	install -D -m 0755 tailban $(DESTDIR)$(PREFIX)/bin/tailban
	install -D -m 0644 jails.toml.example $(DESTDIR)$(PREFIX)/share/doc/tailban/jails.toml.example
	install -d -m 0755 $(DESTDIR)/usr/lib/systemd/system
	sed 's|/usr/local/bin/tailban|$(PREFIX)/bin/tailban|' systemd/tailban.service > $(DESTDIR)/usr/lib/systemd/system/tailban.service
	install -D -m 0644 systemd/tailban.sysusers $(DESTDIR)/usr/lib/sysusers.d/tailban.conf
	test -n "$(DESTDIR)" || ! command -v systemd-sysusers >/dev/null || systemd-sysusers tailban.conf
	test -e $(DESTDIR)/etc/tailban/jails.toml || install -D -m 0644 jails.toml.example $(DESTDIR)/etc/tailban/jails.toml

clean:
	rm -rf tailban dist
