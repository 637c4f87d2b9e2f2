#!/bin/bash
# The tools that count tests count right: tools/run-tests with programs that end in all possible ways, tools/stages with commands
# that print totals of others, and tools/build, which forgets the settings of earlier calls.
home=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
wrong=0

same() { # what, what it should be, what it is
    [ "$2" = "$3" ] && return
    echo "$1: (<: should be)"
    diff <(echo "$2") <(echo "$3")
    wrong=1
}

# ---- run-tests ----
one() { # NAME KIND SCRIPT, then what is said of it: "passed failed skipped why"
    printf '#!/bin/bash\n%s\n' "$3" >"$1"
    chmod +x "$1"
    echo "made/$1|$2|$work/$1" >tests.list
    LOCKSTEP_TEST_TIMEOUT=1 "$home/tools/run-tests" "$work" >"$1.log"
    local status=$? passed failed skipped why
    read -r passed failed skipped _ _ why <"test-results/made_$1.count"
    same "run-tests, $1" "$4" "$passed $failed $skipped $why"
    same "run-tests, status of $1" "$([[ $4 =~ ^[1-9]+\ 0\  ]]; echo $?)" $status
}
one good program 'echo 1..2; echo ok 1; echo ok 2' "2 0 0 exit status 0"
one skips program 'echo 1..2; echo ok 1; echo "not ok 2 # SKIP"' "1 0 1 exit status 0"
one fails program 'echo 1..2; echo ok 1; echo not ok 2; exit 1' "1 1 0 exit status 1"
one more program 'echo 1..1; echo ok 1; echo ok 2' "2 1 0 1 more results than it planned"
one fewer program 'echo 1..2; echo ok 1' "1 1 0 1 results fewer than it planned"
one badly program 'echo 1..1; echo ok 1; exit 3' "1 1 0 exit status 3"
one totals program 'echo "3 passed, 1 failed"; exit 1' "3 1 0 exit status 1"
one nothing program '' "0 1 0 it did not say how many tests it has"
one text program 'echo hello' "0 1 0 it did not say how many tests it has"
one without program 'exit 77' "0 0 1 exit status 77"
one silent script '' "1 0 0 exit status 0"
one long program 'echo 1..1; exec sleep 60' "0 1 0 no end within 1 s"
one killed program 'echo 1..1; kill -KILL $$' "0 1 0 ended by KILL"
one aborts program 'kill -ABRT $$' "0 1 0 ended by ABRT"
one like_timeout program 'exit 124' "0 1 0 exit status 124"

# ---- stages: a total before the last one does not hide behind it ----
stages() { # commands of a script
    (cd "$home" && bash -c ". tools/stages; $1; stages_end" 2>&1) | tail -n 1
}
same "one stage" "2 passed, 0 failed" "$(stages 'stage echo "2 passed, 0 failed"')"
same "two stages" "5 passed, 1 failed" "$(stages 'stage echo "2 passed, 0 failed"; stage echo "3 passed, 1 failed"')"
same "no total" "1 passed, 1 failed" "$(stages 'stage true; stage false')"
same "totals of others first" "9 passed, 2 failed" \
    "$(stages 'stage printf "4 passed, 1 failed\n5 passed, 1 failed\n9 passed, 2 failed\n"')"
same "a hidden failure" "9 passed, 1 failed" "$(stages 'stage printf "4 passed, 1 failed\n9 passed, 0 failed\n"')"
same "a bad end" "9 passed, 1 failed" "$(stages 'stage sh -c "echo 9 passed, 0 failed; exit 1"')"

# ---- build ----
mkdir -p tools && cp "$home/tools/build" tools/
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(made NONE)
option(LK_WERROR "" OFF)
option(ONE "" OFF)
set(LIST "1;2" CACHE STRING "what it is, which stands above the entry in the cache")
set(PRESET "" CACHE STRING "")
file(WRITE ${PROJECT_BINARY_DIR}/settings "ONE=${ONE} LIST=${LIST} PRESET=${PRESET}")
add_custom_target(nothing)
CMAKE
cat >CMakePresets.json <<'JSON'
{"version": 6, "configurePresets": [{"name": "made", "generator": "Unix Makefiles", "binaryDir": "${sourceDir}/build/${presetName}",
  "cacheVariables": {"PRESET": "preset", "CMOCKA_FOUND": {"type": "INTERNAL", "value": "1"},
    "JANSSON_FOUND": {"type": "INTERNAL", "value": "1"}}}],
 "buildPresets": [{"name": "made", "configurePreset": "made"}]}
JSON
built() { # CMAKE_ARGS, what was set
    CMAKE_ARGS=$1 tools/build made nothing >build.log 2>&1 || { echo "build with \"$1\" failed:"; cat build.log; wrong=1; }
    same "build with \"$1\"" "$2" "$(cat build/made/settings)"
}
unset MAKEFLAGS LK_WERROR
built "" "ONE=OFF LIST=1;2 PRESET=preset"
built "-DONE=ON -DLIST:STRING=3 -DPRESET=mine" "ONE=ON LIST=3 PRESET=mine"
built "-DLIST=3" "ONE=OFF LIST=3 PRESET=preset"
CMAKE_ARGS="-DONE=ON --no-such-option" tools/build made nothing >build.log 2>&1 &&
    { echo "build: passed with an option of CMake that there is not"; wrong=1; }
built "" "ONE=OFF LIST=1;2 PRESET=preset"
exit $wrong
