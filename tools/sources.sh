#!/bin/sh
# Writes the header that ties rows of tables to the kernels they were measured with: per family and instruction set the
# first twelve digits of a hash over the sources: the family's own files and the headers that all families share.
cd "$(dirname "$0")/.." || exit 2
LC_ALL=C
export LC_ALL
families="dense experts norm attn"
shared() {
    for f in src/op/exp.h src/op/quant.h src/op/cpu/*; do
        own=no
        for family in $families; do
            case ${f##*/} in "$family"_*) own=yes ;; esac
        done
        [ $own = no ] && echo "$f"
    done
}
own() { # family isa
    if [ "$2" = ref ]; then
        ls src/op/ref/ref.* src/op/ref/"$1"_*
    else
        ls src/op/cpu/"$1"_*.h src/op/cpu/"$1"*_"$2".c 2>/dev/null
    fi
}
echo "/* sources.h: made by tools/sources.sh; do not edit. */"
echo "#define OP_SOURCES(S) \\"
for family in $families; do
    for isa in ref avx2 avx512 avx512bf16; do
        # shellcheck disable=SC2046
        hash=$(cat $(shared) $(own "$family" $isa) | sha256sum | cut -c1-12)
        echo "    S($(echo "$family" | tr a-z A-Z), $(echo $isa | tr a-z A-Z), \"$hash\") \\"
    done
done
echo
