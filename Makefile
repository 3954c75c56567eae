# CI runs these targets and no others. The tools are pinned here and not in
# go.mod, where what they need would be on the list of every user.
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

MODULES := $(dir $(shell find . -name go.mod -not -path '*/testdata/*'))
# ./... leaves out directories that begin with a dot.
HIDDEN  := $(patsubst %/,./%,$(dir $(wildcard .ci/*/main.go)))
COUNT   ?= 1
FUZZTIME ?= 10s

# in_modules runs a command in the directory of every module.
in_modules = @set -e; for dir in $(MODULES); do (set -x; cd $$dir; $(1)); done

.PHONY: help test lint generate verify bench fuzz chaos

help: ## list the targets
	@sed -n 's/^\([a-z]*\): *## \(.*\)/\1 \2/p' $(firstword $(MAKEFILE_LIST)) | while read -r t about; do printf '%-10s %s\n' "$$t" "$$about"; done

# SQLite, translated to Go, spends a third of a test's time in the pointer checks
# that -race turns on, and they find nothing of ours there.
test: ## run all tests with the race detector, in random order
	$(call in_modules,go test ./... -race -shuffle=on -timeout=30m -gcflags=modernc.org/...=-d=checkptr=0)

lint: ## go vet, outboxvet, staticcheck and gofumpt
	$(call in_modules,go vet ./...)
	go tool outboxvet -outboxeffect -outboxhandler ./...
	$(call in_modules,go run $(STATICCHECK) ./...)
	go vet $(HIDDEN)
	go run $(STATICCHECK) $(HIDDEN)
	@files=$$(go run $(GOFUMPT) -l .); test -z "$$files" || \
		{ printf 'not formatted:\n%s\nrun: go run $(GOFUMPT) -w .\n' "$$files"; exit 1; }

generate: ## write the generated code
	$(call in_modules,go generate ./...)

verify: ## check that generated code, go.mod and go.sum are up to date
	go tool outboxgen -diff ./...
	$(call in_modules,go mod tidy -diff)
	$(call in_modules,go mod verify)

bench: ## run the benchmarks of the runtime COUNT times, for benchstat
	go test -run='^$$' -bench=. -benchmem -count=$(COUNT) ./topics/... ./outbox/...

fuzz: ## run every fuzz target for FUZZTIME, one after another
	@list=$$(go test -list='^Fuzz' ./...) || { echo "$$list"; exit 1; }; \
	echo "$$list" | awk '/^Fuzz/ {t = t " " $$1} /^ok/ {n = split(t, a); for (i = 1; i <= n; i++) print $$2, a[i]; t = ""}' | \
	while read -r pkg target; do (set -x; go test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=20x $$pkg </dev/null) || exit; done

chaos: ## kill, stop and cut off relays for 15 minutes, with CHAOS=flags of internal/chaos
	cd internal/chaos && go run . $(CHAOS)
