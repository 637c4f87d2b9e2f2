#!/bin/bash
# Public headers, documents, messages and comments are plain English (CONTRIBUTING.md, "Words").
#
# A word is in the list if readers had to read its sentences twice, if plain English has another word for every use of it here,
# and if it has next to no other use: "behind" for after, "so many" for n, "is told" for is reported, persons for threads and code.
# Plain words that also have good uses, such as "take" or "leave", are not listed; reviewers look for those.
#
# Names in the code are not words: `behind`, *behind, behind: and constants in capitals are allowed.
cd "$(dirname "$0")/../.." || exit 1

words='\b(whoever|nobody|somebody|everybody|everyone)\b|\bso many\b|(?<![`*])\bbehind\b(?![:`])|\banew\b|(?-i:\b[Dd]ear(er)?\b)'
words+='|\blaid down\b'
words+="|\\b(is|are|was|were|be|been) told\\b"
words+="|\\b(go|goes|going|went) on (with|from|where|in|as|after)\\b|(training|run|work) goes on\\b"
words+="|\\bone's own\\b|\\b(lose|loses|lost) track\\b|(?<!there )\\b(is|are) no (?!longer|more|other|less)[a-z]"

report() { # what the lines on standard input are: prints those with such words
    local found
    found=$(LC_ALL=C.UTF-8 grep -iP "$words")
    [ -z "$found" ] && return
    echo "$1 with words that CONTRIBUTING.md lists:"
    cut -c1-200 <<<"$found"
}

check() {
    local pages file
    pages=$(find include README.md CHANGELOG.md docs -type f \( -name '*.h' -o -name '*.hpp' -o -name '*.md' -o -name '*.1' \) \
        -not -path 'docs/notebook/*' | sort)
    grep -n '' $pages /dev/null | report "headers and documents"

    # String literals: comments are removed first, those of several lines by the star that begins each of their lines.
    for file in $(find src cli helper -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' \) | sort); do
        sed -E 's@/\*([^*]|\*[^/])*(\*/|$)@@g; /^ *\*/d' "$file" | grep -noE '"([^"\\]|\\.)*"' | sed "s@^@$file:@"
    done | report "messages"

    tests/house/code -c src cli helper | report "comments"
}
found=$(check)
[ -z "$found" ] && exit 0
echo "$found"
exit 1
