#!/bin/bash
# The tests of this folder find what they should. Each is run over a small tree in a temporary folder, whose lines that must be
# found contain "// bad"; the test must name exactly these lines, as FILE:LINE. Beside them are lines without a fault.
home=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree" || exit 1
wrong=0

new_tree() { # a house in which all is well
    rm -rf "${tree:?}"/*
    mkdir -p src/core src/format src/op src/layer src/kernel src/device include/lockstep cli helper \
        tests/house tests/unit bench examples tools cmake .ci
    cp "$home"/tests/house/{*.sh,code,order} tests/house/
    cp "$home/.clang-format" .
    touch Makefile CMakeLists.txt CMakePresets.json
}

file() { # NAME: what it has is read from stdin
    mkdir -p "$(dirname "$1")"
    cat >"$1"
}

finds() { # SCRIPT [ARGUMENT]: it fails, and names the lines that say that they are bad
    local said status named marked
    said=$("tests/house/$1.sh" "${@:2}" 2>&1)
    status=$?
    named=$(grep -oE '^[A-Za-z_0-9./]+:[0-9]+' <<<"$said" | sort -u)
    marked=$(LC_ALL=C grep -arnF '// bad' --exclude-dir=house . | LC_ALL=C sed -E 's,^\./,,; s/^([^:]*:[0-9]+):.*/\1/' | sort -u)
    [ "$status" -ne 0 ] && [ "$named" = "$marked" ] && return
    echo "$1.sh: status $status; <: lines that are bad, >: lines that it names"
    diff <(echo "$marked") <(echo "$named")
    sed 's/^/    /' <<<"$said"
    wrong=1
}

says() { # SCRIPT WORDS [ARGUMENT]: it fails with these words
    local said
    said=$("tests/house/$1.sh" "${@:3}" 2>&1) && { echo "$1.sh: passed, and should say: $2"; wrong=1; }
    grep -qF -- "$2" <<<"$said" || { echo "$1.sh: does not say: $2"; sed 's/^/    /' <<<"$said"; wrong=1; }
}

passes() { # SCRIPT [ARGUMENT]
    local said
    said=$("tests/house/$1.sh" "${@:2}" 2>&1) || { echo "$1.sh: fails where all is well:"; sed 's/^/    /' <<<"$said"; wrong=1; }
}

# ---- code ----
new_tree
file src/op/a.c <<'CODE'
/* of the
 * file */
int a = 1; /* one */ int b; // two
const char *s = "/* no comment \" */"; char c = '"', d = '\'';
int n = 1'000; /* 'a' */
x = y *
    z;
#define TWO \
    (2)
CODE
diff - <(tests/house/code src) <<'CODE' || { echo "code: (<: should be)"; wrong=1; }
src/op/a.c:3:int a = 1;   int b; 
src/op/a.c:4:const char *s = ""; char c = '', d = '';
src/op/a.c:5:int n = 1'000;  
src/op/a.c:6:x = y *
src/op/a.c:7:    z;
src/op/a.c:8:#define TWO \
src/op/a.c:9:    (2)
CODE
diff - <(tests/house/code -s -j src) <<'CODE' || { echo "code -s -j: (<: should be)"; wrong=1; }
src/op/a.c:3:int a = 1;   int b; 
src/op/a.c:4:const char *s = "/* no comment \" */"; char c = '"', d = '\'';
src/op/a.c:5:int n = 1'000;  
src/op/a.c:6:x = y * z;
src/op/a.c:8:#define TWO  (2)
CODE
diff - <(tests/house/code -c src) <<'CODE' || { echo "code -c: (<: should be)"; wrong=1; }
src/op/a.c:1: of the
src/op/a.c:2: * file  
src/op/a.c:3: one   two
src/op/a.c:5: 'a'  
CODE

# ---- words ----
new_tree
mkdir docs
touch README.md CHANGELOG.md
passes words
file src/op/a.c <<'CODE'
int a; /* nobody reads it */ // bad
int b; // the one behind a, bad: // bad
const char *s = "dear"; // bad
/* `behind`, *behind, behind: and DEAR are names
 * so many words // bad
 */
int behind; /* once more */
CODE
file include/lockstep/a.h <<<'int c; /* an error is told */ // bad'
file docs/a.md <<<'Training goes on after that. // bad'
finds words

# ---- sizes ----
new_tree
passes sizes
file src/op/a.c <<'CODE'
/* dim[0] * dim[1] in a comment */
*out = a->dim[0] * b->dim[1]; // bad
n = a->dim[0]*b; // bad
n = k*a->dim[0]; // bad
n *= a->shape.dim[i]; // bad
n = (lk_size(t) + 1) * b; // bad
n = b * (1 + lk_dim(t, 0)); // bad
n = lk_size(t) * n; // bad
n = lki_shape_size(&t->shape) * (int64_t)4; // bad
n = k * // bad
    lk_size(t);
n = 3 * a->units; // bad
p = lki_alloc(n * sizeof *p); // bad
p = lki_alloc(n*4); // bad
if (__builtin_add_overflow(a, b, &c)) return; // bad
p = lki_alloc(sizeof *p);
x = (double)lk_size(t) * 3;
log("lk_size(t) * 3");
void f(int64_t *dim, const lk_shape *s);
CODE
file src/device/cuda/a.cu <<<'n = 2 * lk_size(t); // bad'
file src/device/sim/a.cc <<<'n = 2 * lk_size(t); // bad'
file cli/a.c <<<'n = 2 * lk_size(t); // bad'
file src/kernel/a.c <<<'n = 2 * x->dim[0];'
finds sizes

# ---- rules ----
new_tree
cp -r "$home/include" .
cp "$home"/src/core/*.h src/core/
for own in $(sed -nE 's,^(src/[^ ]*\.c[cu]) .*,\1,p' tests/house/rules.sh); do file "$own" <"$home/$own"; done
passes rules
file src/op/a.c <<'CODE'
/* malloc(3) */
*out = malloc(3); // bad
malloc(3); // bad
x = strndup(y, 3); // bad
x = reallocarray(x, 3, 4); // bad
dprintf(2, "x"); // bad
fputc('x', f); // bad
putc('x', f); // bad
fwrite("x", 1, 1, stderr); // bad
fwrite("x", 1, 1, f);
exit(1); // bad
snprintf(x, 3, "%Lg", y); // bad
snprintf(x, 3, "%-5.1f", // bad
         y);
snprintf(x, 3, "%d of %zu", y, z);
f = fopen("x", "r"); // bad
x->free(y);
log("malloc(3)");
CODE
file src/device/cuda/a.cu <<'CODE'
std::cerr << 1; // bad
std::ofstream f(name); // bad
int *x = new int[3]; // bad
int *x = new unsigned char; // bad
int *x = new (std::nothrow) thing(3); // bad
std::vector<int> x; // bad
CODE
file cli/a.c <<<'setlocale(LC_ALL, ""); // bad'
file helper/a.c <<<'open("x", 0); // bad'
finds rules

# ---- layers ----
new_tree
sed "s,TAB,\t," <<'CODE' | file src/op/a.cuh
#include "step/plan.h" // bad
#include <step/plan.h> // bad
#TAB include "step/plan.h" // bad
  #include "plan/plan.h" // bad
#include "nowhere/a.h" // bad
#include "core/base.h"
#include "op.h"
#include <sys/stat.h>
/* #include "step/plan.h" */
CODE
file src/op/a.cpp <<<'#include "step/plan.h" // bad'
finds layers
new_tree
mkdir src/new
says layers "src/new: a folder that is not in the order"
new_tree
list_folders() { for folder; do printf '  %s/   holds\n' "$folder"; done; }
list_folders $(cat tests/house/order) | file README.md
passes layers
list_folders core lane format | file README.md
says layers "README.md lists the folders of src/ as: core lane format"

# ---- names ----
new_tree
file src/core/a.h <<'CODE'
typedef enum { LK_A } lk_a;
struct lk_b { int x; };
typedef int (*lk_c)(int);
struct lk_d;
typedef struct lk_d lk_d;
enum class lk_e { A };
struct pair { int x; };
struct lk_g { int x; };
CODE
file src/op/a.h <<'CODE'
typedef enum { LK_A } lk_a; // bad
static const struct __attribute__((packed)) lk_b { int x; } b; // bad
using lk_c = int; // bad
struct lk_d;
typedef struct lk_d lk_d;
struct outer { // no other has it
    struct lk_g { int x; } inner; // bad
};
enum class lk_e : int { B }; // bad
struct alignas(16) pair { int y; }; // bad
template <> struct lk_g<int> { int y; };
struct lk_g f(void);
CODE
file tests/unit/a.h <<<'typedef struct lk_g { int x; } lk_g; // bad'
file tests/unit/own.h <<<'struct own { int x; };'
file tests/op/own.h <<<'struct own { int x; };'
file bench/one.h <<<'struct bench { int x; };'
file bench/two.h <<<'struct bench { int x; }; // bad'
file src/op/a.c <<<'struct pair { int x; };'
finds names

# ---- lines ----
long=$(printf '%0150d' 0)
new_tree
passes lines
file src/op/a.cu <<<"int x = $long; // bad"
file src/op/a.c <<<$'int x;\t// bad'
file tests/op/a.sh <<<$'x\t# // bad'
file tools/a <<<$'# \xff // bad'
file cmake/a.cmake <<<$'# \t // bad'
file tools/b <<<"# $long // bad"
file tests/op/a.py <<<"# $long // bad"
file Makefile <<<$'all:\n\techo\techo # // bad'
finds lines

# ---- environment ----
new_tree
find tests/house -name '*.sh' -not -name environment.sh -delete # those read variables too
document() { # variables of the library, and of tests
    printf '| variable |\n'
    printf '| `LOCKSTEP_%s` |\n' $1
    printf 'The build reads these\n'
    printf '| `LOCKSTEP_%s` |\n' $2
}
document "A B" "T S" | file docs/environment.md
file src/core/a.c <<<'x = getenv("LOCKSTEP_A"); y = number("LOCKSTEP_B", 3); /* "LOCKSTEP_C" */'
file tests/unit/a.c <<<'x = getenv("LOCKSTEP_T");'
file tools/a <<<'echo "${LOCKSTEP_S:-3}"'
passes environment
document "A" "T S" | file docs/environment.md
says environment "> LOCKSTEP_B"
document "A B D" "T S" | file docs/environment.md
says environment "< LOCKSTEP_D"
document "A B" "S" | file docs/environment.md
says environment "LOCKSTEP_T"
document "A B" "T" | file docs/environment.md
says environment "LOCKSTEP_S"
document "A B" "T S U" | file docs/environment.md
says environment "LOCKSTEP_U"

# ---- format ----
new_tree
if tests/house/format.sh >/dev/null 2>&1; then # 77 where there is no clang-format 14
    file src/op/a.cu <<<'int  x ; // bad'
    finds format
fi

# ---- links: a build folder of objects that are compiled here ----
new_tree
link_tree() { # COMMAND...: objects of src/*/*.c, and CMake's list of them
    local source object
    rm -rf build
    for source in src/*/*.c; do
        object=CMakeFiles/lockstep_objects.dir/$source.o
        mkdir -p "build/$(dirname "$object")"
        ${CC:-cc} -c "$source" -o "build/$object" || wrong=1
        echo "  \"command\": \"cc -o $object -c $tree/$source\","
    done >build.json
    mv build.json build/compile_commands.json
    echo '  "command": "cc -o CMakeFiles/lockstep_avx2.dir/none.o"' >>build/compile_commands.json
}
file src/core/a.c <<<'void lki_low(void) {}'
file src/op/a.c <<<'void lki_low(void); void lki_high(void) { lki_low(); }'
link_tree
passes links build
file src/core/b.c <<<'void lki_high(void); void lki_upward(void) { lki_high(); }'
link_tree
says links "src/core/b.c calls lki_high of src/op/a.c" build
file src/core/b.c <<<'void lki_high(void) __attribute__((weak)); void lki_upward(void) { if (lki_high) lki_high(); }'
link_tree
says links "src/core/b.c calls lki_high of src/op/a.c" build
file src/core/b.c <<<'int lki_fine;'
link_tree
rm build/CMakeFiles/lockstep_objects.dir/src/core/b.c.o
says links "src/core/b.c: it has no object" build
sed -i '/core\/b/d' build/compile_commands.json
says links "src/core/b.c: nothing compiles it" build

# ---- devices ----
new_tree
for i in 1 2 3 4 5; do file "src/op/named$i.c" <<<"lki_device *d$i = LKI_DEVICE_GPU;"; done
file src/op/named6.h <<<'static inline bool here(lki_device *d) { return lki_on_host(d); }'
file src/op/named7.inc <<<'ROW(lki_gpu_cards)'
file src/op/comment.c <<<'/* lki_on_host() is not called here */ const char *s = "LKI_DEVICE_GPU";'
file src/device/null/host.c <<<'int lki_null; int named = sizeof "lki_gpu_cards";'
file src/device/gpu/gpu.c <<<'void lki_card_wait(void) {}'
file src/plan/card/card.c <<<'void lki_card_wait(void); void lki_card_run(void) { lki_card_wait(); }'
file src/op/calls1.c <<<'void lki_card_run(void); void lki_calls1(void) { lki_card_run(); }'
file src/op/other.c <<<'extern int lki_null; int *lki_other(void) { return &lki_null; }'
sed -i 's/^lki_device .*/int lki_named;/' src/op/named1.c
compile_tree() { # objects of the files that a compiler accepts; the others have names that only text shows
    local source
    for source in $(find src -name '*.c'); do
        mkdir -p "build/CMakeFiles/lockstep_objects.dir/$(dirname "$source")"
        ${CC:-cc} -c "$source" -o "build/CMakeFiles/lockstep_objects.dir/$source.o" 2>/dev/null
    done
}
says devices "no object of the library" build
compile_tree
passes devices build
file src/op/calls2.c <<<'void lki_card_wait(void); void lki_calls2(void) { lki_card_wait(); }'
compile_tree
passes devices build
file src/op/named1.c <<<'lki_device *d = LKI_DEVICE_GPU;'
says devices "9 files know of GPUs, and 8 may" build
for known in named1.c named5.c named6.h named7.inc calls1.c calls2.c; do says devices "src/op/$known" build; done
said=$(tests/house/devices.sh build)
grep -E 'comment|other|src/(device|plan)' <<<"$said" && { echo "devices.sh: names a file that does not know GPUs"; wrong=1; }

exit $wrong
