# The everyday commands. `make help` lists them.

GOLANGCI_LINT = go tool -modfile=tools/go.mod golangci-lint

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: run
run: ## Run the gateway with the example configuration
	go run ./cmd/caddy run --config Caddyfile.example

.PHONY: build
build: ## Build bin/caddy
	go build -o bin/caddy ./cmd/caddy

.PHONY: test
test: ## Run every test that needs nothing but Go
	go test ./...

# Packages that use goroutines or locks, in code or tests: what the others do is within one goroutine. The slow ones come
# first, so that none of them runs alone at the end. lint vets the code.
.PHONY: race
race: ## Run the tests under the race detector, with a fifth of the draws of property tests and of what is generated
	go test -race -short -vet=off -timeout 20m ./handlers ./storage/badger ./admin \
		$$(grep -rlE --include='*.go' '"sync(/atomic)?"|golang.org/x/sync|\.Go\(func|^\s*go (func|[a-z]+\.)' . | xargs -n1 dirname | sort -u | grep -vE '^\./(e2e|tools)')

.PHONY: lint
lint: ## Check the code and its formatting
	$(GOLANGCI_LINT) run --allow-parallel-runners ./...

.PHONY: fmt
fmt: ## Format the code
	$(GOLANGCI_LINT) fmt ./...

.PHONY: e2e
e2e: build ## Run real clients (Node.js) against the gateway
	cd e2e && npm ci --no-audit --no-fund && npm ci --prefix agents --no-audit --no-fund && GW_BINARY=$(CURDIR)/bin/caddy npm test

.PHONY: traces
traces: ## Check spans with the OpenTelemetry collector's receiver
	cd e2e/traces && go test ./...

.PHONY: xcaddy
xcaddy: ## Build with xcaddy, as xcaddy.md says
	go tool -modfile=tools/go.mod xcaddy build v2.11.9 --with github.com/caddy-gw/gateway@v0.0.0=. --output bin/xcaddy-caddy

.PHONY: bench
bench: ## Measure against plain Caddy, side by side, and what limits cost
	go run ./bench
	go run ./bench -cases 2KB -rest 0s -proxies no-policy,policies-0,policies-1,policies-10,policies-100
	go test ./internal/policies -run '^$$' -bench 'Policies|Keys' -timeout 30m

.PHONY: bench-plugin
bench-plugin: ## Measure limits against those of the plugin caddy-ratelimit
	go tool -modfile=tools/go.mod xcaddy build v2.11.9 --with github.com/mholt/caddy-ratelimit@v0.1.0 --output bin/limiter-caddy
	go run ./bench -cases 2KB -rest 0s -proxies plain,rate_limit,no-policy,policies-1 -limiter bin/limiter-caddy
	go run ./bench -limits -limiter bin/limiter-caddy

.PHONY: fuzz
fuzz: ## Run every fuzz target for a minute
	@for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -h '^func Fuzz' $$pkg/*_test.go | sed 's/func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
			go test $$pkg -run '^$$' -fuzz "^$$target$$" -fuzztime 1m || exit 1; \
		done; \
	done

.PHONY: prices
prices: ## Renew the list prices of models (Node.js)
	cd tools/prices && npm install --no-audit --no-fund @pydantic/genai-prices@latest && node update.mjs && cp node_modules/@pydantic/genai-prices/LICENSE ../../internal/prices/data.LICENSE

.PHONY: vuln
vuln: ## Look for known vulnerabilities (asks the Go vulnerability database)
	go tool -modfile=tools/go.mod govulncheck ./...
