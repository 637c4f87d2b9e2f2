#!/bin/bash
# The folders of src/ have an order (the file `order`); a file includes headers of its own folder and of folders before it, and of
# no other. links.sh says the same of what it calls.
# Public headers include nothing but standard headers and each other.
cd "$(dirname "$0")/../.." || exit 1
bad=0

find src -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | grep -vxFf <(tr ' ' '\n' <tests/house/order) |
    sed 's,.*,src/&: a folder that is not in the order (tests/house/order),' | grep . && bad=1

grep -rnE '^ *# *include *"[^"]*/' src --include='*.'{c,h,inc,cu,cc,hpp} | awk -v order="$(cat tests/house/order)" '
    BEGIN { for (i = split(order, name, " "); i > 0; i--) rank[name[i]] = i }
    {
        split($0, place, ":")
        split(place[1], path, "/")
        split($0, quoted, "\"")
        other = quoted[2]
        sub(/\/.*/, "", other)
        where = place[1] ":" place[2]
        if (!(other in rank)) wrong = sprintf("%s: includes \"%s\", which is in no folder of src/", where, quoted[2])
        else if (rank[other] > rank[path[2]])
            wrong = sprintf("%s: src/%s may not include \"%s\": src/%s comes after it", where, path[2], quoted[2], other)
        else next
        print wrong
        bad = 1
    }
    END { exit bad }' || bad=1

while IFS=: read -r file line text; do
    case $text in
    *'<std'*'.h>'* | *'<math.h>'* | *'<limits.h>'* | *'<initializer_list>'*) ;;
    *'"'*'.h"'*) [ -f "include/lockstep/$(sed 's/.*"\(.*\)".*/\1/' <<<"$text")" ] || { echo "$file:$line: $text"; bad=1; } ;;
    *) echo "$file:$line: a public header includes $text"; bad=1 ;;
    esac
done < <(grep -nE '^# *include' include/lockstep/*.h)
exit $bad
