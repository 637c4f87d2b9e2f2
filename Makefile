# A thin front on the presets of CMakePresets.json; everything it builds is under build/.
#
#   make                 the library and the examples (a C11 compiler, make and CMake are enough)
#   make test            build and run all tests; the last line is "N passed, N failed"
#   make asan tsan       the same under AddressSanitizer + UBSan, under ThreadSanitizer
#   make golden GOLDEN=DIR    compare with stored results of TensorFlow
#   make examples bench  build them; bench also runs what it built
#   make train           build and run examples/digits
#   make install PREFIX=DIR   default /usr/local; DESTDIR is honoured
#   make format clean
#
# TEST=PATTERN runs some of the tests, LK_WERROR=ON makes warnings errors, JOBS=N builds with N processes.
PREFIX ?= /usr/local
LK_WERROR ?= OFF
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
GOLDEN ?= $(LOCKSTEP_GOLDEN)
CMAKE_ARGS ?=

configure = cmake --preset $(1) -DLK_WERROR=$(LK_WERROR) $(CMAKE_ARGS) --log-level=$(if $(V),STATUS,WARNING) >build/.configure.$(1) || { cat build/.configure.$(1); exit 1; }
build = mkdir -p build && $(call configure,$(1)) && cmake --build --preset $(1) -j $(JOBS) --target $(2) -- --no-print-directory $(if $(V),,-s)
test = $(call build,$(1),tests) && tools/run-tests build/$(1) $(TEST)

all: need
	@$(call build,release,all examples)

need:
	@tools/need build

need-test:
	@tools/need build test

test: need-test
	@$(call test,release)

asan: need-test
	@$(call test,asan)

tsan: need-test
	@$(call test,tsan)

debug: need
	@$(call build,debug,all examples)

golden: need-test
	@$(if $(GOLDEN),,echo "usage: make golden GOLDEN=DIR" >&2; exit 1)
	@$(call build,release,tests_golden_golden)
	@build/release/tests/golden/golden $(GOLDEN)

examples: need
	@$(call build,release,examples)

bench: need
	@$(call build,release,benches)
	@for program in build/release/bench/*; do [ ! -f $$program ] || [ ! -x $$program ] || { echo "== $$program"; $$program || exit 1; }; done

train: need
	@$(call build,release,examples_digits)
	@build/release/examples/digits

install: need
	@$(call build,release,all)
	@cmake --install build/release --prefix $(PREFIX)

format:
	@tools/need format
	@find include src tests examples bench cli -name '*.[ch]' 2>/dev/null | xargs clang-format -i

clean:
	rm -rf build

.PHONY: all need need-test test asan tsan debug golden examples bench train install format clean
