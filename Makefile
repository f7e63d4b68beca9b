# The version is the nearest tag; krew wants a semantic version even before there is one.
VERSION   ?= $(or $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null),v0.0.0-$(or $(shell git rev-parse --short HEAD 2>/dev/null | sed 's/^/g/'),dev))
PREFIX    ?= /usr/local
FUZZTIME  ?= 10s
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# The race detector needs a C compiler. Without one the tests still run, but not where they have to be the real ones.
RACE := $(if $(or $(CSIDOCTOR_TEST_REAL),$(shell command -v cc)),-race)

# The version comes from above; Go's own stamping would fail in a checkout that belongs to another user.
export GOFLAGS := $(GOFLAGS) -buildvcs=false
# Archives of one commit are the same to the byte, whenever they are made.
export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)

.DEFAULT_GOAL := build
.PHONY: build programs image demo test lint bench fuzz cases install dist krew-test support-bundle-test e2e carrier big lab-up lab-down

build: programs ## the plugin, for this machine, and the node's side alone, for a node of the same processor. grpcnotrace leaves out gRPC's trace pages, a quarter of it
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/kubectl-csidoctor ./cmd/csidoctor
	CGO_ENABLED=0 GOOS=linux go build -trimpath -tags grpcnotrace -ldflags '-s -w -X main.version=$(VERSION)' -o bin/csidoctor-probe ./cmd/csidoctor-probe

programs: ## the node's side for each processor, which the plugin built next carries; a plugin that go alone builds has none
	go run ./internal/tools/dist -version '$(VERSION)' -programs

image: ## an OCI archive with the node's side, for nodes of each processor: dist/csidoctor-probe_VERSION_oci.tar
	go run ./internal/tools/dist -version '$(VERSION)' -image -out dist

demo: build ## diagnose a small embedded cluster
	bin/kubectl-csidoctor demo

test: ## all tests that need no cluster
	go run ./internal/tools/gotest -- $(RACE) -timeout=30m ./...
	$(if $(RACE),go run ./internal/tools/gotest -- -timeout=30m ./internal/explain) # all cases: with -race a part of them is asked

lint: ## format, vet and build for every platform, staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	@for p in $(PLATFORMS); do \
		echo "vet and build $$p"; \
		export GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0; \
		go vet -trimpath ./... && go build -trimpath ./... || exit 1; \
	done
	go tool -modfile=tools/go.mod staticcheck ./...

bench: ## all benchmarks
	go test -run '^$$' -bench . -benchmem ./...

fuzz: ## every fuzzer for FUZZTIME
	go run ./internal/tools/fuzz -time $(FUZZTIME)

cases: ## make testdata/cases the mirror of the folder FROM
	@test -n '$(FROM)' || { echo 'usage: make cases FROM=DIR'; exit 1; }
	go run ./internal/tools/cases -from '$(FROM)' -to testdata/cases

install: build ## the plugin and its completion into PREFIX/bin
	install -d '$(PREFIX)/bin'
	install -m 755 bin/kubectl-csidoctor plugins/kubectl_complete-csidoctor '$(PREFIX)/bin'

dist: ## archives, checksums and the krew manifest that names them
	rm -rf dist
	go run ./internal/tools/dist -version '$(VERSION)' -out dist $(PLATFORMS)
	cp dist/csidoctor.yaml plugins/krew/csidoctor.yaml

krew-test: ## the manifest and an archive, with krew itself; never from the cache, which does not see that the plugin changed
	go run ./internal/tools/gotest -dir test/krew -- -count=1 ./...

# The tags of the program's own Makefile: without them it wants libraries of C.
SUPPORT_BUNDLE_TAGS := netgo,containers_image_ostree_stub,exclude_graphdriver_devicemapper,exclude_graphdriver_btrfs,containers_image_openpgp

support-bundle-test: ## the spec for troubleshoot.sh, with its support-bundle program (the first time that is a build of three minutes on two cores)
	CGO_ENABLED=0 go build -C test/support-bundle -tags $(SUPPORT_BUNDLE_TAGS) -o '$(CURDIR)/bin/test/support-bundle' github.com/replicatedhq/troubleshoot/cmd/troubleshoot
	command -v kubectl >/dev/null || go build -C test/krew -o '$(CURDIR)/bin/test/kubectl' ./kubectl
	PATH="$$PATH:$(CURDIR)/bin/test" CSIDOCTOR_SUPPORT_BUNDLE='$(CURDIR)/bin/test/support-bundle' go test -count=1 -tags supportbundle -run TestSupportBundle ./cmd/csidoctor

e2e: ## the tests on a real cluster
	$(MAKE) -C test/lab e2e

carrier: ## --probe on a real cluster
	$(MAKE) -C test/lab carrier

big: ## a scan and single questions in clusters of up to 10,000 claims, beside kubectl
	$(MAKE) -C test/lab big

lab-up: ## start that cluster and leave it running
	$(MAKE) -C test/lab up

lab-down:
	$(MAKE) -C test/lab down
