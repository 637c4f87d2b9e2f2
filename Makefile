# A thin front on the presets of CMakePresets.json; everything it builds is under build/.
#
#   make                      the library, the command and the examples (a C11 compiler, make and CMake are enough)
#   make test                 build and run all tests; the last line is "N passed, N failed"
#   make asan, make tsan      the same under AddressSanitizer with UBSan, under ThreadSanitizer
#   make test-all             what CI runs and what takes too long for every change ; tools/test-all lists it
#   make fuzz SECONDS=N       readers of files on hostile ones, N seconds each (default 600; tools/fuzz); TARGET=png: one of them
#   make soak CYCLES=N        a training killed N times (default 500) that resumes each time; every fault of tests/fault, in full;
#                             readers of files on hostile ones, a minute each; SEED=N; tools/soak
#   make cuda                 the backend for CUDA cards, with nvcc; everything else is built without it
#   make test-cuda            the tests of GPUs on this machine's card; `make test` runs them on simulated ones
#   make golden GOLDEN=DIR    compare with stored results of TensorFlow
#   make interop PYTHON=...   exchange checkpoints with TensorFlow and models with Keras, of that Python (tests/interop/*.py)
#   make examples             build them
#   make bench                lockstep beside TensorFlow, PyTorch and JAX, which it installs under build/; tables, build/bench.json,
#                             build/bench.svg. MODELS=FILE measures other models, BENCH=step runs one program of bench/,
#                             BENCH="ops exp log" with arguments; tools/bench
#   make bench-cuda           the same on this machine's card, beside the PyTorch and JAX of PYTHON (python3): a table and
#                             build/bench-cuda.json. MODELS=basic,custom BENCH_BATCHES=64,8192 BENCH_SECONDS=1
#                             BENCH_CUDA="--train --limit 150"; bench/compare_cuda says more
#   make bench-quick          have steps become slower? Counts their instructions; UPDATE=1 keeps what it counted as the reference
#   make train                build the command and run `lockstep train basic`: three epochs on drawn digits, on all devices
#   make install PREFIX=DIR   default /usr/local; DESTDIR is honoured
#   make format, make clean
#
# TEST=PATTERN runs some of the tests, LK_WERROR=ON makes warnings errors, JOBS=N builds with N processes, V=1 shows commands,
# CMAKE_ARGS=... goes to cmake.
PREFIX ?= /usr/local
GOLDEN ?= $(LOCKSTEP_GOLDEN)
TEST ?=
export LK_WERROR CMAKE_ARGS JOBS V MODELS BENCH_BATCHES BENCH_ROUNDS BENCH_SECONDS BENCH_ONLY

all: need
	@tools/build release all examples

need:
	@tools/need build

need-test:
	@tools/need build test

test: need-test
	@tools/build release tests
	@tools/run-tests build/release $(TEST)

asan tsan: need-test
	@tools/build $@ tests
	@tools/run-tests build/$@ $(TEST)

test-all: need-test
	@tools/test-all $(CYCLES)

cuda: need
	@command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || { echo "no nvcc here: the CUDA toolkit has it" >&2; exit 1; }
	@tools/build release lockstep_cuda

test-cuda: cuda need-test
	@tools/build release tests
	@tools/test-cuda build/release

fuzz: need
	@tools/fuzz $(or $(SECONDS),600) $(TARGET)

soak: need-test
	@tools/build release tests_dist tests_fault tests_fault_saves tests_fault_backups lockstep_command
	@tools/soak build/release $(or $(CYCLES),500) $(SEED)

debug: need
	@tools/build debug all examples

golden: need-test
	@$(if $(GOLDEN),,echo "usage: make golden GOLDEN=DIR" >&2; exit 1)
	@tools/build release tests_golden
	@build/release/tests/golden/golden $(GOLDEN)

interop: need-test
	@tools/build release tests_interop lockstep_command
	@tools/interop build/release

examples: need
	@tools/build release examples

bench: need
	@tools/build release benches lockstep_command
	@tools/bench build/release $(BENCH)

bench-cuda: need
	@nvidia-smi -L >/dev/null 2>&1 || \
	    { echo "bench-cuda: no card here: nvidia-smi, which comes with NVIDIA's driver, is missing or finds none" >&2; exit 1; }
	@$(MAKE) --no-print-directory cuda
	@tools/build release bench_model lockstep_command
	@$(or $(PYTHON),python3) bench/compare_cuda --build build/release --models $${MODELS:-basic,custom} \
		--batches $${BENCH_BATCHES:-64,8192} --seconds $${BENCH_SECONDS:-1} --out build/bench-cuda.json $(BENCH_CUDA)

bench-quick: need
	@tools/build release bench_model
	@tools/bench-quick build/release $(if $(UPDATE),--update)

train: need
	@tools/build release lockstep_command
	@build/release/cli/lockstep train basic

install: need
	@tools/build release all
	@cmake --install build/release --prefix $(PREFIX)

format:
	@tools/need format
	@tests/house/format.sh --mend

clean:
	rm -rf build

.PHONY: all need need-test test test-all asan tsan cuda test-cuda fuzz soak debug golden interop examples bench bench-cuda \
    bench-quick train install format clean
