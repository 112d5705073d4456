/* fault.c: is this fault the planted one? */
#include "fault.h"
#include "switch.h"

bool fault_planted(fault f) {
    return f != FAULT_NONE && switch_get(SWITCH_PLANT) == (long)f;
}
