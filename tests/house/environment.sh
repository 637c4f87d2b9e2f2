#!/bin/bash
# Every environment variable that the library reads is in the table of docs/environment.md, and that table has no others.
cd "$(dirname "$0")/../.." || exit 1
read_in_src=$(grep -rhoE '"LOCKSTEP_[A-Z0-9_]+"' src | tr -d '"' | sort -u)
documented=$(sed '/^The build reads/,$d' docs/environment.md | grep -oE '^\| `LOCKSTEP_[A-Z0-9_]+`' | grep -oE 'LOCKSTEP_[A-Z0-9_]+' | sort -u)
difference=$(diff <(echo "$documented") <(echo "$read_in_src")) && exit 0
echo "docs/environment.md (<) and getenv in src/ (>) differ:"
echo "$difference"
exit 1
