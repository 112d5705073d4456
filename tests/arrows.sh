#!/bin/sh
# The arrows of the house: which room may include which. Reads the #include "room/..." lines of src and cmd; prints every
# other one and fails. A room shows its neighbours one header of its own name (op shows a few, see `shown`).
cd "$(dirname "$0")/.." || exit 2
bad=0
allowed() {
    case $1 in
    base) echo base ;;
    op) echo op base ;;
    dev) echo dev base ;;
    plan) echo plan op dev base ;;
    moe) echo moe plan op dev base ;;
    model) echo model moe plan op dev base ;;
    lab) echo base ;;
    cmd) echo cmd base op dev plan moe model lab ;;
    esac
}
# Headers a neighbour may include.
shown=" base/base.h op/op.h op/kernel.h op/align.h op/check.h op/count.h op/count_matrix.h op/cuda/text.h op/cuda/args.h dev/dev.h dev/cuda.h plan/plan.h plan/gemm.h plan/foreign.h plan/table.h plan/recipe.h plan/lint.h plan/answer.h plan/workspace.h plan/gpu.h plan/count.h moe/moe.h moe/count.h moe/bits.h model/model.h lab/lab.h "
for file in $(git ls-files 'src/*.c' 'src/*.h' 'cmd/*.c' 'cmd/*.h'); do
    case $file in
    cmd/*) room=cmd ;;
    *) room=${file#src/} room=${room%%/*} ;;
    esac
    for target in $(sed -n 's/^ *# *include "\([a-z_]*\/[^"]*\)".*/\1/p' "$file"); do
        to=${target%%/*}
        case " $(allowed $room) " in
        *" $to "*) ;;
        *) echo "$file: $room may not include $target" && bad=1 ;;
        esac
        [ "$to" = "$room" ] && continue
        case $shown in
        *" $target "*) ;;
        *) echo "$file: $target is private to $to" && bad=1 ;;
        esac
    done
done
[ $bad = 0 ] && echo "arrows ok"
exit $bad
