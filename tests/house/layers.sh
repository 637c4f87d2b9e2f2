#!/bin/bash
# The folders of src/ have an order (the file `order`). A file includes headers of its own folder and of earlier folders only.
# links.sh checks the same for calls. README.md and docs/architecture.md list the folders in this order.
# Public headers include only standard headers and each other.
cd "$(dirname "$0")/../.." || exit 1
bad=0

find src -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | grep -vxFf <(tr ' ' '\n' <tests/house/order) |
    sed 's,.*,src/&: a folder that is not in the order (tests/house/order),' | grep . && bad=1

for document in README.md docs/architecture.md; do
    [ -f $document ] || continue
    listed=$(grep -oE '^(  |\| `)[a-z]+/' $document | tr -d ' |`/' | xargs)
    [ "$listed" = "$(cat tests/house/order)" ] || { echo "$document lists the folders of src/ as: $listed"; bad=1; }
done

# Headers of src/ in quotes or in angle brackets, where a path that begins with a folder of src/ is one of them. A header that a
# macro names is not seen.
include='^[^:]*:[0-9]+:[[:space:]]*#[[:space:]]*(include|include_next|import)[[:space:]]*'
tests/house/code -s src | grep -E "${include}[<\"]" | awk -v order="$(cat tests/house/order)" '
    BEGIN { for (i = split(order, name, " "); i > 0; i--) rank[name[i]] = i }
    {
        split($0, place, ":")
        split(place[1], path, "/")
        quoted = $0 ~ /^[^"<]*"/
        header = $0
        sub(/^[^"<]*["<]/, "", header)
        sub(/[">].*/, "", header)
        other = header
        if (!sub(/\/.*/, "", other)) next
        where = place[1] ":" place[2]
        if (!(other in rank)) {
            if (!quoted) next
            wrong = sprintf("%s: includes \"%s\", which is in no folder of src/", where, header)
        } else if (rank[other] > rank[path[2]])
            wrong = sprintf("%s: src/%s may not include \"%s\": src/%s comes after it", where, path[2], header, other)
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
done < <(tests/house/code -s include/lockstep | grep -E '\.h:' | grep -E "$include")
exit $bad
