#!/bin/bash
# The folders of src/ are in this order; a file includes headers of its own folder and of folders before it, and of no other.
# Public headers include nothing but standard headers and each other.
order="core format device kernel comm op tape step dist data nn layer model keras fit files"
cd "$(dirname "$0")/../.." || exit 1
bad=0

rank_of() {
    local rank=0 folder
    for folder in $order; do
        [ "$folder" = "$1" ] && echo $rank && return
        rank=$((rank + 1))
    done
    return 1
}

for folder in src/*/; do
    folder=$(basename "$folder")
    own=$(rank_of "$folder") || { echo "src/$folder: a folder that is not in the order: $order"; bad=1; continue; }
    while IFS=: read -r file line text; do
        included=$(sed -n 's/^# *include *"\([^"]*\)".*/\1/p' <<<"$text")
        case $included in
        */*) other=${included%%/*} ;;
        *) continue ;; # beside it
        esac
        if ! rank=$(rank_of "$other"); then
            echo "$file:$line: includes \"$included\", which is in no folder of src/"
            bad=1
        elif [ "$rank" -gt "$own" ]; then
            echo "$file:$line: src/$folder may not include \"$included\": src/$other comes after it"
            bad=1
        fi
    done < <(grep -rnE '^# *include *"' "src/$folder" --include='*.[ch]' --include='*.inc')
done

while IFS=: read -r file line text; do
    case $text in
    *'<std'*'.h>'* | *'<math.h>'* | *'<limits.h>'* | *'<initializer_list>'*) ;;
    *'"'*'.h"'*) [ -f "include/lockstep/$(sed 's/.*"\(.*\)".*/\1/' <<<"$text")" ] || { echo "$file:$line: $text"; bad=1; } ;;
    *) echo "$file:$line: a public header includes $text"; bad=1 ;;
    esac
done < <(grep -nE '^# *include' include/lockstep/*.h)
exit $bad
