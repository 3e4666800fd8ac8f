# The commands of README.md. CI runs .ci/run: lint, test, conformance.

GO        ?= go
PORT      ?= 8930
CONSOLE   ?= 127.0.0.1:8931
WORKSPACE ?= $(CURDIR)
LINT      := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# Without cgo the binary is static and the build needs no C compiler.
export CGO_ENABLED := 0

# A shell other than bash leaves a ~ in WORKSPACE=~/project as it is.
override WORKSPACE := $(patsubst ~/%,$(HOME)/%,$(WORKSPACE))

# The build notes the commit where git can tell it, whatever GOFLAGS says. git
# refuses in a tree of another user, at which go build would fail.
VCS := $(shell git status --porcelain >/dev/null 2>&1 && echo true || echo false)

.PHONY: run build man test lint bench fuzz conformance clean

# Build, say what this host offers, and serve until Ctrl-C.
# It prints a link to the console, for people; CONSOLE= turns that off.
# PORT and WORKSPACE can be set: make run WORKSPACE=~/project PORT=9000
# As root on Debian it offers to install chromium-headless-shell (INSTALL=no: never).
run:
	@test -d "$(WORKSPACE)" || { echo "make run: WORKSPACE $(WORKSPACE) is not a directory; make it, or name another one with make run WORKSPACE=DIR" >&2; exit 2; }
	@$(MAKE) --no-print-directory build
	@scripts/need bash
	@scripts/need chromium-headless-shell || true # pages are read without it, too
	@bin/belljar doctor
	@exec bin/belljar serve --http 127.0.0.1:$(PORT) $(if $(CONSOLE),--console "$(CONSOLE)") --workspace "$(WORKSPACE)"

TRIMPATH := -trimpath
build:
	$(GO) build $(TRIMPATH) -buildvcs=$(VCS) -o bin/belljar ./cmd/belljar

# The manual pages, in bin/man.
man: build
	bin/belljar man bin/man/man1

# Test binaries run once and need no DWARF, which takes an eighth of the processor time of their
# build. lint and conformance have the same flags, so they find what test has compiled, and so does
# the binary of conformance, which keeps the paths of its sources for that. With = and not :=, go is
# asked for its flags only by these targets.
conformance: TRIMPATH :=
test test-user lint conformance: export GOFLAGS = $(shell $(GO) env GOFLAGS) -gcflags=all=-dwarf=false -ldflags=-w

# The linters collect garbage at 80 by themselves, which takes more time than they have to.
lint: export GOGC = 200

# All tests as the user who calls. It goes on where one of them fails, and names at the end
# all that failed. As root on Debian it offers first to install the programs that tests need
# (INSTALL=no: never).
test:
	@scripts/need bash curl git mke2fs mount nginx node npm perl ps python3 chromium-headless-shell gcc /usr/include/stdio.h /usr/include/seccomp.h || test -z "$(TEST_REQUIRE)"
	@GO="$(GO)" scripts/test

# As root: once more as an ordinary user, in the rooms for which that makes a difference. Those that
# take longest begin first. Left out are tests that take long and in which the user makes no
# difference: they try connections and policies of belljar's own, or programs that speak through the
# door. TestEscape of sandbox tries the probes as this user. AS_USER_SKIP= leaves out nothing.
AS_USER      := cmd/belljar sandbox internal/server mcp/tools sandbox/protect sandbox/images internal/control internal/config sandbox/cgroup
AS_USER_SKIP ?= ^TestScripts$$/^probe$$|^(TestSoak|TestFleetPolicy|TestFleetPolicies|TestFleetPolicyUnwanted|TestFleetPolicyOfFronts|TestFleetBadLink|TestServerSwapsUnderLoad|TestDoctorOfServers|TestAskOfSeveralServers|TestClients|TestClientsIntercepted|TestClientsUseTheToolkit)$$
.PHONY: test-user
test-user:
	@scripts/need setpriv
	@GO="$(GO)" SKIP='$(AS_USER_SKIP)' TEST_REQUIRE="$${TEST_REQUIRE:+user,userns}" scripts/test-as-user $(AS_USER)

lint:
	$(LINT) config verify
	$(LINT) run ./...
	$(GO) test -count=1 -run 'TestProse$$' ./internal/house

# Figures against the peers that are installed, and the limit of each. SOURCE can name a
# project for the toolkit: without it, it measures 200 files of Go's standard library.
# The source's own figures are of server/src of github.com/paiml/paiml-mcp-agent-toolkit at
# 64553c0, 204 files of Rust.
SOURCE ?=
bench:
	@scripts/peers bin/peers
	PATH="$(CURDIR)/bin/peers/node_modules/.bin:$$PATH" $(GO) test -run '^$$' -bench . -benchtime 300x ./sandbox ./sandbox/protect
	$(GO) test -run '^$$' -bench 'BenchmarkCall$$' -benchtime 200000x ./mcp
	$(GO) test -run '^$$' -bench 'HTTPCall|ListOfUpstreams' -benchtime 20000x ./mcp
	$(GO) test -run '^$$' -bench 'Serve|Version' -benchtime 50x ./cmd/belljar
	$(GO) test -run '^$$' -bench Front -benchtime 1000x -timeout 20m ./cmd/belljar
	$(GO) test -run '^$$' -bench JWT ./internal/auth
	$(GO) test -run '^$$' -bench Handshake -benchtime 2000x ./internal/front
	$(GO) test -run '^$$' -bench . ./policies ./policies/audit
	$(GO) test -run '^$$' -bench . -benchtime 3x ./internal/console
	$(GO) test -run '^$$' -bench . -benchtime 25x -timeout 20m ./browser
	$(GO) test -run '^$$' -bench Fan -benchtime 122x -timeout 20m ./search
	$(GO) test -run '^$$' -bench SearchCancel -benchtime 50x ./mcp/tools
	$(GO) test -run '^$$' -bench IdlePlace -benchtime 3x ./internal/server
	$(GO) test -run '^$$' -bench ToolsList -benchtime 2000x ./mcp/tools
	$(GO) test -run '^$$' -bench 'Upstream$$' -benchtime 2000x ./cmd/belljar
	$(GO) test -run '^$$' -bench Toolkit -benchtime 20x ./cmd/belljar
	BELLJAR_BENCH_SOURCE="$(abspath $(SOURCE))" $(GO) test -run '^$$' -bench Source -benchtime 20x ./internal/toolkit
	$(GO) test -run '^$$' -bench List -benchtime 500x ./internal/gateway
	$(GO) test -run '^$$' -bench 'Start$$' -benchtime 20x ./internal/gateway
	$(GO) test -run '^$$' -bench Judge ./mcp/upstream/pin
	$(GO) test -run '^$$' -bench Mix -benchtime 3000x ./cmd/belljar
	$(GO) test -run '^$$' -bench 'Fleet$$' -benchtime 500x ./cmd/belljar
	$(GO) test -run '^$$' -bench FleetIdle -benchtime 1x ./cmd/belljar

# How much of a page's content is kept, and how much beside it: saved articles
# with their text in ARTICLES, and documentation out of Debian's packages.
ARTICLES ?= ../shared/data/articles
.PHONY: quality
quality:
	@scripts/docs-corpus bin/docs
	@BELLJAR_QUALITY_ARTICLES="$(abspath $(ARTICLES))" BELLJAR_QUALITY_DOCS="$(CURDIR)/bin/docs" $(GO) test -count=1 -run 'Quality$$|TestProbes$$' -v ./browser/page

# What the toolkit measures beside what other programs measure of the same files:
# whole standard libraries. It needs python3-mccabe, pmccabe and cloc of Debian; the
# programs for Go come from the module proxy, and others by npm. SOURCE is as for bench.
.PHONY: toolkit-quality
toolkit-quality:
	BELLJAR_BENCH_SOURCE="$(abspath $(SOURCE))" $(GO) test -count=1 -tags quality -timeout 90m -bench . -benchtime 10x -v ./internal/toolkit/quality
	$(GO) test -count=1 -tags quality -run 'TestSARIFIsValid$$|TestJUnitIsRead$$' -v ./internal/toolkit/report

# Ten thousand hostile calls, and a thousand lives of hostile servers, after which nothing
# may be left; and 200 writers of each kind that are killed, after which nothing may be lost.
.PHONY: survivors
survivors:
	BELLJAR_TEST_CALLS=10000 $(GO) test -count=1 -v -run 'TestSurvivors$$' -timeout 30m ./sandbox
	BELLJAR_TEST_QUERIES=10000 $(GO) test -count=1 -v -run 'TestSurvivors$$' -timeout 30m ./search
	BELLJAR_TEST_LIVES=1000 $(GO) test -count=1 -v -run 'TestSurvivors$$' -timeout 30m ./internal/gateway
	$(GO) test -run '^$$' -bench 'BareClient$$' -benchtime 1000x -timeout 30m ./internal/gateway
	BELLJAR_TEST_WRITERS=200 $(GO) test -count=1 -v -run 'TestKill$$' -timeout 30m ./internal/durable

# A server under clients of three tenants, in both eras and over all transports, for SOAK:
# its policy is read again, it is handed over, boxes and clients are killed. What it has at
# rest may not grow, and nothing may be left. It prints a line a minute.
SOAK ?= 30m
.PHONY: soak
soak:
	BELLJAR_TEST_SOAK=$(SOAK) $(GO) test -count=1 -v -run 'TestSoak$$' -timeout 0 ./cmd/belljar

# A thousand calls a second through five hand-overs, of which none may fail; and CASES random calls of
# two tenants, of which none may find what the other tenant left. There is one test of cases, so it can
# have more of them than each of the properties below.
.PHONY: test-front
test-front: CASES = 10000
test-front:
	BELLJAR_TEST_HANDOVERS=full $(GO) test -count=1 -v -run 'TestHandOver$$' -timeout 30m ./cmd/belljar
	BELLJAR_TEST_CASES="$(CASES)" $(GO) test -count=1 -v -run 'TestNothingCrossesTenants$$' -timeout 30m ./internal/server

# A page that changes itself 100,000 times a second for HOSTILE, then writes a million lines for each
# minute of that, opens 1,000 windows and asks in a loop, and downloads all the while: memory of
# belljar, the time of each call, and that nothing is left. The rate needs a machine that does nothing else.
HOSTILE ?= 60s
.PHONY: hostile-page
hostile-page:
	BELLJAR_TEST_HOSTILE=$(HOSTILE) $(GO) test -count=1 -v -run 'TestHostilePage$$' -timeout 30m ./browser/act

# A fleet of processes with CALLS in flight: workers that are killed KILLS times, fronts that
# are killed, nodes that are frozen and drained, 1,000 new places, and, as root, eight processes
# in network namespaces whose cables are cut. Then 10,000 strangers at the port of links, and
# hostile ends of links. It takes a minute and a half. The figures are logged by their rows:
#   S2 worker killed, S3 frozen and cut, S4 front killed, S5 cancelled, S6 drained,
#   S8 new places by two fronts, S11 a bad link; without a figure: S10 copied directory
#   (TestFleetDoctor), S12 (TestFleetTenantsApart, TestStrangers*), S13 (TestHostile*),
#   S15 an audit log that was cut or replaced (TestFleetAudit), S17 (TestNoFleetInOneServer).
# test-moves has S7, and test-vm-power has S16.
# test-cluster-long takes ten minutes: S9 a minute without NATS, 100,000 histories of claims
# against a model, 1,000 on NATS, and 1,000 places while the leader of NATS dies.
CALLS ?= 100
KILLS ?= 3
.PHONY: test-cluster test-cluster-long
test-cluster:
	BELLJAR_TEST_CLUSTER=$(CALLS) BELLJAR_TEST_KILLS=$(KILLS) $(GO) test -count=1 -run 'Fleet' -v ./cmd/belljar
	BELLJAR_TEST_CASES=10000 $(GO) test -count=1 -run 'TestStrangers|TestHostile' -v ./internal/fleet

test-cluster-long:
	BELLJAR_TEST_CASES=61 $(GO) test -count=1 -run 'TestTwoFronts$$' -v ./internal/fleet
	BELLJAR_TEST_CASES=100000 $(GO) test -count=1 -run 'TestClaims$$' -v ./internal/fleet/claims
	BELLJAR_TEST_CASES=1000 $(GO) test -count=1 -run 'TestClaimsOnNATS$$|TestClaimsWithoutLeader$$' -v ./internal/fleet/claims

# MOVES moves of a place while a client writes, each with a process that is killed
# somewhere in between, and 100,000 histories of claims that move: a good half of an hour.
MOVES ?= 200
.PHONY: test-moves
test-moves:
	BELLJAR_TEST_MOVES=$(MOVES) $(GO) test -count=1 -timeout 2h -run 'TestFleetPlaceMoves$$' -v ./cmd/belljar
	BELLJAR_TEST_CASES=100000 $(GO) test -count=1 -timeout 1h -run 'TestMoves$$' -v ./internal/fleet/claims

# Tests that make their cases at random, with CASES of each instead of a few
# dozen: PACKAGE:TESTS. A test logs with what its cases are made again:
#   make properties PROPERTIES=mcp:TestSessionShares CASES="2000 SEED"
CASES      ?= 2000
PROPERTIES ?= \
	internal/server:TestNoBaitIsTaken \
	cmd/belljar:TestNearMisses|TestTableProperty \
	internal/printable:TestWriterProperty \
	mcp:TestSessionShares|TestRefusedLineKeepsID|TestReceiptsOfRandomTalk \
	mcp/tools:TestProfilesHaveBoxes \
	sandbox:TestCommandsApart|TestCommandsApartByNamespace|TestCommandsApartButForSignals \
	sandbox:TestJobMovesNoCommand|TestJobMovesNoCommandByNamespace \
	sandbox:TestRandomExecs|TestRandomExecsChange \
	sandbox/egress:TestRandomSecretDoesNotComeBack \
	sandbox/protect:TestApplyProperty \
	sandbox/protect:TestRandomCommandsNeverReachARepository \
	sandbox/protect:TestRandomDeepRepositoriesNeverRun \
	internal/people/approval:TestWhatIsShownIsWhatIsBound \
	policies/shell:TestNoVariableStartsMore
.PHONY: properties
properties:
	@GO="$(GO)" CASES="$(CASES)" scripts/properties $(foreach p,$(PROPERTIES),'$(p)')

# Every fuzz target for FUZZTIME each, and SCRIPTS random scripts that bash runs
# with stubs for programs: none may start what the policy's reading of it does
# not list. make test runs 300 of them, the same each time; here SEED differs.
FUZZTIME ?= 20s
SCRIPTS  ?= 100000
SEED     ?= $(shell date +%s)
fuzz:
	BELLJAR_TEST_SCRIPTS="$(SCRIPTS) $(SEED)" $(GO) test -v -run 'TestOverlooksNoCommand$$' -timeout 90m ./policies/shell
	@GO="$(GO)" scripts/fuzz $(FUZZTIME)

# Peers that are not ours, against the built binary: the MCP inspector, the
# TypeScript SDK in both eras, and the protocol's own conformance suite with all
# that it requires of two revisions: over HTTP, and behind nginx where that is there. They
# are fetched by npm for this only.
conformance: build
	@scripts/need npm openssl $(if $(TEST_REQUIRE),nginx)
	GO="$(GO)" scripts/conformance bin/belljar
	@if command -v nginx >/dev/null; then GO="$(GO)" scripts/conformance-proxy; else echo "skipped: conformance behind nginx, which is missing"; fi

# The same suite against a server behind the gateway: the outcome must be that of a direct
# connection, but for the differences that scripts/testdata/conformance-gateway.txt has with their reasons.
.PHONY: conformance-gateway
conformance-gateway: build
	@scripts/need npm
	GO="$(GO)" scripts/conformance-gateway bin/belljar

# Agents that people use, run as a whole against a scripted model, with belljar as
# their only tools: what the model is given is compared with golden files below
# scripts/agents/testdata, which UPDATE=1 writes. AGENTS names agents, scenarios or
# AGENT/SCENARIO. Fetched by npm, and no part of CI.
AGENTS ?=
.PHONY: agents
agents: build
	@scripts/need npm openssl
	scripts/agents/run bin/belljar bin/agents $(AGENTS)

# The browser that agents use, beside @playwright/mcp with the same Chromium in one run:
# tokens and times, each with its limit.
.PHONY: bench-act
bench-act: build
	@scripts/need node npm chromium-headless-shell
	scripts/browsers/run act bin/belljar bin/browsers

# MiniWoB++ solved by scripts that have the two tools of the browser and nothing else.
# MINIWOB is a checkout of github.com/Farama-Foundation/miniwob-plusplus; SEEDS=10 tries
# each task more often, and TASKS names tasks.
MINIWOB ?=
TASKS   ?=
.PHONY: miniwob
miniwob: build
	@scripts/need node chromium-headless-shell
	MINIWOB="$(MINIWOB)" scripts/browsers/run miniwob bin/belljar bin/browsers $(TASKS)

# Libraries and programs that speak MCP, each by stdio and by HTTP: what works with
# them, as the table of docs/clients.md has it, which UPDATE=1 writes. Without CLIENTS,
# also: whether the sessions of some go on after belljar was killed.
CLIENTS ?=
.PHONY: clients
clients: build
	@scripts/need npm
	GO="$(GO)" scripts/clients/run bin/belljar bin/clients $(CLIENTS)

# Servers that people use, fetched by npm: what each lists and answers through belljar is
# compared with a direct connection, and so is the time of a start. It needs the network, and is
# no part of CI.
.PHONY: test-upstreams
test-upstreams:
	@scripts/need bash node npm chromium-headless-shell
	BELLJAR_TEST_UPSTREAMS=1 $(GO) test -count=1 -v -run 'TestNpmServers$$' -bench 'Npx$$' -benchtime 5x -timeout 30m ./cmd/belljar

# Which requirements a test names, and which none does.
REQUIREMENTS ?= $(firstword $(wildcard ../shared/REQUIREMENTS.md) docs/requirements.md)
.PHONY: requirements
requirements:
	@scripts/requirements $(REQUIREMENTS)

# The sandbox's tests in virtual machines with another kernel and other control
# groups (internal/vmtest says how guests are named). It skips with one line
# where qemu or a kernel cannot be had, and fails under TEST_REQUIRE=vm. VM_ROOMS
# names the packages, and VM_RUN the tests: make test-vm VM_RUN='^TestEscape$$'.
# With them run those that need systemd. Left out is what no kernel changes, and from the matrix what takes long for one
# answer.
VM_ROOMS  ?= sandbox sandbox/cgroup sandbox/protect
VM_GUESTS ?= 6.12/v2/root 6.12/v2/delegated 6.12/v2/plain
VM_MATRIX ?= 6.1/v1/root 6.1/v2/root 6.12/v2/root 6.12/v2/delegated
VM_RUN    ?= .
VM_SKIP   ?= ^TestBypassLimits$$
.PHONY: test-vm test-vm-matrix test-vm-power vm
test-vm: test-vm-power
test-vm: GUESTS = $(VM_GUESTS)
test-vm-matrix: GUESTS = $(VM_MATRIX)
test-vm-matrix: VM_SKIP = ^(TestToolsWork|TestClients.*|TestOrdinaryGit.*|TestGitReads.*|TestSwaps.*|TestManyRepositories|TestLyingInit|TestBypassLimits)$$
test-vm test-vm-matrix: vm
	@status=0; for room in $(VM_ROOMS); do echo "$$room:"; \
		$(GO) test -c -o bin/$$(basename $$room).test ./$$room && \
		bin/vmtest -guests "$(GUESTS)" -timeout 31m -tally -dir $$room bin/$$(basename $$room).test -test.v -test.run '$(VM_RUN)' -test.skip '$(VM_SKIP)' -test.timeout 30m || status=$$?; \
	done; exit $$status

# Writers of every room that keeps something, from whose guest the power is
# taken VM_CUTS times: nothing that they said is kept may be lost. One of them is a
# fleet whose place moves to and fro (S16). A seed that was printed makes the same cuts
# again.
VM_POWER ?= 6.12/v2/root
VM_CUTS  ?= 20
test-vm-power: vm
	@$(GO) test -c -trimpath -ldflags '-s -w' -o bin/durable.test ./internal/durable
	@bin/vmtest -guests "$(VM_POWER)" -cuts $(VM_CUTS) $(addprefix -seed ,$(VM_SEED)) -timeout 5m bin/durable.test

# What needs a host with systemd: a guest of its own for an ordinary user who has
# logged in there, and one for root.
VM_SYSTEMD ?= 6.12/v2/login 6.12/v2/systemd
.PHONY: test-vm-systemd
test-vm: test-vm-systemd
test-vm-systemd: vm
	@$(GO) test -c -trimpath -ldflags '-s -w' -o bin/belljar.test ./cmd/belljar
	@bin/vmtest -guests "$(VM_SYSTEMD)" -timeout 31m -tally -dir cmd/belljar bin/belljar.test -test.v -test.run '^(TestLogin|TestOperating|TestFrontAndWorkerUnits)$$' -test.timeout 30m

# The cluster in a guest: fronts and workers, each in a network namespace with a cable of
# its own, that are killed, frozen and cut off, on a kernel that nothing else shares. It
# shows that a fleet works on that kernel, with its limits and namespaces. It does not show two
# machines: all nodes share the guest's kernel, clock and disk, and without KVM its times say
# nothing. How many calls and kills there are is the default of the tests, not CALLS and KILLS.
VM_CLUSTER ?= 6.12/v2/root
.PHONY: test-vm-cluster
test-vm-cluster: vm
	@$(GO) test -c -trimpath -ldflags '-s -w' -o bin/belljar.test ./cmd/belljar
	@bin/vmtest -guests "$(VM_CLUSTER)" -timeout 46m -tally -dir cmd/belljar bin/belljar.test -test.v -test.run '^TestFleet(WorkerKilled|FrontKilled|WorkerFrozen|Drain|Cancel|Cables|PlaceMoves)$$' -test.timeout 45m

# Packages for Debian and rpm, an image for containers, the chart, the lists of what is in
# them, and the checksums of all, in bin/packages (docs/packages.md). PACKAGES="deb rpm"
# makes no image, which needs mmdebstrap.
.PHONY: packages test-packages test-chart
packages:
	@rm -rf bin/packages
	@GO="$(GO)" scripts/packages/build bin/packages

# Whether two builds are the same, and whether the packages can be installed, upgraded and
# removed in a clean Debian, as root. REPRODUCE=full compiles all of it twice.
test-packages:
	@rm -rf bin/packages
	@GO="$(GO)" scripts/packages/test bin/packages

# What docs/chart renders, against the schemas of Kubernetes, and the command lines in it,
# in the compose file and in the units. Go fetches helm and the schemas.
test-chart: build
	@GO="$(GO)" scripts/chart bin/belljar

# docs/packages.md in a guest with systemd, with the packages that are there.
.PHONY: test-vm-packages
test-vm-packages: vm
	@test -e bin/packages/SHA256SUMS || $(MAKE) --no-print-directory packages
	@$(GO) test -c -trimpath -ldflags '-s -w' -o bin/belljar.test ./cmd/belljar
	@bin/vmtest -guests "6.12/v2/systemd" -timeout 31m -tally -dir cmd/belljar bin/belljar.test -test.v -test.run '^TestPackages$$' -test.timeout 30m

vm:
	@scripts/need qemu-system-x86_64 mke2fs || true
	@$(GO) build -trimpath -o bin/vmtest ./internal/vmtest

clean:
	rm -rf bin node_modules
